"""Teams: roles in an environment, with limits, that are given one idea and leave one run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rolecraft.environments import following, streaming
from rolecraft.environments.bound import check_rounds
from rolecraft.environments.environment import Environment
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import ALL, Message, addresses_of
from rolecraft.models.budget import Budget, Limits
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Event, StopReason, Usage
from rolecraft.trajectories.in_words import one_line
from rolecraft.trajectories.past import PastRun
from rolecraft.trajectories.recovery import Kept, kept_of, take_back
from rolecraft.trajectories.trajectory import Trajectory, stop_reason_of

if TYPE_CHECKING:
    from rolecraft.environments.streaming import Delta
    from rolecraft.models.base import Model
    from rolecraft.roles.surroundings import OnUnknown
    from rolecraft.trajectories.costs import CostTable
    from rolecraft.trajectories.role_table import RoleTable


@dataclass(frozen=True, slots=True)
class Run:
    """What happened: the trajectory, the last message, and why it ended."""

    trajectory: Trajectory
    message: Message | None
    stop: StopReason

    def __repr__(self) -> str:
        rounds = self.trajectory.events[-1].time if self.trajectory.events else 0
        calls = self.usage.calls
        played = [(rounds, "round"), (len(self.trajectory.events), "event"), (calls, "model call")]
        first, *rest = (f"{n:,} {what if n == 1 else what + 's'}" for n, what in played)
        said = ""
        if self.message is not None:
            said = f"; {self.message.role or 'somebody'}: {one_line(self.message.content, 200)}"
        return f"Run {self.trajectory.id!r}: {self.stop} after {first}, {', '.join(rest)}{said}"

    @property
    def usage(self) -> Usage:
        """What all model calls cost together."""
        return self.trajectory.usage

    def costs(self) -> CostTable:
        """What each role spent on which model; `str()` of it is a text table."""
        return self.trajectory.costs()

    @property
    def approvals(self) -> list[Event]:
        """The actions that wait for a person's permission: `data` has `action` and `key`.

        Go on with `team.recover(run, approve={key: True})`.
        """
        asked = {e.data["key"]: e for e in self.trajectory.of("approval")}
        return [event for event in asked.values() if event.data["granted"] is None]

    def state_diagram(self, role: str) -> str:
        """What a role did after what, as a Mermaid state diagram."""
        return self.trajectory.state_diagram(role)

    def role_table(self) -> RoleTable:
        """Calls, tokens, cost, retries and time of each role; `str()` gives a text table."""
        return self.trajectory.role_table()

    def save(self, path: str | Path) -> Path:
        """Write the journal to a file, or under a free name into a folder; the file."""
        return self.trajectory.save(path)

    def sequence_diagram(self) -> str:
        """Who told whom what, as a Mermaid sequence diagram."""
        return self.trajectory.sequence_diagram()


_OPTIONS = frozenset({*signature(Environment).parameters, "env"})
"""What `Team(...)` takes: its environment's options, and an environment."""


class Team:
    """Roles that work on one idea.

    `model` serves every role that has none of its own; `limits` bind all roles together. The
    roles hear each other through `env`, an `Environment` of the team's own unless one is given.
    """

    def __init__(
        self,
        roles: Iterable[Role] = (),
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        env: Environment | None = None,
        **options: Any,
    ) -> None:
        if env is not None and (model is not None or limits is not None or options):
            raise UsageError(
                "`Team(env=...)` brings its own model and limits; give one or the other."
            )
        for name in options:
            if name not in _OPTIONS:
                raise UnknownName(f"`{type(self).__name__}` keyword", name, _OPTIONS)
        self.env = env or Environment(model=model, limits=limits, **options)
        self.idea = ""
        self.hire(roles)

    def hire(self, roles: Iterable[Role]) -> None:
        """Add roles. Raises `DuplicateRole`."""
        self.env.add_roles(roles)

    def invest(self, usd: float) -> None:
        """Limit what all model calls together may cost, in US dollars."""
        self.env.limits = replace(self.env.limits or Limits(), usd=usd)
        if self.env.budget is None:
            self.env.budget = Budget(self.env.limits)
        # Room that was given for something else stays given.
        self.env.budget.limits = replace(self.env.budget.limits, usd=usd)

    @property
    def roles(self) -> dict[str, Role]:
        return self.env.roles

    def run_project(self, idea: str, send_to: Any = ALL) -> None:
        """Put an idea in, for everyone who listens to the user or for `send_to`."""
        if not self.env.roles:
            raise UsageError("The team has no roles. Give it some: `Team([Writer(), Editor()])`.")
        self.name_task(idea, send_to=send_to)
        self.idea = idea
        self.env.publish_message(Message(idea, send_to=send_to))
        if self.env.is_idle:
            raise UsageError(
                f"Nobody takes up the idea {idea!r}: no role watches `UserRequirement`. Add it to "
                f"the `watch` of one, or name the receiver: `run(idea, send_to='...')`."
            )

    def name_task(self, idea: str, *, send_to: Any = ALL, rounds: int | None = None) -> None:
        """Let the record's header say what the run is about, before it is written."""
        if self.idea:
            return
        task: dict[str, Any] = {"prompt": idea}
        if (to := sorted(addresses_of(send_to))) != [ALL]:
            task["to"] = to
        if rounds is not None:
            task["rounds"] = rounds
        self.env.about.setdefault("task", task)

    async def run(
        self,
        idea: str | None = None,
        n_round: int | None = None,
        *,
        rounds: int | None = None,
        send_to: Any = ALL,
    ) -> Run:
        """Work until everybody is idle, or for `rounds` (`n_round`) rounds.

        Raises `LimitReached` when the money, tokens or calls of `limits` are used up, and what
        an action raises, as it was raised. The trajectory up to there is in `team.trajectory`.
        """
        self.env.check_free()
        rounds = rounds if rounds is not None else n_round
        check_rounds(rounds)
        if idea is not None and self.env.roles:
            self.name_task(idea, send_to=send_to, rounds=rounds)
        if rounds is not None:
            self.env.record(Event("start", data={"rounds": rounds}))
        if idea is not None:
            self.run_project(idea, send_to)
        elif not self.env.retry() and self.env.is_idle:
            raise UsageError("The team has nothing to do: `await team.run('an idea')`.")
        return await self._run(rounds)

    async def _run(self, rounds: int | None) -> Run:
        try:
            reason = await self.env.run(rounds)
        except BaseException as error:
            self.env.broke_off(error)
            raise
        self.env.stop(reason)
        return self._result(reason)

    def _result(self, reason: StopReason) -> Run:
        return Run(self.env.trajectory.copy(), self.env.last_message, reason)

    def stream(
        self, idea: str | None = None, *, rounds: int | None = None, send_to: Any = ALL
    ) -> AsyncGenerator[Event | Delta, None]:
        """Do what `run` does, and yield its events as they are recorded.

        Between them come `Delta`s, pieces of answers while models give them, from models that can.
        `run` raises here what it raises. Leaving the loop early cancels the run;
        `async with contextlib.aclosing(team.stream(...)) as stream:` waits until it is over.
        """
        return streaming.stream(self, idea, rounds=rounds, send_to=send_to)

    # --- the record ------------------------------------------------------------------------------

    def archive(self, path: str | Path) -> Path:
        """Write what happened so far to a file, or under a free name into a folder; the file.

        `recover` goes on from it. A team with a `journal` has it written already.
        """
        return self.env.trajectory.save(path)

    async def recover(
        self,
        record: str | Path | Run | Trajectory,
        *,
        rounds: int | None = None,
        approve: Mapping[str, bool] | None = None,
        on_unknown: OnUnknown | None = None,
    ) -> Run:
        """Go on with a run that was cut off, failed, or stopped, as if nothing had happened.

        `record` is its journal, which is then written on, or a run in memory. The team must be
        made as then; one that has run already steps back to its beginning. What is complete in the
        record is not done again, and not asked again; see `rolecraft.actions.Repeat` for what was
        under way. A run that had come to its end is only brought back.

        `rounds` bounds what is still played. `approve` gives decisions on actions that wait for
        permission, by key (`run.approvals`). `on_unknown` says what becomes of actions that must
        not be done twice. Raises what `run` raises; `TraceError` for what is no journal,
        `JournalError` if another process writes it, `UsageError` if the team is another,
        `Diverged` if role code does something else than then, `OutcomeUnknown`.
        """
        env = self.env.again() if self.env.begun else self.env
        journal = Path(record) if isinstance(record, (str, Path)) else None

        def check(kept: Kept) -> None:
            following.check(env, kept.about, [*kept.known, *kept.taken], approve)

        if journal is not None:
            self.env.close()  # its own lock, if it is this file
            kept = await asyncio.to_thread(take_back, journal, check, fsync=env.fsync)
        else:
            assert not isinstance(record, (str, Path))
            kept = kept_of(record.trajectory if isinstance(record, Run) else record)
            check(kept)
        self.env = env
        past = PastRun(kept.known, kept.pending)
        env.approved = dict(approve or {})
        env.on_unknown = on_unknown if on_unknown is not None else env.on_unknown
        try:
            following.follow(
                env, kept.trajectory, kept.about, past, journal=journal, in_sinks=bool(journal)
            )
            bound = await following.redrive(env, kept.known)
        except BaseException:
            env.close()  # it can be tried again
            raise
        if not any(event.kind == "message" for event in kept.known):
            bound = following.begin(env, started=bool(kept.known))
        env.resumes = following.resume_event(kept, env.approved)
        last = kept.known[-1] if kept.known else None
        if last is not None and last.kind == "stop" and rounds is None:
            if env.backlog is not None:
                env.backlog.clear()
                env.backlog.close()
            return self._result(cast(StopReason, stop_reason_of(last)))
        if last is not None and last.kind == "stop":
            env.resumes = Event("resume", data={"after": stop_reason_of(last)})
        if rounds is not None:
            env.record(Event("start", data={"rounds": rounds}))
        elif bound is not None:
            rounds = bound - env.rounds
        return await self._run(rounds)

    async def replay(self, record: str | Path | Run | Trajectory) -> Run:
        """Play a recorded run again without any model or action: the same bytes, or `Diverged`.

        The team must be made as then; it is not changed, and may have run meanwhile. Actions with
        `repeat = "freely"` are done again, their model calls come from the record. Of a run that
        was killed or cancelled, the rounds that were over are played.
        """
        trajectory, known = following.load_run(_recorded(record))
        again = Team(env=self.env.again())
        following.check(again.env, trajectory.about, known)
        known = following.replayable(trajectory, known)
        past = PastRun(known, strict=True)
        following.follow(again.env, trajectory.id, trajectory.about, past)
        await following.redrive(again.env, known)
        reason = again.env.trajectory.stop_reason or "idle"
        return again._result(cast(StopReason, reason))

    async def fork(
        self,
        record: str | Path | Run | Trajectory,
        at: int,
        *,
        message: str | Message | None = None,
        role: Role | None = None,
        model: Model | str | None = None,
        journal: str | Path | None = None,
        rounds: int | None = None,
    ) -> Run:
        """Branch off a recorded run after event number `at`, with something changed.

        Up to there everything comes from the record; what follows is done and asked anew.
        `message` takes the place of the message that event `at` is. `role` takes the place of the
        role of its name, with its memory, from the next round on. `model` answers all roles from
        there on. What the user said later is said again, each time that nobody has anything left
        to do. This team is not changed. Raises `UsageError` if there is no such event or it is no
        message, and what `recover` raises.
        """
        trajectory, known = following.load_run(_recorded(record))
        followed, said = following.branch(known, at, message)
        branch = Team(env=self.env.again())
        env = branch.env
        following.check(env, trajectory.about, known)
        env.replaced = said
        about = {**trajectory.about, "fork": {"trajectory": trajectory.id, "at": at}}
        name = f"{trajectory.id}-fork-{at}"
        if model is not None:
            following.give_model(env, model)
        path = Path(journal) if journal is not None else None
        following.follow(env, name, about, PastRun(followed), journal=path, whole=known)
        await following.redrive(env, followed)
        if role is not None:
            following.replace_role(env, role)
        what = {"message": message, "role": role, "model": model}
        data = {"trajectory": trajectory.id, "at": at}
        env.record(
            Event("fork", data=data | {"changed": [k for k, v in what.items() if v is not None]})
        )
        if rounds is not None:
            env.record(Event("start", data={"rounds": rounds}))
        for later in following.later_inputs(known, at, env.roles):
            if env.is_idle:
                env.publish_message(later)
                continue
            run = await branch._run(rounds)
            if run.stop != "idle":
                return run
            env.publish_message(later)
        return await branch._run(rounds)

    def reset(self) -> None:
        """Be again what the team was before its first run: it then leaves the first trace again."""
        self.env.reset()
        self.idea = ""

    def close(self) -> None:
        """Close the journal. Harmless when called twice."""
        self.env.close()

    @property
    def trajectory(self) -> Trajectory:
        """Everything that happened so far."""
        return self.env.trajectory


def _recorded(record: str | Path | Run | Trajectory) -> Trajectory | str | Path:
    return record.trajectory if isinstance(record, Run) else record
