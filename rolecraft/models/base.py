"""Models and sessions: how roles talk to language models.

A role never calls a model directly. It opens a session, which owns one conversation's history and
puts every call into the trajectory's terms: text, tool calls, usage, and for local models the
exact tokens. `Session.generate` is the same for all models; a model implements `_complete`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.budget import Budget, Hold
from rolecraft.models.switch import check_allowed
from rolecraft.trajectories.events import TokenSpan, Usage

FinishReason = Literal[
    "stop",  # the model ended its answer
    "length",  # the answer was cut off at the token limit
    "tool_calls",  # the model asked for tools
    "content_filter",  # the provider withheld the answer
    "unknown",  # the provider gave no reason, or one that is not in this list
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample. A field left None is the model's own default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    choices: tuple[str, ...] | None = None
    """The answer is one of these. Local models can sample nothing else; API models are told."""


DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model may ask for. `parameters` is a JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Completion:
    """One answer of a model."""

    text: str
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "stop"
    tokens: TokenSpan | None = None
    """For local models: the exact tokens given and sampled, with log-probabilities."""


class Model(ABC):
    """Something that answers. One object serves any number of roles and sessions at once."""

    name: str = "model"
    real: bool = True
    """False for test doubles, which `forbid_real_models` lets through."""
    person: bool = False
    """True where a person answers: typed questions are then put in words, field by field."""

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A new conversation. `seed` makes sampling repeatable where the model supports it."""
        return Session(self, role=role, system=system, seed=seed)

    @abstractmethod
    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        """Answer the conversation in `session.messages`."""

    async def prepare(self) -> None:  # noqa: B027 (most models have nothing to load)
        """Load what answering needs (libraries, tables) without blocking the event loop.

        A session awaits it before every call, so it must be quick when all is there.
        """

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float | None:
        """Upper bound of the next call's price in US dollars; None where it is unknown.

        Asked for only where a budget limits money.
        """
        return None

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int | None:
        """Upper bound of the next call's tokens, prompt and answer; None where it is unknown.

        Asked for only where a budget limits tokens.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def aclose(self) -> None:  # noqa: B027 (most models hold nothing)
        """Release what the model holds (connections, threads). Harmless when called twice."""


class Call(NamedTuple):
    """What one call of a model added to the conversation, and how it was asked."""

    messages: Sequence[Message]
    """What is new since the last answer, the system prompt first; also what failed calls left."""
    tools: tuple[Tool, ...]
    sampling: Sampling


class Session:
    """One conversation of one role with one model. Its history only ever grows."""

    def __init__(self, model: Model, *, role: str = "", system: str = "", seed: int = 0) -> None:
        self.model = model
        self.role = role
        self.seed = seed
        self.id = ""
        """Name of the conversation in the trajectory; the role sets it."""
        self.budget: Budget | None = None
        self.on_answer: Callable[[Session, Call, Completion], None] | None = None
        """Called with what was asked and the answer of each call; a role records them here."""
        self.messages: list[Message] = [Message(system, role="system")] if system else []
        self._asking = False
        self._hold: Hold | None = None
        self._told = 0
        """How many messages `on_answer` has heard of. A call that failed leaves some untold."""

    async def generate(
        self,
        new_messages: Sequence[Message] = (),
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling | None = None,
    ) -> Completion:
        """Add `new_messages`, ask the model, add and return its answer.

        Raises `LimitReached` before the call if the budget does not cover it, `ModelError` if
        the model cannot answer; the new messages then stay in the history. Raises `UsageError`,
        with the history as it was, while an earlier call is still waiting for its answer.
        """
        check_allowed(self.model)
        if self._asking:
            raise UsageError(
                f"Role {self.role!r} asked in a session that is still waiting for an answer. "
                f"A conversation is one after the other: await the answer, or open another session."
            )
        self._asking = True
        try:
            self.messages.extend(new_messages)
            completion = await self._within_budget(tools, sampling or DEFAULT_SAMPLING)
        finally:
            self._asking = False
        answer = Message(completion.text, role="assistant")
        if completion.tool_calls:
            answer.metadata = {"tool_calls": completion.tool_calls}
        self.messages.append(answer)
        call = Call(self.messages[self._told : -1], tuple(tools), sampling or DEFAULT_SAMPLING)
        self._told = len(self.messages)
        if self.on_answer is not None:
            self.on_answer(self, call, completion)
        return completion

    async def _within_budget(self, tools: Sequence[Tool], sampling: Sampling) -> Completion:
        model, budget = self.model, self.budget
        await model.prepare()
        if budget is None:
            return await model._complete(self, tools, sampling)
        usd = model.estimate_usd(self, sampling, tools) if budget.limits_usd else None
        tokens = model.estimate_tokens(self, sampling, tools) if budget.limits_tokens else 0
        hold = await budget.hold(
            model, usd=usd, tokens=(sampling.max_tokens or 0) if tokens is None else tokens
        )
        self._hold = hold
        try:
            completion = await model._complete(self, tools, sampling)
        except BaseException as error:
            if isinstance(error, ModelError) and error.usage is not None:
                budget.settle(hold, error.usage)
            else:
                budget.release(hold)
            raise
        finally:
            self._hold = None
        budget.settle(hold, completion.usage)
        return completion

    def charge(self, usage: Usage) -> None:
        """For models: an attempt of the call under way gave no answer, and was billed.

        It counts at once, whatever becomes of the call; the call's own usage, or that of its
        `ModelError`, still says all of it.
        """
        if self.budget is not None and self._hold is not None:
            self.budget.charge(self._hold, usage)

    async def renew(self) -> None:
        """For models, before another attempt of a call that was charged.

        Raises `LimitReached` if the budget does not cover it.
        """
        if self.budget is not None and self._hold is not None:
            await self.budget.renew(self.model, self._hold)
