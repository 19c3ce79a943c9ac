"""How documents are found in a history and shown to a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from rolecraft.messages import USER_REQUIREMENT, Message
from rolecraft.roles.ready.source_files import SourceFile, files_of
from rolecraft.roles.remedies.protocol import complaints

D = TypeVar("D", bound=BaseModel)


def latest(history: Iterable[Message], document: type[D]) -> D | None:
    """The last document of this type; None if there is none."""
    found = all_of(history, document)
    return found[-1] if found else None


def all_of(messages: Iterable[Message], document: type[D]) -> list[D]:
    """Every document of this type, oldest first."""
    carried = (message.instruct_content for message in messages)
    return [each for each in carried if isinstance(each, document)]


def wish(history: Iterable[Message]) -> str:
    """What the customer asked for, in the customer's own words."""
    said = [message.content for message in history if message.cause_by == USER_REQUIREMENT]
    return _section("CustomerWish", "\n\n".join(said)) if said else ""


def shown(history: Sequence[Message], *documents: type[BaseModel], files: bool = False) -> str:
    """The customer's wish, the latest document of each type, and all files, as a part of a prompt.

    Every role reads the wish itself beside what colleagues made of it, so that nothing of it is
    lost on the way.
    """
    parts = [wish(history)]
    for kind in documents:
        found = latest(history, kind)
        if found is not None:
            parts.append(_section(kind.__name__, str(found)))
    if files:
        written = [str(SourceFile(path=p, content=c)) for p, c in files_of(history).items()]
        parts.append(_section("Files", "\n\n".join(written) or "none yet"))
    parts += complaints(history)
    return "\n\n".join(part for part in parts if part)


def _section(title: str, text: str) -> str:
    return f"<{title}>\n{text}\n</{title}>"
