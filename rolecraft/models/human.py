"""A person as a model: any role can be played by a person, at the terminal or through a callback.

Questions reach the person as text and one at a time. Typed questions come in words, field by field
(`rolecraft.models.questions`), and every answer is recorded as a model's is, so that a run with
people in it can be replayed without them.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TextIO
from weakref import WeakKeyDictionary

from rolecraft.errors import NobodyAnswers, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.near_json import NotJSON, repair
from rolecraft.trajectories.events import Usage


class Question(NamedTuple):
    """What a person is asked."""

    role: str
    """The role that they answer for."""
    text: str
    """What was said since their last answer."""
    choices: tuple[str, ...] = ()
    """If there are any, the answer is one of these."""
    tools: tuple[Tool, ...] = ()
    """What they may call instead of answering: the tool's name, and its arguments as JSON."""

    def __str__(self) -> str:
        text = f"{self.role}: {self.text}" if self.role else self.text
        if self.choices:
            text += f" ({', '.join(self.choices)})"
        for tool in self.tools:
            names = ", ".join(f'"{name}": ...' for name in tool.parameters.get("properties", ()))
            text += f"\n  {tool.name} {{{names}}}  {tool.description}".rstrip()
        return text


Answerer = Callable[[Question], str | Awaitable[str]]
"""Puts a question to a person and returns what they say."""


class HumanModel(Model):
    """A person who answers: at the terminal, or through `answer`, a function of a `Question`.

    `answer` may be async; it runs in the event loop, so one that waits must be. Where a role offers
    tools, an answer such as `look {"page": 3}` calls one. Raises
    `NobodyAnswers` at the end of the input, `UsageError` if `answer` returns no text.
    """

    person = True

    def __init__(self, answer: Answerer | None = None, *, name: str = "human") -> None:
        if answer is not None and not callable(answer):
            raise UsageError(
                f"`HumanModel` wants a function of a `Question`, got {answer!r}. Without one it "
                f"asks at the terminal."
            )
        self.name = name
        self.real = answer is None  # a test that waits for the keyboard would wait for ever
        self._answer: Answerer = answer or Terminal()

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float:
        return 0.0

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        return 0

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        choices = sampling.choices or ()
        question = Question(session.role, _unheard(session), choices, tuple(tools))
        answer = self._answer(question)
        if not isinstance(answer, str) and inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, str):
            raise UsageError(
                f"The `answer` function of {self.name!r} returned {answer!r} to {question.text!r}. "
                f"Return a str."
            )
        free = Usage(0, 0, 0.0)
        if call := _tool_call(answer, tools, f"call-{len(session.messages)}"):
            return Completion(text="", tool_calls=[call], usage=free, finish_reason="tool_calls")
        return Completion(text=answer, usage=free)


def _tool_call(answer: str, tools: Sequence[Tool], id: str) -> ToolCall | None:  # noqa: A002
    """The call that an answer is: the name of a tool, alone or with an object of arguments."""
    name, _, rest = answer.strip().partition(" ")
    if name not in {tool.name for tool in tools}:
        return None
    try:
        arguments = json.loads(repair(rest)) if rest.strip() else {}
    except NotJSON:
        return None
    return ToolCall(name, arguments, id) if isinstance(arguments, dict) else None


def _unheard(session: Session) -> str:
    """What was said since the last answer, the system prompt apart."""
    texts: list[str] = []
    for message in reversed(session.messages):
        if message.role == "assistant":
            break
        if message.role != "system":
            texts.append(message.content)
    return "\n".join(reversed(texts))


class Terminal:
    """Asks on `output` and reads lines of `input`, by default those of the process.

    The event loop goes on while the person thinks, and a question that is cancelled leaves the
    keyboard to the next. Of several questions at once, each waits for the one before.
    """

    def __init__(self, input: TextIO | None = None, output: TextIO | None = None) -> None:  # noqa: A002
        self._input, self._output = input, output

    async def __call__(self, question: Question) -> str:
        """The person's line, without its end. Raises `NobodyAnswers` where there is no more."""
        source, target = self._input or sys.stdin, self._output or sys.stdout
        try:
            file = source.fileno()
        except (OSError, ValueError, AttributeError):  # replaced, closed, or None
            file = None
        line = None
        if file is not None:
            async with _turn(file):
                target.write(f"{question}\n> ")
                target.flush()
                line = await _read_line(file)
        if line is None:
            raise NobodyAnswers(
                f"{'There is no terminal' if file is None else 'The input has ended'}, and role "
                f"{question.role!r} asks {question.text!r}. Where nobody sits at a terminal, give "
                f"`HumanModel(answer=...)` a function."
            )
        return line.decode(source.encoding or "utf-8", "replace").rstrip("\r\n")


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Lock]] = WeakKeyDictionary()
"""Who asks: a process has one keyboard, however many terminals its program makes of it."""


def _turn(file: int) -> asyncio.Lock:
    locks = _turns.setdefault(asyncio.get_running_loop(), {})
    return locks.setdefault(file, asyncio.Lock())


async def _read_line(file: int) -> bytes | None:
    """The next line, None at the end. Takes nothing beyond it, so that others may read on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    line = bytearray()

    def read_byte() -> None:
        if done.done():
            return
        try:
            byte = os.read(file, 1)
        except OSError as error:
            if error.errno != errno.EIO:
                done.set_exception(error)
                return
            byte = b""  # the terminal was closed
        line.extend(byte)
        if byte in (b"", b"\n"):
            done.set_result(None)

    try:
        loop.add_reader(file, read_byte)
    except PermissionError:  # a plain file: no loop can wait for one, and it is always ready
        while not done.done():
            read_byte()
    try:
        await done
    finally:
        loop.remove_reader(file)
    return bytes(line) or None
