"""How a role recalls: as a call of the tool `recall`, which a model may call too.

What a long-term memory answers depends on all that was ever kept in it. As the result of a tool it
is in the record, and is served from there when the record is followed.
"""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rolecraft.actions.action import Action
from rolecraft.actions.tool import tool
from rolecraft.errors import UsageError
from rolecraft.roles.long_term import Remembered

if TYPE_CHECKING:
    from rolecraft.roles.role import Role


@tool(parallel=True)
async def recall(query: str, *, k: int = 5, me: Action) -> list[dict[str, str]]:
    """Search your long-term memory for what was said in the past, also long ago.

    Args:
        query: What it was about: a question, or words that were used.
        k: How many memories to find at most.
    """
    memory = me.role.long_term
    if memory is None:
        name = type(me.role).__name__
        raise UsageError(
            f"Role {me.role.name!r} is to recall something and has no long-term memory. Give it "
            f"one: `{name}(long_term=SqliteMemory('memory.db'))`."
        )
    return [asdict(found) for found in await memory.search(query, k)]


async def recalled(role: Role, query: str, k: int) -> list[Remembered]:
    """What `role` recalls."""
    found: list[Any] = await copy.copy(recall)._bound(role).run(query=query, k=k)
    return [Remembered(**each) for each in found]


async def news_recalled(role: Role) -> str:
    """What `role` recalls of its news, as a part of its prompt; empty if it is nothing."""
    news = "\n".join(message.content for message in role.rc.news)
    found = await recalled(role, news, role.recall_top)
    if not found:
        return ""
    return "\n".join(["What you remember from the past:", *(f"- {each}" for each in found)])
