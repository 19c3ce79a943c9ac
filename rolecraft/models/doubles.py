"""Test doubles: models that answer from a script or a function. Public, for your tests too.

They are models like any other: calls are recorded, budgets apply, and a script that runs dry is
an error, never a silent repetition.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from rolecraft.errors import UnexpectedModelCall, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.trajectories.events import Usage

_WORDS = re.compile(r"\s*\S+|\s+")
"""A word with the space before it: the pieces in which tokenizers commonly cut."""

Reply = str | Completion | Exception
"""What a script may hold: the text of an answer, a whole answer, or an exception to raise."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call that a double received: who asked, with which whole conversation."""

    role: str
    messages: Sequence[Message]
    """As it was at the call; with `keep_calls=False` the session's own list, good during it."""
    tools: tuple[Tool, ...]
    sampling: Sampling


class FunctionModel(Model):
    """A model that answers with what `function` returns, a str or a `Completion`.

    `function` gets a `ModelCall`; it may be async, and what it raises comes out of `generate`.
    A str is free and counts its words as tokens; a `Completion` brings its own usage. Raises
    `UsageError` if `function` returns anything else. Whoever listens gets the answer word by word.
    """

    real = False
    estimates_hold = False  # nobody knows what a function will say

    def __init__(
        self,
        function: Callable[[ModelCall], str | Completion | Awaitable[str | Completion]],
        *,
        name: str = "function",
        keep_calls: bool = True,
    ) -> None:
        if not callable(function):
            raise UsageError(
                f"`FunctionModel` wants a function of a `ModelCall`, got {function!r}."
            )
        self.name = name
        self.calls: list[ModelCall] = []
        """Every call so far, oldest first; empty with `keep_calls=False`."""
        self._function = function
        self._keep_calls = keep_calls
        self._counted: WeakKeyDictionary[Session, tuple[int, int]] = WeakKeyDictionary()
        """For each session: how many of its messages are counted, and their words."""

    def identity(self) -> dict[str, Any]:
        """For a cache of answers: which function it is, as far as its name and place say."""
        code = getattr(self._function, "__code__", None)
        place = (code.co_qualname, code.co_firstlineno) if code else (repr(self._function),)
        return {"kind": "FunctionModel", "name": self.name, "function": list(place)}

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        """The words of the prompt, and `max_tokens` for the answer where it is set."""
        return self._words(session) + (sampling.max_tokens or 0)

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        keep = self._keep_calls
        # Without a copy a call costs the same at the first message and at the hundred-thousandth.
        messages = tuple(session.messages) if keep else session.messages
        call = ModelCall(session.role, messages, tuple(tools), sampling)
        if keep:
            self.calls.append(call)
        answer = self._function(call)
        if not isinstance(answer, (Completion, str)) and inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            # Words stand in for tokens, so that limits and reports have something to count.
            usage = Usage(self._words(session), answer.count(" ") + 1, 0.0)
            answer = Completion(text=answer, usage=usage)
        if not isinstance(answer, Completion):
            raise UsageError(
                f"The function of the model {self.name!r} returned {answer!r}. "
                f"Return a str or a `Completion`."
            )
        if session.on_delta is not None:
            for word in _WORDS.findall(answer.text):
                session.deliver(word)
        return answer

    def _words(self, session: Session) -> int:
        """Words of the conversation. It only grows, so that each message is counted once."""
        counted, words = self._counted.get(session, (0, 0))
        for message in session.messages[counted:]:
            words += message.content.count(" ") + 1
        self._counted[session] = (len(session.messages), words)
        return words


class ScriptedModel(FunctionModel):
    """A model that gives the replies of a script, in order, whoever asks.

    A reply is a str, a `Completion`, or an exception to raise. `per_role` gives single roles
    scripts of their own, which makes a team's run independent of who asks first. Raises
    `UnexpectedModelCall` when the script is used up, `UsageError` for a reply of another type.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        per_role: Mapping[str, Iterable[Reply]] | None = None,
        name: str = "scripted",
        keep_calls: bool = True,
    ) -> None:
        super().__init__(self._next, name=name, keep_calls=keep_calls)
        self._scripts: dict[str | None, list[Reply]] = {None: _script(replies)}
        """By role; under None the script of everybody who has none of their own."""
        for role, script in (per_role or {}).items():
            self._scripts[role] = _script(script)
        self._given = dict.fromkeys(self._scripts, 0)

    def _next(self, call: ModelCall) -> str | Completion:
        whose = call.role if call.role in self._scripts else None
        script, given = self._scripts[whose], self._given[whose]
        if given == len(script):
            asked = call.messages[-1].content if call.messages else ""
            raise UnexpectedModelCall(
                f"The script{f' of role {whose!r}' if whose else ''} has {len(script)} replies and "
                f"all were given; role {call.role!r} now asks {asked!r}. "
                f"Add a reply, or find out why the role asks again.",
                model=self.name,
            )
        self._given[whose] = given + 1
        reply = script[given]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def assert_complete(self) -> None:
        """Raise AssertionError if replies are left over."""
        left = {
            role or "anyone": len(script) - self._given[role]
            for role, script in self._scripts.items()
            if len(script) > self._given[role]
        }
        # A plain `assert` would be gone under `python -O`.
        if left:
            raise AssertionError(f"Replies of the script that nobody asked for: {left}")


def _script(replies: Iterable[Reply]) -> list[Reply]:
    if isinstance(replies, str):
        raise UsageError(
            f"A script is a list of replies, got the str {replies!r}: put it in a list."
        )
    script = list(replies)
    for reply in script:
        if not isinstance(reply, (str, Completion, Exception)):
            raise UsageError(
                f"A reply of a script is a str, a `Completion` or an exception, got {reply!r}."
            )
    return script
