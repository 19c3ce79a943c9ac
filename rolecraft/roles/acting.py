"""What happens when a role acts: its actions start and end, its model is asked, all is recorded.

Invariant: of every run of an action the record has the start before it, and the end, with the
result and what it left behind, after it; what happened in it stands between them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from rolecraft._declared import Declared
from rolecraft.actions import _left
from rolecraft.actions.action import Action, Running, running
from rolecraft.actions.asking import Asks
from rolecraft.actions.record import Records
from rolecraft.errors import (
    ActionLimitReached,
    ApprovalNeeded,
    Diverged,
    LimitReached,
    NotRestorable,
    OutcomeUnknown,
    UsageError,
)
from rolecraft.messages import Message
from rolecraft.roles import recording
from rolecraft.roles.context import RoleContext
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.recorder import Log, Recorder
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.models.budget import Budget, Limits
    from rolecraft.roles.role import Role


class RunsActions(Asks, Records, Declared):
    """The part of a `Role` that is there while it acts."""

    if TYPE_CHECKING:  # the role has them; here they would be fields of their own
        name: str
        rc: RoleContext
        model: Model | str | None
        limits: Limits | None
        max_actions: int

    _solo: Trajectory | None = None

    # --- asking a model ----------------------------------------------------------------------

    @property
    def has_model(self) -> bool:
        """True if the role, or the environment around it, has a model."""
        return self.model is not None or (self.rc.env is not None and self.rc.env.has_model)

    @property
    def _budget(self) -> Budget | None:
        """What my model calls count in: my own limits, within those of my environment."""
        env = self.rc.env
        around = env.budget if env is not None else None
        if self.limits is None:
            return around
        mine = self.rc.budget
        if mine is None or mine.parent is not around:  # the team's may come later
            from rolecraft.models.budget import Budget

            before, mine = mine, Budget(self.limits, parent=around, name=f"role {self.name!r}")
            if before is not None:
                mine.limits, mine.spent = before.limits, before.spent
            self.rc.budget = mine
        return mine

    # --- recording ---------------------------------------------------------------------------

    @property
    def trajectory(self) -> Trajectory:
        """What this role did outside an environment, in memory."""
        self._log_now()
        if self._solo is None:
            raise UsageError(f"Role {self.name!r} acts in an environment; see its trajectory.")
        return self._solo

    def _now(self) -> Running | None:
        """The run of an action of mine that the current task is in."""
        now = running.get()
        # A role is an `Owner`, which only its subclass shows.
        return now if now is not None and now.owner is self else None  # type: ignore[comparison-overlap]

    def _next_session(self) -> str:
        """The number of a new conversation: of the role's, or of those of the running action.

        The second in the third run of an action is "3/2", whatever happens beside it.
        """
        now = self._now()
        if now is not None:
            now.sessions += 1
            return f"{now.path}/{now.sessions}"
        self.rc.sessions += 1
        return str(self.rc.sessions)

    def _log_now(self) -> Log:
        now = self._now()
        if now is not None:
            return now.log
        if self.rc.log is None:
            if self.rc.env is not None:
                self.rc.log = self.rc.env.recorder
            else:
                about = {"roles": [recording.describe(cast("Role", self))]}
                self._solo = Trajectory(self.name, about)
                self.rc.log = Recorder(self._solo)
        return self.rc.log

    def _write(self, event: Event) -> int:
        event.role = self.name
        return self._log_now().add(event)

    def _record(self, event: Event) -> int:
        if event.cause is None:
            event.cause = self._cause()
        return self._write(event)

    def _cause(self) -> int | None:
        """The event that led to what happens now: the running action, or the last thing done."""
        now = self._now()
        return now.event.seq if now is not None else self.rc.last_event

    def _number(self, message: Message, prefix: str) -> None:
        now = self._now()
        if now is not None and "." in now.path:  # others may speak at the same time
            now.said += 1
            message.id = f"{prefix}:{now.path}/{now.said}"
            return
        self.rc.said += 1
        message.id = f"{prefix}:{self.rc.said}"

    @abstractmethod
    def _says(self, message: Message, path: str) -> None:
        """Remember and hand on what was said in the run `path` of an action."""

    def _says_what_was_said_within(self, now: Running) -> None:
        if "." in now.path or not self.rc.said_within:
            return
        within, self.rc.said_within = self.rc.said_within, []
        for _, message in sorted(within, key=lambda said: said[0]):
            self._says(message, "")

    # --- runs of actions: what `Action` tells its role ------------------------------------------

    def _key_of(self, path: str) -> str:
        run = self.rc.env.id if self.rc.env is not None else "solo"
        return f"{run}/{self.name}/{path}"

    def _action_starts(self, action: Action, arguments: dict[str, Any]) -> Running:
        rc = self.rc
        if rc.started == self.max_actions:
            raise self._endless(action)
        rc.started += 1
        rc.last_error = None
        around = self._now()
        if around is None:
            rc.runs += 1
            path = str(rc.runs)
        else:
            around.started += 1
            path = f"{around.path}.{around.started}"
        index = rc.cursor.start(action)
        event = action._start_event(arguments)
        if event.kind == "action":
            event.data = {"action": event.data.pop("action"), "index": index, **event.data}
        event.data["run"] = path
        event.cause = around.event.seq if around is not None else rc.last_event
        log = (around.log if around is not None else self._log_now()).place(path)
        reply_ends, rc.reply_ends = rc.reply_ends, False
        now = Running(action, cast("Role", self), event, path, log, reply_ends=reply_ends)
        event.role = self.name
        log.add(event)
        if around is None:  # the outer of two speaks for both
            rc.last_event, rc.last_action = event.seq, action
        if rc.env is not None and rc.env.past is not None:
            now.past = rc.env.past.run(self.name, event, seq=rc.env.recorder.next)
        now.before = (_left.look(self.__dict__), _left.look(action.__dict__))
        return now

    def _action_ends(self, now: Running, result: Any) -> None:
        self._says_what_was_said_within(now)
        now.left = self._left_by(now)
        if now.reply_ends and result is not None:
            self.rc.ending = now
            return
        event = now.action._end_event(result)
        if now.left is not None or event.kind == "tool_result":
            event.data["ends"] = now.left or True
        self._end(now, event)

    def _action_failed(self, now: Running, error: Exception) -> None:
        self._says_what_was_said_within(now)
        if now.past is not None and error is self.rc.last_error:
            return  # it was served from the record, with its end
        if isinstance(error, (Diverged, NotRestorable, OutcomeUnknown)):
            recording.add_note(error, self.name, now.action)
            return  # the record cannot be followed: it says nothing of that
        now.left = self._left_by(now)
        if error is self.rc.last_error:  # an action within this one has recorded it
            event = Event("action_result", data={"raised": type(error).__name__})
        elif isinstance(error, ApprovalNeeded):
            recording.add_note(error, self.name, now.action)
            return  # it waits: its request is in the record, and it has not ended
        else:
            self._note_failure(now, error)
            limit = isinstance(error, LimitReached)
            event = (
                recording.failure_event(error, now.action)
                if limit
                else now.action._error_event(error)
            )
            event.usage = recording.usage_of(error)
        if now.left is not None or event.kind == "tool_result":
            event.data["ends"] = now.left or True
        with recording.noted_on(error):
            self._end(now, event)

    def _action_cut(self, now: Running) -> None:
        self._says_what_was_said_within(now)
        data: dict[str, Any] = {"cancelled": True}
        if (left := self._left_by(now)) is not None:
            data["ends"] = left
        self._end(now, Event("action_result", data=data))

    def _end(self, now: Running, event: Event) -> None:
        event.role, event.cause = self.name, now.event.seq
        now.log.add(event)

    def _note_failure(self, now: Running, error: Exception) -> None:
        self.rc.last_error = error
        recording.add_note(error, self.name, now.action)

    def _left_by(self, now: Running) -> dict[str, Any] | None:
        """What an action leaves besides its result: the attributes that it changed."""
        if now.before is None:
            return None
        mine, its = now.before
        left: dict[str, Any] = {}
        if changed := _left.changes(self.__dict__, mine):
            left["role"] = changed
        if changed := _left.changes(now.action.__dict__, its):
            left["action"] = changed
        return left or None

    def _endless(self, action: Action) -> ActionLimitReached:
        return ActionLimitReached(
            f"Role {self.name!r} started {self.max_actions} actions in one run and wants to "
            f"start {action.name!r}. If it swaps its action list without end, mend that; to "
            f"append actions use `add_actions`; else raise `max_actions`."
        )
