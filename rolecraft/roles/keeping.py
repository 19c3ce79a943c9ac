"""What goes into a role's long-term memory, and when.

Whatever a role takes up and says is kept when its round is over, in the order of the roles: so what
is found in a round does not depend on who is faster in it. A replay keeps nothing, and a fork only
what the other run has not said. Keeping is safe to repeat, so a recovered run keeps what a killed
process had not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rolecraft.roles.long_term import Remembered

if TYPE_CHECKING:
    from rolecraft.messages import Message
    from rolecraft.roles.role import Role


def keep_later(role: Role, message: Message) -> None:
    """Keep a message when the round is over."""
    if role.long_term is None:
        return
    env = role.rc.env
    if env is None or not env.recorder.repeats:
        role.rc.unkept.append(message)


async def keep(role: Role) -> None:
    """Keep what `role` has taken up and said. What fails is tried again the next time."""
    memory, messages = role.long_term, role.rc.unkept
    if memory is None or not messages:
        return
    role.rc.unkept = []
    run = role.rc.env.id if role.rc.env is not None else role.name
    try:
        await memory.add([Remembered.of(m, trajectory=run) for m in messages if m.content.strip()])
    except BaseException:
        role.rc.unkept = [*messages, *role.rc.unkept]
        raise


async def keep_all(roles: Iterable[Role], *, failed: bool) -> None:
    """Keep what these roles have said, one role after the other.

    Raises the first error of a memory, after all were tried; not if a turn has `failed`, whose
    error is the one to see.
    """
    errors = []
    for role in roles:
        if role.rc.unkept:
            try:
                await keep(role)
            except Exception as error:
                errors.append(error)
    if errors and not failed:
        raise errors[0]
