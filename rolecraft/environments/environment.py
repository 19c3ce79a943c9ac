"""Environments: where roles act. A message bus with rounds.

Invariant: the same inputs give the same trajectory, byte for byte, however long actions take. A
round is: every role with an inbox takes it (the snapshot), all of them act at the same time, and
then, in the order in which the roles were added, their events are recorded and their messages
delivered (the commit). Nobody sees in a round what another role says in it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from rolecraft.actions.action import running
from rolecraft.environments import free_running, watching
from rolecraft.environments.bound import Bound
from rolecraft.errors import ApprovalNeeded, DuplicateRole, LimitReached, UnknownName, UsageError
from rolecraft.messages import (
    ALL,
    FINISH,
    NOBODY,
    SELF,
    USER,
    USER_REQUIREMENT,
    Message,
    as_message,
)
from rolecraft.models.budget import Budget, Limits
from rolecraft.models.resolve import resolve_model
from rolecraft.roles import crossing, keeping, recording
from rolecraft.roles.fresh import Beginning
from rolecraft.roles.role import Role
from rolecraft.trajectories.beginnings import among
from rolecraft.trajectories.events import Event, StopReason
from rolecraft.trajectories.recorder import Recorder, Turn
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.roles.surroundings import OnUnknown
    from rolecraft.trajectories.backlog import PendingFile
    from rolecraft.trajectories.journal import Journal
    from rolecraft.trajectories.observer import Directive, Observer
    from rolecraft.trajectories.past import PastRun

Schedule = Literal[
    "rounds",  # all roles with an inbox act at the same time, and hear each other afterwards
    "sequential",  # one role a round, in turn, so that each hears those before it
    "free",  # a role acts as soon as it has heard something, beside whoever acts then
]

NO_RECEIVER_NEEDED = frozenset({ALL, NOBODY, SELF, USER})

Receivers = dict[int, Role]
"""Roles by their place in the order in which they were added."""


class Environment:
    """Roles that hear each other.

    `model` serves every role that has none of its own. `limits` bind all roles together. `seed`
    makes sampling repeatable. `journal` is a file to record to; without one the trajectory is
    kept in memory. `about` goes into the trajectory's header.

    `schedule` says who acts at the same time, see `Schedule`. `may_finish` names the roles whose
    `Finish` ends the run (anybody's, unless given). `observers` hear of every event when it
    happens. `approver` is asked before actions that want a person's permission. `on_unknown` says
    what becomes of an action that must not be done twice and was cut off, see `OnUnknown`.
    """

    def __init__(
        self,
        roles: Iterable[Role] = (),
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        id: str = "run",  # noqa: A002 - what it is called everywhere else
        journal: str | Path | None = None,
        about: dict[str, Any] | None = None,
        schedule: Schedule = "rounds",
        may_finish: Iterable[str] | None = None,
        observers: Iterable[Observer] = (),
        approver: Callable[[ApprovalNeeded], bool | Awaitable[bool]] | None = None,
        on_unknown: OnUnknown = "raise",
    ) -> None:
        if schedule not in get_args(Schedule):
            raise UsageError(
                f"`schedule` is {schedule!r}, expected one of {list(get_args(Schedule))}."
            )
        self.id = id
        self.schedule = schedule
        self.may_finish = frozenset(may_finish) if may_finish is not None else None
        self.observers = tuple(observers)
        self.approver = approver
        self.approved: dict[str, bool] = {}
        """Decisions on actions that want permission, by idempotency key."""
        self.on_unknown = on_unknown
        self.past: PastRun | None = None
        """The record that this run follows; see `rolecraft.environments.following`."""
        self.model = model
        self.limits = limits
        self.budget = Budget(limits) if limits is not None else None
        self.seed = seed
        self.journal = Path(journal) if journal is not None else None
        self.about: dict[str, Any] = dict(about or {})
        self.roles: dict[str, Role] = {}
        self.rounds = 0
        """Rounds played so far; the logical time."""
        self.turns = 0
        """Turns played so far: a role that does something in a round takes one."""
        self.messages = 0
        """Messages published so far."""
        self.last_message: Message | None = None
        self._acting: set[str] = set()
        """The roles that take a turn now."""
        self.heard_at: dict[str, int] = {}
        """In the `free` schedule: after how many turns each message was delivered."""
        self._models: dict[str, Model] = {}
        self._routes: dict[str, Receivers] = {}
        """Who watches what caused a message."""
        self._addressees: dict[str, Receivers] = {}
        """Who has an address. Like the routes it is made on first use, and anew after a change."""
        self._recorder: Recorder | None = None
        self._journal: Journal | None = None
        self.on_delta: Callable[[str, str, str], None] | None = None
        """Hears pieces of answers: role, conversation, text."""
        self.backlog: PendingFile | None = None
        self._waiting: list[Message] = []
        self._finished: Message | None = None
        self._told_to_stop: Directive | None = None
        self._last_actor = ""
        self.resumes: Event | None = None
        """To be recorded when a run that had stopped goes on."""
        self._beginning: dict[str, Any] | None = None
        """The environment's own attributes before the first event."""
        self.replaced: dict[str, Message] = {}
        """Messages, by id, that are said otherwise in a fork."""
        self.add_roles(roles)

    # --- roles -------------------------------------------------------------------------------

    def add_role(self, role: Role) -> None:
        """Add a role; its name must be free. Raises `DuplicateRole`."""
        if not isinstance(role, Role):
            hint = f"`{role.__name__}()`" if isinstance(role, type) else "an object of one"
            raise UsageError(f"An environment holds roles, got {role!r}: add {hint}.")
        if role.name in NO_RECEIVER_NEEDED:
            raise UsageError(
                f"No role can be named {role.name!r}, which addresses "
                f"{'the person outside' if role.name == USER else 'more than one role'}. Give it "
                f"another name: `{type(role).__name__}(name='...')`."
            )
        if role.name in self.roles:
            raise DuplicateRole(
                f"Two roles are named {role.name!r}. Give one another name: "
                f"`{type(role).__name__}(name='...')`."
            )
        if role.rc.env is not None and role.rc.env is not self:
            raise UsageError(f"Role {role.name!r} is in another environment; make a new one.")
        role.rc.env, role.rc.log = self, self._recorder
        self.roles[role.name] = role
        self.rewatch()

    def add_roles(self, roles: Iterable[Role]) -> None:
        for role in roles:
            self.add_role(role)

    def get_role(self, name: str) -> Role:
        """The role of this name. Raises `UnknownName`."""
        if name not in self.roles:
            raise UnknownName("Role", name, self.roles)
        return self.roles[name]

    @property
    def has_model(self) -> bool:
        return self.model is not None

    def model_of(self, role: Role, asked: Model | str | None = None) -> Model | None:
        """`asked`, the role's own model, or the environment's: the first that is there."""
        spec = next((each for each in (asked, role.model) if each is not None), self.model)
        if not isinstance(spec, str):
            return spec
        if spec not in self._models:  # roles with the same string share one model
            self._models[spec] = resolve_model(spec)
        return self._models[spec]

    # --- messages ----------------------------------------------------------------------------

    def publish_message(self, message: str | Message) -> Message:
        """Put a message in from outside: a string, or a message without a sender, is the user's.

        During a round it is delivered at the round's end. A message that was published before is
        published again, as a new one. Raises `UnknownName` for a receiver that does not exist.
        """
        message = as_message(message)
        if message.event is not None:
            message = replace(message, id="", event=None)
        message.route()
        if not message.sent_from:
            message.sent_from = USER
            message.cause_by = message.cause_by or USER_REQUIREMENT
        self.check_receivers(message)
        self.deliver(message)
        return message

    def deliver(self, message: Message) -> None:
        """Record a message, unless it is recorded, and hand it on; in a round, when it ends."""
        if self.in_round:
            speaker = self._speaker()  # in an action, its place is in that role's turn
            if speaker is None or speaker.rc.outbox is None:
                self._waiting.append(message)
                return
            if message.event is None:
                speaker._number(message, f"{message.sent_from}>{speaker.name}")
                speaker._log_now().add_message(message, speaker._cause())
            speaker.rc.outbox.append(message)
            return
        if message.event is None:
            # Not with a colon, as roles number theirs: the sender may have the name of a role.
            message.id = message.id or f"{message.sent_from}>{self.messages + 1}"
            self.say_otherwise(message)
            self.recorder.add_message(message)
        self._hand_on(message)

    def _hand_on(self, message: Message) -> None:
        """Put a recorded message into the inboxes of its receivers."""
        self.messages += 1
        self.last_message = message
        if self.schedule == "free":
            self.heard_at[message.id] = self.rounds
        if message.cause_by == FINISH and self._may_finish(message.sent_from):
            self._finished = message
        for role in self._receivers(message):
            if role.name != message.sent_from:  # what a role tells itself it has already
                role.rc.inbox.append(message)

    def say_otherwise(self, message: Message) -> None:
        """In a fork: give the message the content that it has there."""
        if self.replaced and (other := self.replaced.get(message.id)) is not None:
            message.content, message.instruct_content = other.content, other.instruct_content

    def _may_finish(self, name: str) -> bool:
        return self.may_finish is None or name in self.may_finish

    def check_receivers(self, message: Message) -> None:
        """Raise `UnknownName` for a receiver that does not exist."""
        if message.send_to <= NO_RECEIVER_NEEDED:
            return
        for address in sorted(message.send_to - NO_RECEIVER_NEEDED):
            if address not in self._addresses():
                known = [*self.roles, ALL, NOBODY, SELF, USER]
                raise UnknownName("Receiver", address, known)

    def rewatch(self) -> None:
        self._routes.clear()
        self._addressees.clear()

    def _receivers(self, message: Message) -> Iterable[Role]:
        """Who hears a message, in the order of roles. Costs as much as there are receivers."""
        send_to = message.send_to
        found = self._watchers(message.cause_by) if ALL in send_to else {}
        if not send_to <= NO_RECEIVER_NEEDED:
            addresses = self._addresses()
            for address in send_to:
                if address in addresses:
                    found = {**found, **addresses[address]}
            found = dict(sorted(found.items()))
        return found.values()

    def _watchers(self, cause_by: str) -> Receivers:
        if cause_by not in self._routes:
            self._routes[cause_by] = {
                place: role
                for place, role in enumerate(self.roles.values())
                if cause_by in role.rc.watch
            }
        return self._routes[cause_by]

    def _addresses(self) -> dict[str, Receivers]:
        if not self._addressees:
            for place, role in enumerate(self.roles.values()):
                for address in role.addresses:
                    self._addressees.setdefault(address, {})[place] = role
        return self._addressees

    # --- rounds ------------------------------------------------------------------------------

    @property
    def in_round(self) -> bool:
        """True while roles act; what is said from outside meanwhile waits until they have acted."""
        return bool(self._acting)

    @property
    def is_idle(self) -> bool:
        """True when no role has anything in its inbox."""
        return not any(role.rc.inbox for role in self.roles.values())

    async def run(self, rounds: int | None = None) -> StopReason:
        """Play rounds until every role is idle (`idle`) or `rounds` are played (`rounds`).

        Ends earlier when a role finishes the run (`finished`), an observer stops it (`observer`)
        or an action waits for a person's permission (`approval`). A round in which nobody acts is
        not played and not counted. What an action raises comes out after its round is committed,
        with notes that name role, action and round; if several raise, the first in the order of
        roles comes out and the notes name the others.
        """
        self._check_free()
        bound = Bound(self, rounds)
        with self.budget.running() if self.budget is not None else nullcontext():
            while True:
                reason = await self._play_until(bound.last)
                if reason != "rounds" or not await bound.raised():
                    return reason

    async def _play_until(self, last: float) -> StopReason:
        if self.schedule == "free":
            return await free_running.run(self, last)
        while not self.is_idle:
            if self.rounds >= last:
                return "rounds"
            if (reason := await self.play_round()) is not None:
                return reason
        return "idle"

    def retry(self) -> list[str]:
        """Let roles whose turns failed take up again what they had been told; their names."""
        names = [name for name, role in self.roles.items() if role.take_up_again()]
        if names:
            self.record(Event("resume", data={"retry": names}))
        return names

    def _check_free(self) -> None:
        if self.in_round:
            raise UsageError(f"Environment {self.id!r} is already running; wait for it to finish.")

    async def play_round(self) -> StopReason | None:
        """Play one round; why the run ends with it, or None. Raises what an action raises."""
        self._check_free()
        return await self._round(self._next_to_act())

    def _next_to_act(self) -> Sequence[Role]:
        ready = [role for role in self.roles.values() if role.rc.inbox]
        if self.schedule == "rounds" or not ready:
            return ready
        names = list(self.roles)
        after = names.index(self._last_actor) + 1 if self._last_actor in self.roles else 0
        order = names[after:] + names[:after]
        return [next(self.roles[name] for name in order if self.roles[name].rc.inbox)]

    async def _round(self, ready: Sequence[Role]) -> StopReason | None:
        if self.resumes is not None and not self.recorder.following:
            event, self.resumes = self.resumes, None
            self.record(event)
        self.rounds += 1
        self.turns += len(ready)
        self._last_actor = ready[-1].name
        self.recorder.time = self.rounds
        together = len(ready) > 1
        for role in ready:
            # One that acts alone writes straight to the record.
            self.begin_turn(role, time=self.rounds, held=together)
        errors: Sequence[BaseException | None] = ()
        try:
            if together:  # waits for all of them, also when one fails or this is cancelled
                errors = await asyncio.gather(*map(self.turn_of, ready))
            else:
                errors = [await self.turn_of(ready[0])]
        finally:
            for role in ready:
                self.end_turn(role)
        await keeping.keep_all(ready, failed=any(errors))
        return self.after_turns(dict(zip((role.name for role in ready), errors, strict=True)))

    def begin_turn(self, role: Role, *, time: int, held: bool) -> None:
        role.rc.log, role.rc.outbox = self.recorder.turn(role.name, held=held), []
        role.rc.log.time = time
        role.rc.waits = False
        self._acting.add(role.name)

    async def turn_of(self, role: Role) -> BaseException | None:
        """Let a role act; what it raised."""
        told = [] if self.recorder.following else list(among(self.observers))
        for observer in told:
            observer.turn_begins(role.name)
        raised: BaseException | None = None
        try:
            await role.run()
        except BaseException as error:
            raised = error
        for observer in told:
            observer.turn_ends(role.name, raised)
        return raised

    def end_turn(self, role: Role) -> None:
        """Commit what the role did, and deliver what it said."""
        if isinstance(role.rc.log, Turn):
            role.rc.log.commit()
            if role.rc.log.is_empty:  # it only listened
                self.turns -= 1
        said, role.rc.log, role.rc.outbox = role.rc.outbox, self.recorder, None
        self._acting.discard(role.name)
        for message in said or ():
            self._hand_on(message)
        if not self._acting:
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                self.deliver(message)
            if self.backlog is not None:
                self.backlog.clear()

    def after_turns(self, errors: Mapping[str, BaseException | None]) -> StopReason | None:
        """Why the run ends after these turns, or None. Raises what one of them raised."""
        directive, self.recorder.directive = self.recorder.directive, None
        self._told_to_stop = directive or self._told_to_stop
        failures = {name: error for name, error in errors.items() if error is not None}
        for name in list(failures):
            self.roles[name].missed()
            if isinstance(failures[name], ApprovalNeeded):
                self.roles[name].rc.waits = True
                del failures[name]
        if failures and all(map(crossing.stops, failures.values())):
            return "limit"
        if failures:
            self._raise(failures)
        if self._finished is not None:
            self._finished = None
            return "finished"
        if any(role.rc.waits for role in self.roles.values()):
            return "approval"
        return "observer" if directive is not None else None

    def _raise(self, failures: dict[str, BaseException]) -> None:
        """Raise what the first role raised; its notes name the others.

        A crossed limit gives way to anything else: it can be graded, a fault cannot.
        """
        (name, error), *others = sorted(
            failures.items(), key=lambda failure: isinstance(failure[1], LimitReached)
        )
        error.add_note(f"in round {self.rounds}, role {name!r}")
        for other, also in others:
            error.add_note(f"role {other!r} also raised {type(also).__name__}: {also}")
        raise error

    # --- recording ---------------------------------------------------------------------------

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
        self._beginning = _copied(self.__dict__)
        watching.warn_of_near_misses(self.roles.values())
        trajectory = Trajectory(self.id, self.header_about())
        if self.journal is None:
            recorder = Recorder(trajectory)
        else:
            from rolecraft.trajectories.backlog import PendingFile
            from rolecraft.trajectories.journal import Journal

            self._journal = Journal(self.journal, header=trajectory.header())
            if self._journal.next_seq and self.past is None:
                self._journal.close()
                raise UsageError(
                    f"`{self.journal}` holds a run already, and two runs are two trajectories. "
                    f"Give this one another file: `journal=...`; or go on with the one that it "
                    f"holds: `await team.recover({str(self.journal)!r})`."
                )
            recorder = Recorder(self._journal)
            recorder.backlog = self.backlog = PendingFile(self.journal)
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
        if self.backlog is not None:
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

    def reset(self) -> None:
        """Be again what the environment and its roles were before the first event.

        Records to memory, or to a new file: set `journal` before going on. Raises `UsageError`
        during a round. What other objects it holds (a sandbox, a client) are left as they are.
        """
        self._check_free()
        self.close()
        if self._beginning is None:
            return
        beginning, roles = self._beginning, self.roles
        self.__dict__.update(_copied(beginning))
        self.__dict__.update(_recorder=None, _journal=None, backlog=None, journal=None, past=None)
        self._beginning, self.roles = beginning, roles
        self.budget = Budget(self.limits) if self.limits is not None else None
        for role in roles.values():
            role.rc.env = role.rc.log = None
            (role.rc.first or Beginning.of(role)).restore(role)
            role.rc.env = self
        self.rewatch()

    def again(self) -> Self:
        """An environment like this one before its first event, with roles of its own.

        It is for a run beside this one. Objects that attributes hold (models, clients) are shared.
        """
        env = object.__new__(type(self))
        env.__dict__.update(_copied(self._beginning or self.__dict__))
        env.__dict__.update(_recorder=None, _journal=None, backlog=None, journal=None, roles={})
        env.budget = Budget(env.limits) if env.limits is not None else None
        env._beginning, env.past, env._acting = None, None, set()
        for role in self.roles.values():
            env.add_role((role.rc.first or Beginning.of(role)).role())
        return env

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} with {', '.join(self.roles) or 'no roles'}>"


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes, with lists, dicts and sets of their own."""
    return {
        name: copy.copy(value) if isinstance(value, (dict, list, set)) else value
        for name, value in attributes.items()
    }
