"""What a role's events say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rolecraft.errors import LimitReached, ModelError, RolecraftError
from rolecraft.messages import address_of
from rolecraft.roles.crossing import write_reached
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.actions import Action
    from rolecraft.roles.role import Role
    from rolecraft.trajectories.events import Usage


def describe(role: Role) -> dict[str, Any]:
    """What a trajectory's header says about a role: a judge reads here what it was meant to do."""
    purpose = {
        name: getattr(role, name)
        for name in ("profile", "goal", "constraints", "desc")
        if getattr(role, name)
    }
    return {
        "name": role.name,
        "class": address_of(type(role)),
        **purpose,
        "actions": [action.name for action in role.rc.cursor.actions],
        "watch": sorted(role.rc.watch),
    }


def failure_event(
    error: BaseException, action: Action | None = None, cause: int | None = None
) -> Event:
    """An exception: `limit` for a crossed limit, `error` for anything else."""
    about = {"action": action.name} if action is not None else {}
    if isinstance(error, LimitReached):
        data = write_reached(error) | about
        return Event("limit", content=str(error), data=data, cause=cause, usage=error.usage)
    data = {"type": type(error).__name__, **about}
    if isinstance(error, ModelError) and error.attempts > 1:
        data["attempts"] = error.attempts
        data["model"] = error.model
    return Event("error", content=str(error), data=data, cause=cause, usage=usage_of(error))


def usage_of(error: BaseException) -> Usage | None:
    """What was billed for model calls that ended with this exception, if anything is known of."""
    usage: Usage | None = error.usage if isinstance(error, (LimitReached, ModelError)) else None
    return usage


@contextmanager
def noted_on(error: BaseException) -> Iterator[None]:
    """For what is recorded because of `error`: if that fails too, a note on it says so.

    Where the record itself is what broke (a full disk), the first error is the one to see.
    """
    try:
        yield
    except (RolecraftError, OSError) as also:
        if also is not error:
            error.add_note(f"This could not be recorded: {type(also).__name__}: {also}")


_NOTE = "raised in "


def add_note(error: BaseException, role: str, action: Action | None) -> None:
    """Say on an exception of user code who raised it."""
    where = f"action {action.name!r} of " if action is not None else ""
    error.add_note(f"{_NOTE}{where}role {role!r}")


def has_note(error: BaseException, role: str | None = None) -> bool:
    """Whether a role (any, unless named) has noted, and so recorded, this exception."""
    end = f"role {role!r}" if role is not None else ""
    notes = getattr(error, "__notes__", ())
    return any(note.startswith(_NOTE) and note.endswith(end) for note in notes)
