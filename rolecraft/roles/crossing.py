"""Crossed limits in the record: what was decided is written, and not asked again.

A decision that ends a turn (raise, stop, hand over) is part of the event that says how the action,
or the turn, ended. One after which the turn goes on (more room, another model) is an event of its
own, in the place of the call that it was about. A run that follows a record gets both from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolecraft.errors import LimitReached
from rolecraft.models.limits import (
    Crossing,
    Decision,
    HandOver,
    MoreRoom,
    UseModel,
    limit_reached,
    read_decided,
    write_decided,
)
from rolecraft.trajectories.events import Event, Usage
from rolecraft.trajectories.nesting import is_failure
from rolecraft.trajectories.past import recorded_error

if TYPE_CHECKING:
    from rolecraft.actions.action import Running
    from rolecraft.messages import Message
    from rolecraft.models.base import Session
    from rolecraft.models.budget import Budget
    from rolecraft.roles.role import Role
    from rolecraft.trajectories.recorder import Log


def write_reached(error: LimitReached) -> dict[str, Any]:
    """A limit that ended something, as the data of its event."""
    if error.crossing is None:
        return {"limit": error.limit, "allowed": error.allowed, "used": error.used}
    data = write_decided(error.crossing, error.decision)
    return {**data, "session": error.session} if error.session else data


def read_reached(event: Event) -> Exception:
    """The exception that an `error` or `limit` event records."""
    if event.kind != "limit":
        return recorded_error(event)
    error = limit_reached(*read_decided(event.data, role=event.role))
    error.session, error.usage = event.data.get("session", ""), event.usage
    return error


def goes_on(crossing: Crossing, decision: Decision) -> Event | None:
    """The event of a decision after which things go on; None for one that ends them."""
    if not isinstance(decision, (MoreRoom, UseModel)):
        return None
    return Event("limit", crossing.role, str(crossing), data=write_decided(crossing, decision))


def in_call(
    role: Role, session: Session, crossing: Crossing, decision: Decision, usage: Usage | None
) -> None:
    """Write down what was decided about a model call of `role`."""
    event = goes_on(crossing, decision)
    if event is not None:
        event.data["session"] = session.id
        event.cause = role._cause()
        (session.place or role._log_now()).add(event)


async def in_time(role: Role, now: Running) -> None:
    """Before an action is run: raises `LimitReached` if the role's time is over."""
    budget = role._budget
    # What may be run again at any time is: also when a record is followed, in another time.
    if budget is None or not budget.limits_seconds or now.action.repeat == "freely":
        return

    def note(crossing: Crossing, decision: Decision, usage: Usage | None) -> None:
        event = goes_on(crossing, decision)
        if event is not None:
            event.cause = now.event.seq
            now.log.add(event)

    await budget.check_time(f"the action {now.action.name!r}", role=role.name, note=note)


def again(role: Role, log: Log, events: tuple[Event, ...]) -> None:
    """Write recorded decisions about a model call again, and let them count again."""
    for event in events:
        count(role._budget, event)
        if is_failure(event):
            if role.rc.env is not None and role.rc.env.past is not None:
                role.rc.env.past.given(event)
            raise read_reached(event)
        log.add(replace(event, data=dict(event.data), cause=role._cause(), seq=-1))


def count(budget: Budget | None, event: Event) -> None:
    """Let a recorded event count: what was billed, and the room that was given."""
    if budget is None:
        return
    if event.usage is not None:
        budget.count(event.usage)
    if event.kind != "limit":
        return
    crossing, decision = read_decided(event.data, role=event.role)
    if isinstance(decision, MoreRoom):
        budget.named(crossing.whose).grant(decision)


def stops(error: BaseException) -> bool:
    """Whether a crossed limit ends the run without being raised."""
    return isinstance(error, LimitReached) and error.decision == "stop"


def handed_over(role: Role, error: Exception) -> Message | None:
    """What `role` says at the end of a turn that it hands over to another; None if it does not."""
    if not isinstance(error, LimitReached) or not isinstance(error.decision, HandOver):
        return None
    if role.rc.env is None:
        return None
    from rolecraft.messages import Message

    return Message(error.decision.message, send_to=error.decision.to)
