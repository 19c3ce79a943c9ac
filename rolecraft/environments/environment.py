"""Environments: where roles act. A message bus with rounds.

Invariant: the same inputs give the same trajectory, byte for byte, however long actions take. A
round is: every role with an inbox takes it (the snapshot), all of them act at the same time, and
then, in the order in which the roles were added, their events are recorded and their messages
delivered (the commit). Nobody sees in a round what another role says in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from rolecraft._declared import own
from rolecraft.environments import free_running, obeying
from rolecraft.environments.bound import Bound
from rolecraft.environments.bus import NO_RECEIVER_NEEDED, Bus
from rolecraft.errors import (
    ApprovalNeeded,
    DuplicateRole,
    LimitReached,
    RolecraftError,
    UnknownName,
    UsageError,
)
from rolecraft.messages import USER
from rolecraft.models.budget import Budget, Limits
from rolecraft.models.limits import check_limits
from rolecraft.models.resolve import check_model, resolve_model
from rolecraft.roles import crossing, keeping, recording
from rolecraft.roles.fresh import Beginning
from rolecraft.roles.role import Role
from rolecraft.trajectories.beginnings import among
from rolecraft.trajectories.events import Event, StopReason
from rolecraft.trajectories.recorder import Turn

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.roles.surroundings import OnUnknown
    from rolecraft.trajectories.observer import Observer

Schedule = Literal[
    "rounds",  # all roles with an inbox act at the same time, and hear each other afterwards
    "sequential",  # one role a round, in turn, so that each hears those before it
    "free",  # a role acts as soon as it has heard something, beside whoever acts then
]


class Environment(Bus):
    """Roles that hear each other.

    `model` serves every role that has none of its own. `limits` bind all roles together. `seed`
    makes sampling repeatable. `journal` is a file to record to; without one the trajectory is
    kept in memory. With `fsync` the record survives a power cut too, not only the end of the
    process. `about` goes into the trajectory's header.

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
        fsync: bool = False,
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
        check_model(model)
        check_limits(limits)
        if approver is not None and not callable(approver):
            raise UsageError(
                f"`approver` is {approver!r}, expected a function that is asked: it gets an "
                f"`ApprovalNeeded` and returns True or False."
            )
        super().__init__(
            may_finish=may_finish,
            id=id,
            seed=seed,
            journal=journal,
            fsync=fsync,
            about=about,
            observers=observers,
        )
        self.schedule = schedule
        self.approver = approver
        self.approved: dict[str, bool] = {}
        """Decisions on actions that want permission, by idempotency key."""
        self.on_unknown = on_unknown
        self.model = model
        self.limits = limits
        self.budget = Budget(limits) if limits is not None else None
        self.rounds = 0
        """Rounds played so far; the logical time."""
        self.turns = 0
        """Turns played so far: a role that does something in a round takes one."""
        self.on_delta: Callable[[str, str, str], None] | None = None
        """Hears pieces of answers: role, conversation, text."""
        self._models: dict[str, Model] = {}
        self._last_actor = ""
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
        if self.begun and not self.in_round:  # else the header tells
            self.record(Event("hire", data=recording.describe(role)))

    def add_roles(self, roles: Iterable[Role]) -> None:
        """Add roles. Raises `DuplicateRole`."""
        if isinstance(roles, (Role, type)):
            kind = roles if isinstance(roles, type) else type(roles)
            raise UsageError(
                f"`roles` wants a list of roles, got {roles!r}: write `[{kind.__name__}(...)]`."
            )
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

    # --- rounds ------------------------------------------------------------------------------

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
        self.check_free()
        bound = Bound(self, rounds)
        with self.budget.running() if self.budget is not None else nullcontext():
            while True:
                reason = await self._play_until(bound.last)
                if reason != "rounds" or not await bound.raised():
                    return reason

    async def _play_until(self, last: float) -> StopReason:
        if self.schedule == "free":
            return await free_running.run(self, last)
        while ready := self._next_to_act():
            if self.rounds >= last:
                return "rounds"
            if (reason := await self._round(ready)) is not None:
                return reason
        return "idle"

    def retry(self) -> list[str]:
        """Let roles whose turns failed take up again what they had been told; their names."""
        names = [name for name, role in self.roles.items() if role.take_up_again()]
        if names:
            self.record(Event("resume", data={"retry": names}))
        return names

    def check_free(self) -> None:
        """Raise `UsageError` while roles act."""
        if self.in_round:
            raise UsageError(f"Environment {self.id!r} is already running; wait for it to finish.")

    async def play_round(self) -> StopReason | None:
        """Play one round; why the run ends with it, or None. Raises what an action raises."""
        self.check_free()
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
        self.say_resumed()
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
            self._end_turns(ready, errors)
        failures = {
            role.name: error for role, error in zip(ready, errors, strict=True) if error is not None
        }
        await keeping.keep_all(ready, failed=bool(failures))
        return self.after_turns(failures)

    def _end_turns(self, roles: Sequence[Role], errors: Sequence[BaseException | None]) -> None:
        """End every turn, also where the record of one fails; what a role raised comes first."""
        broken: Exception | None = None
        for role in roles:
            try:
                self.end_turn(role)
            except (RolecraftError, OSError) as error:  # a full disk; the run has diverged
                broken = broken or error
        if broken is None:
            return
        raised = next((error for error in errors if error is not None), None)
        if raised is None or raised is broken:
            raise broken
        raised.add_note(f"The round could not be recorded: {type(broken).__name__}: {broken}")
        raise raised

    def say_resumed(self) -> None:
        """Record that a run which had stopped goes on, once there is nothing left to follow.

        Where it went on before, the record says so, and it is said there again.
        """
        while (known := self.recorder.coming) and known.kind == "resume" and "after" in known.data:
            self.record(replace(known, data=dict(known.data), seq=-1))
        if self.resumes is not None and not self.recorder.following:
            event, self.resumes = self.resumes, None
            self.record(event)

    def begin_turn(self, role: Role, *, time: int, held: bool) -> None:
        role.rc.log, role.rc.outbox = self.recorder.turn(role.name, held=held), []
        role.rc.log.time = time
        role.rc.waits = False
        self._acting.add(role.name)

    async def turn_of(self, role: Role) -> BaseException | None:
        """Let a role act; what it raised."""
        quiet = not self.observers or self.recorder.following
        told = () if quiet else tuple(among(self.observers))
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
        log, said, recorder = role.rc.log, role.rc.outbox, self.recorder
        role.rc.log, role.rc.outbox = recorder, None
        self._acting.discard(role.name)
        if isinstance(log, Turn):
            log.commit()
            if log.is_empty:  # it only listened
                self.turns -= 1
        for message in said or ():
            self._hand_on(message)
        if not self._acting:
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                for message in waiting:
                    self.deliver(message)
            if recorder.beyond and (self.past is None or self.rounds >= self.past.until):
                recorder.expects = None
                if self.backlog is not None:
                    self.backlog.clear()

    def after_turns(self, failures: dict[str, BaseException]) -> StopReason | None:
        """Why the run ends after turns, or None. Raises one of the `failures`, by role."""
        for name in list(failures):
            self.roles[name].missed()
            if isinstance(failures[name], ApprovalNeeded):
                self.roles[name].rc.waits = True
                del failures[name]
        if failures:
            self.recorder.directives.clear()  # the round is taken back, and they with it
            if all(map(crossing.stops, failures.values())):
                return "limit"
            self._raise(failures)
        reason: StopReason | None = None
        if self._finished is not None:
            self._finished, reason = None, "finished"
        elif any(role.rc.waits for role in self.roles.values()):
            reason = "approval"
        if not self.observers:
            return reason
        stop = obeying.obey(self, goes_on=reason is None)
        self._told_to_stop = stop or self._told_to_stop
        return reason or ("observer" if stop is not None else None)

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

    def reset(self) -> None:
        """Be again what the environment and its roles were before the first event.

        Records to memory, or to a new file: set `journal` before going on. Raises `UsageError`
        during a round. What other objects it holds (a sandbox, a client) are left as they are.
        """
        self.check_free()
        self.close()
        if self._beginning is None:
            return
        self._begin_as(self._beginning, self.roles)
        for role in self.roles.values():
            role.rc.env = role.rc.log = None
            (role.rc.first or Beginning.of(role)).restore(role)
            role.rc.env = self
        self.rewatch()

    def again(self) -> Self:
        """An environment like this one before its first event, with roles of its own.

        It is for a run beside this one. Objects that attributes hold (models, clients) are shared.
        """
        env = object.__new__(type(self))
        env._begin_as(self._beginning or self.__dict__, {})
        for role in self.roles.values():
            env.add_role((role.rc.first or Beginning.of(role)).role())
        return env

    def _begin_as(self, attributes: Mapping[str, Any], roles: dict[str, Role]) -> None:
        """Take over attributes of an environment that has not begun, as this one's own."""
        self.__dict__.update({name: own(value) for name, value in attributes.items()})
        self.__dict__.update(_recorder=None, _journal=None, backlog=None, journal=None, past=None)
        self._beginning, self._acting, self.roles = None, set(), roles
        self.budget = Budget(self.limits) if self.limits is not None else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} with {', '.join(self.roles) or 'no roles'}>"
