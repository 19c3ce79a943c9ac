"""Permission of a person for actions that want it (`approval = True`)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from rolecraft.errors import ApprovalDenied, ApprovalNeeded
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.actions.action import Running
    from rolecraft.roles.role import Role


async def allow(role: Role, now: Running) -> None:
    """Return if the action is allowed. Raises `ApprovalDenied`; `ApprovalNeeded` if nobody says.

    An answer in the record counts, then one that was given for the action's key beforehand, then
    the environment's `approver` is asked. What was decided, and by whom, is recorded.
    """
    env, action = role.rc.env, now.action
    key = role._key_of(now.path)
    request = f"{action.name}({_arguments(now.event)}) {action.description}".rstrip()
    granted, by = _recorded(now)
    asked = ApprovalNeeded(role.name, action.name, key, request)
    if granted is None and env is not None:
        granted, by = env.approved.get(key), "a decision given beforehand"
        if granted is None and env.approver is not None and not _waits(now):
            answer = env.approver(asked)
            granted, by = bool(await answer if inspect.isawaitable(answer) else answer), "approver"
    data = {"action": action.name, "key": key, "granted": granted}
    if granted is not None:
        data["by"] = by
    event = Event("approval", role=role.name, content=request, data=data, cause=now.event.seq)
    now.log.add(event)
    if granted is None:
        raise asked
    if not granted:
        raise ApprovalDenied(role.name, action.name, by)


def _recorded(now: Running) -> tuple[bool | None, str]:
    for event in now.past.inside if now.past is not None else ():
        if event.kind == "approval" and event.data.get("granted") is not None:
            return bool(event.data["granted"]), str(event.data.get("by", ""))
    return None, ""


def _waits(now: Running) -> bool:
    """Whether the run follows a record in which the action still waits."""
    env = now.owner.rc.env  # type: ignore[attr-defined]
    return bool(env is not None and env.past is not None and env.past.strict)


def _arguments(event: Event) -> str:
    given = event.data.get("arguments") or event.data.get("fields") or {}
    return ", ".join(f"{name}={value!r}" for name, value in given.items())
