"""Doing from the record what an action did, without running it again.

A completed run is served: its events are written again, what it said is said again, the list that
it swapped in is swapped in, and the plain attributes that it changed are set. The model calls
within it count in the budget and are not made.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolecraft.actions._left import put_back
from rolecraft.actions.action import Action
from rolecraft.errors import NotRestorable, OutcomeUnknown
from rolecraft.messages import Message
from rolecraft.roles import crossing
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.nesting import is_failure
from rolecraft.trajectories.runs import places
from rolecraft.trajectories.values import decode_value, encode_value, model_type, subclass_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rolecraft.actions.action import Running
    from rolecraft.roles.role import Role


async def is_served(role: Role, now: Running) -> bool:
    """Whether the run comes from the record, because it has ended there.

    One that was cut off is done again, unless it says `repeat = "never"`: then the environment's
    `on_unknown` decides, and `OutcomeUnknown` is raised if it says so.
    """
    past, env, action = now.past, role.rc.env, now.action
    assert past is not None
    assert env is not None
    if action.repeat == "freely":
        return False
    if past.complete:
        if env.past is None or not env.past.strict:  # a replay only reads
            await action._redo(past.start)
        return True
    if action.repeat != "never" or any(event.kind == "approval" for event in past.inside[-1:]):
        return False  # what only waited for permission has not begun
    error = OutcomeUnknown(role.name, action.name, role._key_of(now.path))
    result = None
    if callable(env.on_unknown):
        result = env.on_unknown(error)
        result = await result if inspect.isawaitable(result) else result
    elif env.on_unknown == "redo":
        return False
    elif env.on_unknown == "raise":
        raise error
    end = action._end_event(result)
    end.data |= {"unknown": True, "ends": True}
    end.role, end.cause = role.name, past.start.seq
    now.past = replace(past, end=end)
    return True


def serve(role: Role, now: Running) -> Any:
    """Write again what the run wrote, and give its result or raise what it raised."""
    past = now.past
    assert past is not None
    assert past.end is not None
    if role.rc.env is not None and role.rc.env.past is not None:
        role.rc.env.past.take(past)
    numbers = {past.start.seq: now.event.seq}
    for event, _, path in places([past.start, *past.inside]):
        if event is not past.start:
            numbers[event.seq] = _again(role, now, event, path, numbers)
    role._says_what_was_said_within(now)
    end = past.end
    now.left = end.data["ends"] if isinstance(end.data.get("ends"), dict) else None
    if now.left is not None:
        put_back(role, now.left.get("role", {}))
        put_back(now.action, now.left.get("action", {}))
    if past.cancelled:
        return None  # its end is written when it is cancelled again
    if end.kind == "message":
        role.rc.ending = now
        return replace(message_of(end), id="")
    crossing.count(role._budget, end)
    now.log.add(_copy(end, numbers, now))
    raised = end
    if "raised" in end.data:  # an action within it has recorded the exception
        raised = next(event for event in reversed(past.inside) if is_failure(event))
    if raised is not end or end.kind in ("error", "limit") or end.data.get("ok") is False:
        error = crossing.read_reached(raised)
        role._note_failure(now, error)
        raise error
    return now.action._result_of(end)


def _again(role: Role, now: Running, event: Event, path: str, numbers: dict[int, int]) -> int:
    """Write an event of the run again, with what it means for the role."""
    if event.kind == "message":
        message = message_of(event)
        cause = _cause(event, numbers, now)
        return role._says_again(message, cause, now.log, path)
    if event.kind == "action_swap" and "list" in event.data:
        role.rc.cursor.replace(
            [rebuilt(each)._bound(role) for each in event.data["list"]], in_order=True
        )
        role.__dict__["actions"] = role.rc.cursor.actions
    elif event.kind == "action_swap":
        raise NotRestorable(
            f"Action `{now.action.name}` of role {role.name!r} swapped the action list in its "
            f"`run`, and the actions {event.data['actions']} cannot be made again from the record. "
            f"Swap in `_act` (role code runs again), or give these actions plain fields."
        )
    crossing.count(role._budget, event)
    return now.log.add(_copy(event, numbers, now))


def _copy(event: Event, numbers: dict[int, int], now: Running) -> Event:
    return replace(event, cause=_cause(event, numbers, now), data=dict(event.data), seq=-1)


def _cause(event: Event, numbers: dict[int, int], now: Running) -> int | None:
    if event.cause in numbers:
        return numbers[event.cause]
    # A handle that only the process knew which recorded it; a number is the same in every run.
    return now.event.seq if event.cause is not None and event.cause < 0 else event.cause


def message_of(event: Event) -> Message:
    """The message that an event of kind `message` records."""
    data = event.data
    content = data.get("instruct_content")
    if "instruct_lost" in data:
        raise NotRestorable(
            f"Message {data.get('id')!r} carries {data['instruct_lost']}, which the record could "
            f"not hold as JSON and give back equal."
        )
    if content is not None:
        content = model_type(data["instruct_type"]).model_validate(content)
    return Message(
        event.content,
        role=data.get("as", event.role),
        cause_by=data.get("cause_by", ""),
        sent_from=event.role,
        send_to=event.to,
        instruct_content=content,
        metadata=data.get("metadata"),
        id=data.get("id", ""),
    )


def listed(actions: Sequence[Action]) -> list[dict[str, Any]] | None:
    """Actions as JSON that `rebuilt` makes again; None if one of them cannot be."""
    found = []
    try:
        for action in actions:
            fields = {
                name: encode_value(value)
                for name, value in action.__dict__.items()
                if name[0] != "_" and name in action._fields
            }
            kind = type(action)
            found.append({"type": f"{kind.__module__}.{kind.__qualname__}", "fields": fields})
    except NotRestorable:
        return None
    return found


def rebuilt(record: dict[str, Any]) -> Action:
    kind: type[Action] = subclass_at(Action, record["type"])
    return kind(**{name: decode_value(value) for name, value in record["fields"].items()})
