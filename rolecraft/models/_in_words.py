"""Typed questions for a person: in words, field by field, with what is wrong with an answer.

Nobody should have to write JSON by hand. A text is typed as it is; of a list the items, one after
the other, until an empty line; an empty line also leaves a default as it is.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Literal, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from pydantic_core import PydanticUndefined, to_json

from rolecraft.errors import InvalidAnswer
from rolecraft.messages import Message
from rolecraft.models.base import Model, Sampling, Session
from rolecraft.models.by_field import Leaf, bare_kind, fill_fields, is_node
from rolecraft.models.forms import form_of, reason_of
from rolecraft.models.near_json import NotJSON, repair
from rolecraft.models.questions import Check, read_choice, texts_of

PATIENCE = 9
"""So often is a person asked again for one thing: people mistype."""

_NO_DEFAULT = PydanticUndefined
_IN_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "yes or no",
    datetime.date: "a date, such as 2026-11-21",
}


async def put_question(
    session: Session, prompt: str, *, returns: Any, check: Check | None, retries: int
) -> Any:
    """Ask a person `prompt`; their answer as a `returns`. Raises `InvalidAnswer`."""
    interview = _Interview(session, prompt)
    async with _undisturbed(session.model):
        for _ in range(retries + 1):
            answer = await interview.value(returns)
            if check is None:
                return answer
            try:
                check(answer)
            except ValueError as error:
                interview.refuse(problem := reason_of(error))
            else:
                return answer
    raise InvalidAnswer(f"{session.model.name!r} was asked {retries + 1} times. {problem}")


_Talks = WeakKeyDictionary[Model, asyncio.Lock]

_talks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Talks] = WeakKeyDictionary()


def _undisturbed(person: Model) -> asyncio.Lock:
    """Held while a person answers one typed question: no other comes in between."""
    talks = _talks.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    return talks.setdefault(person, asyncio.Lock())


class _Interview:
    """What is asked for one typed question, one thing after the other, in one session."""

    def __init__(self, session: Session, prompt: str) -> None:
        self.session = session
        self.untold = prompt
        """What goes before the next question."""

    def refuse(self, problem: str) -> None:
        self.untold = f"That will not do: {problem}"

    async def line(self, question: str, choices: tuple[str, ...] = ()) -> str:
        text = "\n".join(part for part in (self.untold, question) if part)
        self.untold = ""
        sampling = Sampling(choices=choices) if choices else None
        return (await self.session.generate([Message(text)], sampling=sampling)).text.strip()

    async def leaf(self, leaf: Leaf) -> Any:
        if leaf.problem:
            self.refuse(leaf.problem)
        about = f", {leaf.field.description}" if leaf.field.description else ""
        default = leaf.field.get_default(call_default_factory=True)
        return await self.value(leaf.kind, f"{leaf.path}{about}", default)

    async def value(self, kind: Any, name: str = "", default: Any = _NO_DEFAULT) -> Any:
        bare, optional = bare_kind(kind)
        if optional and default is _NO_DEFAULT:
            default = None
        if is_node(bare):
            wanted = f"{name}: shall there be one?"
            if optional and not await self.plain(bool, wanted, _NO_DEFAULT):
                return default
            return await fill_fields(bare, self.leaf, retries=PATIENCE)
        arguments = get_args(bare)
        several: Callable[[], Awaitable[Any]]
        if get_origin(bare) is list and arguments:
            several = partial(self.items, arguments[0], name or "item")
        elif get_origin(bare) is dict and arguments[:1] == (str,):
            several = partial(self.table, arguments[1], name or "entry")
        else:
            return await self.plain(kind, name, default)

        async def answer() -> Any:
            found = await several()
            if not found and default is not _NO_DEFAULT:
                return default
            return form_of(kind).adapter.validate_python(found)

        return await self.until_valid(answer)

    async def plain(self, kind: Any, name: str, default: Any) -> Any:
        """One thing that fits on a line."""
        bare, _ = bare_kind(kind)
        choices = tuple(texts_of(bare)) if get_origin(bare) is Literal else ()
        hint = "" if choices else _IN_WORDS.get(bare) or f"JSON: {form_of(bare).text}"
        left = "" if default is _NO_DEFAULT else f" [{_shown(default)}]"
        question = ": ".join(part for part in (name, hint) if part) + left

        async def answer() -> Any:
            text = await self.line(question, choices)
            if not text and default is not _NO_DEFAULT:
                return default
            return read_choice(texts_of(bare), text) if choices else _read(kind, text)

        return await self.until_valid(answer)

    async def items(self, kind: Any, name: str) -> list[Any]:
        if is_node(bare_kind(kind)[0]):
            found = []
            while await self.plain(bool, f"{name}: one more?", _NO_DEFAULT):
                found.append(await self.value(kind))
            return found
        return [_read(kind, text) async for text in self.lines(f"{name}: one a line")]

    async def table(self, kind: Any, name: str) -> dict[str, Any]:
        found = {}
        async for text in self.lines(f"{name}: one `name: value` a line"):
            key, colon, value = text.partition(":")
            if not colon:
                raise ValueError(f"{text!r} has no `:`. Start again")
            found[key.strip()] = _read(kind, value.strip())
        return found

    async def lines(self, question: str) -> AsyncIterator[str]:
        text = await self.line(f"{question}, then an empty line")
        while text:
            yield text
            text = await self.line("")

    async def until_valid(self, answer: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(PATIENCE + 1):
            try:
                return await answer()
            except ValueError as error:
                self.refuse(problem := reason_of(error))
        raise InvalidAnswer(
            f"{self.session.model.name!r} was asked {PATIENCE + 1} times. {problem}"
        )


def _read(kind: Any, text: str) -> Any:
    """What a person typed, as a `kind`. Raises `ValidationError`."""
    adapter = form_of(kind).adapter
    try:
        return adapter.validate_strings(text)
    except ValidationError:
        try:
            return adapter.validate_json(repair(text))
        except (NotJSON, ValidationError):
            pass
        raise


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, fallback=str).decode()
