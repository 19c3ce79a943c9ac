"""Test doubles: models that answer from a script or a function. Public, for your tests too.

They are models like any other: calls are recorded, budgets apply, and a script that runs dry is
an error, never a silent repetition.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from rolecraft.errors import UnexpectedModelCall
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.trajectories.events import Usage


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call that a double received: who asked, with which whole conversation."""

    role: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling


class FunctionModel(Model):
    """A model that answers with what `function` returns, a str or a `Completion`.

    `function` gets a `ModelCall`; it may be async, and what it raises comes out of `generate`.
    """

    real = False

    def __init__(
        self,
        function: Callable[[ModelCall], str | Completion | Awaitable[str | Completion]],
        *,
        name: str = "function",
        keep_calls: bool = True,
    ) -> None:
        self.name = name
        self.calls: list[ModelCall] = []
        """Every call so far, oldest first; empty with `keep_calls=False`."""
        self._function = function
        self._keep_calls = keep_calls

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        call = ModelCall(session.role, tuple(session.messages), tuple(tools), sampling)
        if self._keep_calls:
            self.calls.append(call)
        answer = self._function(call)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            # Words stand in for tokens, so that limits and reports have something to count.
            words = sum(message.content.count(" ") + 1 for message in call.messages)
            answer = Completion(text=answer, usage=Usage(words, answer.count(" ") + 1, 0.0))
        return answer


class ScriptedModel(FunctionModel):
    """A model that gives the replies of a script, in order, whoever asks.

    A reply is a str, a `Completion`, or an exception to raise. `per_role` gives single roles
    scripts of their own, which makes a team's run independent of who asks first. Raises
    `UnexpectedModelCall` when the script is used up.
    """

    def __init__(
        self,
        replies: Iterable[str | Completion | Exception] = (),
        *,
        per_role: dict[str, Iterable[str | Completion | Exception]] | None = None,
        name: str = "scripted",
    ) -> None:
        super().__init__(self._next, name=name)
        self._replies = list(replies)
        self._per_role = {role: list(script) for role, script in (per_role or {}).items()}
        self._given: dict[str, int] = {}

    def _next(self, call: ModelCall) -> str | Completion:
        whose = call.role if call.role in self._per_role else ""
        script = self._per_role[whose] if whose else self._replies
        given = self._given.get(whose, 0)
        if given == len(script):
            asked = call.messages[-1].content if call.messages else ""
            raise UnexpectedModelCall(
                f"The script{f' of role {whose!r}' if whose else ''} has {len(script)} replies and "
                f"all were given; role {call.role!r} now asks {asked!r}. "
                f"Add a reply, or find out why the role asks again."
            )
        self._given[whose] = given + 1
        reply = script[given]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def assert_complete(self) -> None:
        """Raise AssertionError if replies are left over."""
        scripts = {**self._per_role, "": self._replies}
        left = {
            role or "anyone": len(script) - self._given.get(role, 0)
            for role, script in scripts.items()
            if len(script) > self._given.get(role, 0)
        }
        assert not left, f"Replies of the script that nobody asked for: {left}"
