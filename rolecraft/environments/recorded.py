"""What an environment writes, and where: a trajectory in memory, or a journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft._declared import own
from rolecraft.actions.action import running
from rolecraft.environments import watching
from rolecraft.errors import LimitReached, UsageError
from rolecraft.roles import recording
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Event, StopReason
from rolecraft.trajectories.recorder import Recorder
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.trajectories.backlog import PendingFile
    from rolecraft.trajectories.journal import Journal
    from rolecraft.trajectories.observer import Directive, Observer
    from rolecraft.trajectories.past import PastRun


class Recorded:
    """The part of an `Environment` that records."""

    roles: dict[str, Role]
    schedule: str
    rounds: int

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - what it is called everywhere else
        seed: int,
        journal: str | Path | None,
        fsync: bool,
        about: dict[str, Any] | None,
        observers: Iterable[Observer],
    ) -> None:
        self.id = id
        self.seed = seed
        self.journal = Path(journal) if journal is not None else None
        self.fsync = fsync
        self.about: dict[str, Any] = dict(about or {})
        self.observers = tuple(observers)
        self.past: PastRun | None = None
        """The record that this run follows; see `rolecraft.environments.following`."""
        self.to_hire: dict[str, Role] = {}
        """Roles that the record adds later."""
        self.resumes: Event | None = None
        """To be recorded when a run that had stopped goes on."""
        self.backlog: PendingFile | None = None
        self._recorder: Recorder | None = None
        self._journal: Journal | None = None
        self._told_to_stop: Directive | None = None
        self.header: dict[str, Any] = {}
        """The record's header, once it is written."""
        self._beginning: dict[str, Any] | None = None
        """The environment's own attributes before the first event."""

    @property
    def recorder(self) -> Recorder:
        """Where this environment's events go; opened on first use."""
        if self._recorder is None:
            self._recorder = self._open()
        return self._recorder

    @property
    def begun(self) -> bool:
        """Whether anything was recorded."""
        return self._recorder is not None

    @property
    def trajectory(self) -> Trajectory:
        """The events so far: in memory, or read back from the journal."""
        sink, *_ = self.recorder.sinks  # the first is ours, others may be added
        if isinstance(sink, Trajectory):
            return sink
        from rolecraft.trajectories.jsonl import load

        assert self.journal is not None
        return load(self.journal)

    def _open(self) -> Recorder:
        self._beginning = {name: own(value) for name, value in self.__dict__.items()}
        watching.warn_of_near_misses(self.roles.values())
        trajectory = Trajectory(self.id, self.header_about())
        self.header = trajectory.about
        if self.journal is None:
            recorder = Recorder(trajectory)
        else:
            from rolecraft.trajectories.backlog import PendingFile
            from rolecraft.trajectories.journal import Journal

            self._journal = Journal(self.journal, header=trajectory.header(), fsync=self.fsync)
            if self._journal.next_seq and self.past is None:
                self._journal.close()
                raise UsageError(
                    f"`{self.journal}` holds a run already, and two runs are two trajectories. "
                    f"Give this one another file: `journal=...`; or go on with the one that it "
                    f"holds: `await team.recover({str(self.journal)!r})`."
                )
            recorder = Recorder(self._journal)
            recorder.backlog = self.backlog = PendingFile(self.journal, fsync=self.fsync)
        recorder.observers = self.observers
        for role in self.roles.values():
            role.rc.log = recorder
        return recorder

    def header_about(self) -> dict[str, Any]:
        """What the trajectory's header says: the roles, the seed, and `about`."""
        roles = [recording.describe(role) for role in self.roles.values()]
        schedule = {} if self.schedule == "rounds" else {"schedule": self.schedule}
        return {"roles": roles, "seed": self.seed, **schedule, **self.about}

    def record(self, event: Event) -> int:
        """Add an event of the environment's own (a signal, a verification); a handle of it.

        Called in an action, the event takes its place among those of the role. The handle then
        is good as `cause` of later events of the same turn; what lasts is the event's own `seq`,
        set by the end of the round.
        """
        speaker = self._speaker()
        return (self.recorder if speaker is None else speaker._log_now()).add(event)

    def _speaker(self) -> Role | None:
        """The role in whose action the current task is, if it is one of ours."""
        now = running.get()
        role = self.roles.get(now.owner.name) if now is not None else None
        return role if now is not None and role is now.owner else None

    def stop(self, reason: StopReason) -> None:
        """Record why the run ended."""
        data: dict[str, Any] = {"reason": reason, "rounds": self.rounds}
        if reason == "observer" and self._told_to_stop is not None:
            data["why"] = self._told_to_stop.reason
        self._told_to_stop = None
        self.record(Event("stop", data=data))
        if self.backlog is not None:  # everything is committed
            self.backlog.clear()
            self.backlog.close()

    def broke_off(self, error: BaseException) -> None:
        """Record an exception as the end of the run, and itself if no role has recorded it."""
        with recording.noted_on(error):
            if not isinstance(error, Exception):
                self.stop("cancelled")
                return
            if not recording.has_note(error):
                self.record(recording.failure_event(error))
            self.stop("limit" if isinstance(error, LimitReached) else "error")

    def close(self) -> None:
        """Close the journal. Harmless when called twice."""
        if self._journal is not None:
            self._journal.close()
        if self.backlog is not None:
            self.backlog.close()
