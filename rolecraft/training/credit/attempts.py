"""From episodes to attempts: one role's part in one episode, with what each of its turns earned.

Invariant: an episode counts for what the team did. One that a machine failed is dropped before
anything is compared, and its task is named for playing it again; one that the team failed counts
for what it earned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

from rolecraft.environments.task import Task
from rolecraft.errors import UsageError
from rolecraft.rewards import RewardBreakdown
from rolecraft.rollouts.collect import Failed
from rolecraft.rollouts.endings import OF_NOBODY, Ended, crossed, of_error, of_stop
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.settings import Stage
from rolecraft.scenarios import Episode
from rolecraft.training.algorithms.returns import soft_overlong
from rolecraft.training.algorithms.terms import Overlong
from rolecraft.training.credit.settings import Credit
from rolecraft.training.credit.waste import Wasted, wasted
from rolecraft.training.policy.sequences import TrainingSequence, Turn, training_sequences
from rolecraft.trajectories.events import StopReason

Played: TypeAlias = Episode | Failed | Rollout[Any, Any]
"""What came of a task: `collect` gives the first two, `rollouts` the third."""

_BY_LIMITS = frozenset[Ended]({"turns", "tokens", "money", "seconds"})


class Place(NamedTuple):
    """A turn, in the sequence that holds its tokens."""

    sequence: TrainingSequence
    turn: Turn

    @property
    def actions(self) -> list[int]:
        """Positions of the turn's actions."""
        mask = self.sequence.action_mask
        return [at for at in range(self.turn.start, self.turn.stop) if mask[at]]


@dataclass(slots=True)
class Attempt:
    """One role's part in one episode, and what it earned where.

    Invariant: `rewards`, what was earned at each turn, add up to `reward`.
    """

    name: str
    """Trajectory, number of the episode, role: names the attempt in messages."""
    number: int
    """Of the episode, among those that credit is given for."""
    episode: Episode
    role: str
    worth: float
    """What the reward function gave."""
    sequences: list[TrainingSequence]
    places: list[Place] = field(init=False)
    """Its turns in order, whichever session they belong to."""
    paid: list[float] = field(init=False)
    """What was earned at each turn; what remains of the reward is earned at the last."""
    charged: float = 0.0
    """What length and wasted turns added to the reward: it is at most 0."""
    kl: list[list[float]] = field(default_factory=list)
    """What each action of each turn added to it, for leaving the reference; empty: nothing."""

    def __post_init__(self) -> None:
        self.places = sorted(
            (Place(sequence, turn) for sequence in self.sequences for turn in sequence.turns),
            key=lambda place: place.turn.event,
        )
        self.paid = [0.0] * len(self.places)

    @property
    def task(self) -> Task:
        return self.episode.task

    @property
    def rest(self) -> float:
        """What no turn has been paid yet."""
        return self.worth + self.charged - sum(self.paid)

    @property
    def reward(self) -> float:
        """What it earned, all in all."""
        return self.worth + self.charged + sum(map(sum, self.kl))

    @property
    def rewards(self) -> list[float]:
        """What was earned at each turn."""
        rewards = list(self.paid)
        rewards[-1] += self.rest
        return [r + sum(kl) for r, kl in zip(rewards, self.kl, strict=True)] if self.kl else rewards

    def place_of(self, event: int) -> int | None:
        """The turn that led to an event: the last one that had begun by then."""
        found = None
        for number, place in enumerate(self.places):
            if place.turn.event > event:
                break
            found = number
        return found

    def charge(self, cost: float, number: int = -1) -> None:
        """Take `cost` off the reward, at turn `number`."""
        self.charged -= cost
        self.paid[number] -= cost


class SortedOut(NamedTuple):
    """Episodes to be credited, by number, and the others."""

    played: list[tuple[int, Episode]]
    refill: list[Task]
    ungraded: list[str]
    """Tasks of runs that the team broke off, for which there is no reward."""


def sorted_out(results: Sequence[Played], ungraded: float | None) -> SortedOut:
    """Part what the team did from what was done to it."""
    found = SortedOut([], [], [])
    for number, result in enumerate(results):
        if isinstance(result, Episode):
            of_nobody, episode = _of_nobody(result), result
        elif isinstance(result, Failed):
            stage = cast("Stage", getattr(result.error, "stage", "run"))
            of_nobody, episode = of_error(result.error, stage) in OF_NOBODY, None
        else:
            of_nobody, episode = not result.says_something, _episode(result, ungraded)
        if of_nobody:
            found.refill.append(result.task)
        elif episode is None:
            found.ungraded.append(result.task.id)
        else:
            found.played.append((number, episode))
    return found


def _of_nobody(episode: Episode) -> bool:
    return _ended(episode) in OF_NOBODY


def cut_off(episode: Episode) -> bool:
    """Whether a limit ended it, of turns, tokens, time or money."""
    return _ended(episode) in _BY_LIMITS


def _ended(episode: Episode) -> Ended | None:
    reason = cast("StopReason | None", episode.trajectory.stop_reason)
    return None if reason is None else of_stop(reason, crossed(episode.trajectory))


def _episode(rollout: Rollout[Any, Any], ungraded: float | None) -> Episode | None:
    if rollout.episode is not None or rollout.trajectory is None or ungraded is None:
        return cast("Episode | None", rollout.episode)
    return Episode(rollout.task, rollout.trajectory, RewardBreakdown(ungraded))


def attempts_of(
    number: int,
    episode: Episode,
    credit: Credit,
    without: Mapping[str, float] | None,
    placed: Counter[str],
) -> tuple[list[Attempt], list[str]]:
    """What each role did in an episode; and the names of those whose reward is not finite.

    Counts into `placed` how often the signals of `Credit.steps` were placed.
    """
    name = f"{episode.trajectory.id}#{number}"
    by_role: dict[str, list[TrainingSequence]] = {}
    for sequence in training_sequences(episode.trajectory, name=name):
        by_role.setdefault(sequence.role, []).append(sequence)
    attempts: list[Attempt] = []
    unscored: list[str] = []
    for role, its_sequences in by_role.items():
        worth = _worth(episode, role, credit, without)
        if not math.isfinite(worth):
            unscored.append(f"{name}:{role}")
            continue
        attempts.append(Attempt(f"{name}:{role}", number, episode, role, worth, its_sequences))
    if credit.steps or episode.reward.steps:
        for attempt in attempts:
            placed += _place_steps(attempt, credit)
        unscored += [each.name for each in attempts if not all(map(math.isfinite, each.paid))]
        attempts = [each for each in attempts if all(map(math.isfinite, each.paid))]
    return attempts, unscored


def _worth(
    episode: Episode, role: str, credit: Credit, without: Mapping[str, float] | None
) -> float:
    if credit.reward == "role":
        return episode.reward.roles.get(role, episode.reward.value)
    if credit.reward == "team":
        return episode.reward.value
    if without is None:
        raise UsageError(
            "`Credit(reward='counterfactual')` needs what each episode is worth without each role: "
            "`assign(..., without=await play_without(...))`."
        )
    return episode.reward.value - without.get(role, math.nan)


def _place_steps(attempt: Attempt, credit: Credit) -> Counter[str]:
    """Move what was earned at a step to the turn that led to it; how often for which signal."""
    trajectory, breakdown = attempt.episode.trajectory, attempt.episode.reward
    authors = {event.seq: event.role for event in trajectory.events}
    paid = [("", each.event, each.role, each.value) for each in breakdown.steps]
    paid += [
        (signal.name, signal.step, signal.role, credit.steps[signal.name] * signal.value)
        for signal in trajectory.signals
        if signal.name in credit.steps and signal.step is not None
    ]
    placed: Counter[str] = Counter()
    for name, event, role, value in paid:
        number = attempt.place_of(event)
        if (role or authors.get(event)) == attempt.role and number is not None:
            attempt.paid[number] += value
            placed[name] += 1
    return placed


def charge_waste(attempts: Sequence[Attempt], credit: Credit) -> dict[str, int]:
    """Take the cost of wasted turns off the attempts' rewards; how many turns each role wasted."""
    if credit.communication is None:
        return {}
    cost, known, turns = credit.communication, dict[int, list[Wasted]](), dict[str, int]()
    for attempt in attempts:
        if attempt.number not in known:
            known[attempt.number] = wasted(attempt.episode.trajectory)
        numbers = {
            attempt.place_of(deed.event)
            for deed in known[attempt.number]
            if deed.role == attempt.role
        } - {None}
        turns[attempt.role] = turns.get(attempt.role, 0) + len(numbers)
        left = cost.most
        for number in sorted(number for number in numbers if number is not None):
            attempt.charge(min(cost.turn, left), number)
            left -= min(cost.turn, left)
    return turns


def charge_length(attempts: Sequence[Attempt], overlong: Overlong | None) -> None:
    """Take the soft punishment of long answers off the attempts' rewards."""
    if overlong is not None:
        for attempt in attempts:
            count = sum(sum(sequence.action_mask) for sequence in attempt.sequences)
            attempt.charge(-soft_overlong(count, overlong))
