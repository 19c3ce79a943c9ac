"""The attempts of one step, played together; and which of them count.

The rule: an attempt that the surroundings failed (its environment, a model that did not answer, a
grader) says nothing about the team. It is left out and played again with another seed. Every other
ending is the team's own and counts: a run that got stuck or ran into a limit earns what was
measured when it ended, and one that broke down before anything could be measured earns 0, or the
least that any episode of the step earned if that is less (or what `Credit.ungraded` says). Failing
never pays.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task
from rolecraft.errors import ModelError
from rolecraft.models.hashing import hash64
from rolecraft.rewards import Ranking, RewardBreakdown
from rolecraft.rewards.opinions import unheard
from rolecraft.rollouts import PipelineSettings, Rollout, ScenarioStages, rollouts
from rolecraft.scenarios import Episode

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.models.limits import Limits
    from rolecraft.scenarios import Scenario
    from rolecraft.trajectories.trajectory import Trajectory

JUDGED_AT_ONCE = 16
"""Groups whose attempts are compared by judges at the same time."""

REFILLS = 2
"""How often an attempt that the surroundings failed is played again."""

Attempt = Rollout[Task, Episode]


@dataclass(slots=True, kw_only=True)
class Played:
    """What a step learns from."""

    rollouts: list[Attempt]
    """Those that count, each with an episode, in the order of their tasks."""
    failed: list[Attempt] = field(default_factory=list)
    """Those that the surroundings failed."""
    refilled: int = 0
    """How many of those were played again."""
    dropped: int = 0
    """How many were thrown away because they were too stale."""
    seconds: float = 0.0
    """In which they were played."""

    def add(self, other: Played) -> None:
        """Take in what was played in addition."""
        self.rollouts += other.rollouts
        self.failed += other.failed
        self.refilled += other.refilled
        self.dropped += other.dropped
        self.seconds += other.seconds

    @property
    def episodes(self) -> list[Episode]:
        return [rollout.episode for rollout in self.rollouts if rollout.episode is not None]


@dataclass(frozen=True, slots=True)
class Compared:
    """A group of attempts at one task that judges were asked about."""

    attempts: list[Attempt]
    failed: ModelError | None = None
    """Why the attempts are without opinions."""

    @property
    def runs(self) -> list[Trajectory]:
        """Of the attempts that came to an episode."""
        return [each.episode.trajectory for each in self.attempts if each.episode is not None]


def seed_of(*parts: int) -> int:
    """A seed made from numbers, exact in any reader of JSON: 53 bits."""
    return hash64(*parts) >> 11


def attempts(tasks: Sequence[Task], group: int, seed: int, step: int) -> list[Task]:
    """`group` copies of each of a step's tasks, every copy with a seed of its own."""
    return [
        replace(task, seed=seed_of(seed, step, number, attempt))
        for number, task in enumerate(tasks)
        for attempt in range(group)
    ]


def again(task: Task, number: int) -> Task:
    """The attempt that takes the place of one, for the `number`-th time: another seed."""
    return replace(task, seed=seed_of(task.seed, number))


class Player:
    """Plays attempts of `scenario`, all of them together.

    `settings` are those of the pipeline; None: all at once, without time limits or second tries.
    `ungraded` is what an attempt is worth that the team broke off itself, where that is said;
    `limits` are those of each episode, instead of the scenario's. `warn` is told of judges that
    did not answer, or nothing that can be read.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        model: Model,
        role_models: Mapping[str, Model],
        settings: PipelineSettings | None = None,
        refills: int = REFILLS,
        ungraded: float | None = None,
        limits: Limits | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.scenario, self._model, self._role_models = scenario, model, role_models
        self._warn = warn
        self._settings, self._refills, self.ungraded = settings, refills, ungraded
        self._options: dict[str, Any] = {} if limits is None else {"limits": limits}
        self.compares = any(isinstance(each, Ranking) for each in scenario.reward.tree())
        """Whether a judge is asked about whole groups of attempts."""
        self._judging = asyncio.Semaphore(JUDGED_AT_ONCE)

    def stages(self) -> ScenarioStages:
        return ScenarioStages(
            self.scenario, model=self._model, role_models=self._role_models, **self._options
        )

    async def play(self, tasks: Sequence[Task]) -> Played:
        """Play them, and again what the surroundings failed. Raises the first error if all fail."""
        began = time.monotonic()
        found = await self._pass(tasks)
        raise_if_all_failed(found)
        failed, refilled = [r for r in found if not r.says_something], 0
        missing = [place for place, r in enumerate(found) if not r.says_something]
        for number in range(1, self._refills + 1):
            if not missing:
                break
            refilled += len(missing)
            new = await self._pass([again(tasks[place], number) for place in missing])
            for place, rollout in zip(missing, new, strict=True):
                found[place] = rollout
            failed += [rollout for rollout in new if not rollout.says_something]
            missing = [place for place in missing if not found[place].says_something]
        kept = await self.ranked([r for r in found if r.says_something])
        return Played(
            rollouts=settled(kept, self.ungraded),
            failed=failed,
            refilled=refilled,
            seconds=time.monotonic() - began,
        )

    async def ranked(self, found: Sequence[Attempt]) -> list[Attempt]:
        """The same, after the judges of the reward have compared the attempts at each task.

        They are as they were where the reward has no `Ranking`. A judge whose model fails costs its
        group the opinions, which all of the group are then without; a warning counts such groups.
        Another counts the attempts of which a judge said nothing that can be read.
        """
        groups: dict[str, list[int]] = {}
        for place, rollout in enumerate(found):
            groups.setdefault(rollout.item.id, []).append(place)
        comparing = [
            asyncio.ensure_future(self.compared([found[place] for place in places]))
            for places in groups.values()
        ]
        try:
            compared = await asyncio.gather(*comparing)
        finally:  # if one raises, nobody goes on asking
            await stopped(comparing)
        self.tell(compared)
        made = [*found]
        for places, group in zip(groups.values(), compared, strict=True):
            for place, rollout in zip(places, group.attempts, strict=True):
                made[place] = rollout
        return made

    async def compared(self, group: Sequence[Attempt]) -> Compared:
        """The attempts at one task after the judges of the reward have compared them, or as they
        were with the reason why not. At most `JUDGED_AT_ONCE` groups are at that.

        The given ones are left as they are, so that they can be compared with others again.
        """
        if not self.compares:
            return Compared([*group])
        episodes = [
            replace(rollout.episode, trajectory=rollout.episode.trajectory.copy())
            for rollout in group
            if rollout.episode is not None
        ]
        async with self._judging:
            try:
                judged = iter(await self.scenario.ranked(episodes))
            except ModelError as error:
                return Compared([*group], error)
        made = []
        for rollout in group:
            if rollout.episode is not None:
                episode = next(judged)
                rollout = replace(rollout, episode=episode, trajectory=episode.trajectory)
            made.append(rollout)
        return Compared(made)

    def tell(self, compared: Sequence[Compared]) -> None:
        """Warn of judges that failed groups of a step, or said nothing that can be read."""
        groups = [group for group in compared if group.runs]
        failed = [group for group in groups if group.failed is not None]
        if failed:
            self._warn(
                f"The attempts at {len(failed)} of {len(groups)} tasks are not compared: the judge "
                f"failed. The first, {failed[0].attempts[0].item.id!r}: {failed[0].failed}"
            )
        silent = Counter(
            name
            for group in groups
            if group.failed is None
            for name in unheard(self.scenario.reward, group.runs)
        )
        for name, count in sorted(silent.items()):
            played = sum(len(group.runs) for group in groups)
            self._warn(
                f"{count} of {played} attempts are without the opinion {name!r}: no answer of its "
                f"judge could be read. Where it is so often, take a judge that keeps to a schema."
            )

    async def _pass(self, tasks: Sequence[Task]) -> list[Attempt]:
        settings = self._settings or together(len(tasks))
        found: list[Attempt | None] = [None] * len(tasks)
        async with aclosing(rollouts(self.stages(), tasks, settings)) as done:
            async for rollout in done:
                found[rollout.index] = rollout
        return [rollout for rollout in found if rollout is not None]


async def stopped(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel what is under way, and wait until all of it has ended."""
    tasks = [*tasks]
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def together(count: int) -> PipelineSettings:
    """All at once, without time limits or second tries."""
    return PipelineSettings(
        live=max(1, count),
        prepare_seconds=None,
        run_seconds=None,
        grade_seconds=None,
        close_seconds=None,
        attempts=1,
        tool_workers=None,
    )


def raise_if_all_failed(found: Sequence[Attempt]) -> None:
    """Raise the first error if no attempt came to an episode."""
    if any(rollout.episode is not None for rollout in found):
        return
    for rollout in found:
        if rollout.error is not None:
            rollout.error.add_note(
                f"in the episode of task {rollout.item.id!r}; all {len(found)} episodes of this "
                f"step raised"
            )
            raise rollout.error


def settled(found: Sequence[Attempt], ungraded: float | None = None) -> list[Attempt]:
    """Those with an episode; what broke down before it could be measured gets one."""
    rewards = [r.reward for r in found if r.reward is not None and math.isfinite(r.reward)]
    worst = min([0.0, *rewards]) if ungraded is None else ungraded
    kept = []
    for rollout in found:
        if rollout.episode is not None:
            kept.append(rollout)
        elif rollout.trajectory is not None:
            team = [role["name"] for role in rollout.trajectory.about.get("roles", ())]
            earned = RewardBreakdown(worst, {"unmeasured": worst}, dict.fromkeys(team, worst))
            episode = Episode(rollout.item, rollout.trajectory, earned)
            kept.append(replace(rollout, episode=episode))
    return kept
