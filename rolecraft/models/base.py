"""Models and sessions: how roles talk to language models.

A role never calls a model directly. It opens a session, which owns one conversation's history and
puts every call into the trajectory's terms: text, tool calls, usage, and for local models the
exact tokens. `Session.generate` is the same for all models; a model implements `_complete`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecraft.messages import Message, ToolCall
from rolecraft.models.budget import Budget
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

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A new conversation. `seed` makes sampling repeatable where the model supports it."""
        return Session(self, role=role, system=system, seed=seed)

    @abstractmethod
    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        """Answer the conversation in `session.messages`."""

    def estimate_usd(self, session: Session, sampling: Sampling) -> float | None:
        """Upper bound of the next call's price in US dollars; None where it is unknown."""
        return None

    async def aclose(self) -> None:
        """Release what the model holds (connections, threads). Harmless when called twice."""


class Session:
    """One conversation of one role with one model. Its history only ever grows."""

    def __init__(self, model: Model, *, role: str = "", system: str = "", seed: int = 0) -> None:
        self.model = model
        self.role = role
        self.seed = seed
        self.id = ""
        """Name of the conversation in the trajectory; the role sets it."""
        self.budget: Budget | None = None
        self.on_answer: Callable[[Session, Sequence[Message], Completion], None] | None = None
        """Called with the new messages and the answer of each call; a role records them here."""
        self.messages: list[Message] = [Message(system, role="system")] if system else []

    async def generate(
        self,
        new_messages: Sequence[Message] = (),
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling | None = None,
    ) -> Completion:
        """Add `new_messages`, ask the model, add and return its answer.

        Raises `LimitReached` before the call if the budget does not cover it, `ModelError` if
        the model cannot answer; the new messages then stay in the history.
        """
        from rolecraft.models.switch import check_allowed

        check_allowed(self.model)
        sampling = sampling or Sampling()
        self.messages.extend(new_messages)
        budget = self.budget
        if budget is None:
            completion = await self.model._complete(self, tools, sampling)
        else:
            hold = budget.hold(self.model, self.model.estimate_usd(self, sampling), sampling)
            try:
                completion = await self.model._complete(self, tools, sampling)
            except BaseException:
                budget.release(hold)
                raise
            budget.settle(hold, completion.usage)
        answer = Message(completion.text, role="assistant")
        if completion.tool_calls:
            answer.metadata = {"tool_calls": completion.tool_calls}
        self.messages.append(answer)
        if self.on_answer is not None:
            self.on_answer(self, new_messages, completion)
        return completion
