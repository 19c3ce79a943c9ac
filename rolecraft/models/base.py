"""Models and sessions: how roles talk to language models.

A role never calls a model directly. It opens a session, which owns one conversation's history and
puts every call into the trajectory's terms: text, tool calls, usage, and for local models the
exact tokens. `Session.generate` is the same for all models; a model implements `_complete`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rolecraft.errors import LimitReached, ModelError, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.budget import Budget, Hold
from rolecraft.models.limits import Crossing, Decision, UseModel
from rolecraft.models.switch import check_allowed
from rolecraft.trajectories.events import TokenSpan, Usage

if TYPE_CHECKING:
    from rolecraft.models._failures import Failure
    from rolecraft.trajectories.recorder import Turn

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

    def filled(self, defaults: Sampling) -> Sampling:
        """The same, with those of `defaults` where a field is not set."""
        unset = {
            field.name: getattr(defaults, field.name)
            for field in fields(self)
            if getattr(self, field.name) in (None, ())
        }
        return replace(self, **unset)


DEFAULT_SAMPLING = Sampling()

RESET = ""
"""What `Session.on_delta` gets when the pieces so far are void: another attempt begins."""


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
    attempts: int = 1
    """How often the model was asked for it."""
    provider_fields: dict[str, Any] = field(default_factory=dict)
    """What the provider wants to see again in the next request, signatures of reasoning say.

    `model` names who gave it: it goes back unchanged, and to nobody else.
    """
    model: str = ""
    """Who answered, where the session's model asks one of several."""
    passed_over: list[dict[str, Any]] = field(default_factory=list)
    """Models that were asked before and did not answer: `model`, `error`, `attempts`, `usage`."""
    own_usage: Usage | None = None
    """Where others were passed over: the part of `usage` that is of the model that answered."""
    kept: Usage | None = None
    """Of an answer from a prompt cache: what it cost when it was given. `usage` is nothing."""


class Model(ABC):
    """Something that answers. One object serves any number of roles and sessions at once."""

    name: str = "model"
    real: bool = True
    """False for test doubles, which `forbid_real_models` lets through."""
    person: bool = False
    """True where a person answers: typed questions are then put in words, field by field."""
    estimates_hold: bool = True
    """False if a call may cost more than estimated: a budget then lets in one call at a time."""
    remembers: bool = False
    """True if `recall` may have an answer, which costs nothing and is in no budget."""

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A new conversation. `seed` makes sampling repeatable where the model supports it."""
        return Session(self, role=role, system=system, seed=seed)

    @abstractmethod
    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        """Answer the conversation in `session.messages`."""

    async def recall(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion | None:
        """An answer that was given before. Asked for only where the model `remembers`."""
        return None

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
        self.defaults = DEFAULT_SAMPLING
        """How to sample where a call leaves it open."""
        self.budget: Budget | None = None
        self.on_ask: Callable[[Session, Call], Completion | None] | None = None
        """Called before each call. A role that follows a record gives the answer from it."""
        self.on_answer: Callable[[Session, Call, Completion], None] | None = None
        """Called with what was asked and the answer of each call; a role records them here."""
        self.on_limit: Callable[[Session, Crossing, Decision, Usage | None], None] | None = None
        """Called with each crossed limit, what was decided, and the charge of a call cut short."""
        self.on_delta: Callable[[str], None] | None = None
        """Called with the pieces of an answer's text as they come, and with `RESET`."""
        self.on_reasoning: Callable[[str], None] | None = None
        """The same for a model's reasoning, where the model gives any while it comes."""
        self.on_failure: Callable[[Session], None] | None = None
        """Called when a call ended without an answer."""
        self.on_retry: Callable[[Session, Failure, float], None] | None = None
        """Called when an attempt failed and, after so many seconds, another one will be made."""
        self.place: Turn | None = None
        """Where the answer of the call under way will stand in the record; the role's."""
        self.offered: tuple[Tool, ...] = ()
        """The tools that the record says were offered last; the role's."""
        self.given_by = ""
        """The model that gave an answer which comes from a record; the role's."""
        self.messages: list[Message] = [Message(system, role="system")] if system else []
        self._asking = False
        self._hold: Hold | None = None
        self._told = 0
        """How many messages `on_answer` has heard of. A call that failed leaves some untold."""
        self.crossed_after: tuple[Any, ...] = ()
        """Events of limits that a recorded answer crossed; a role that follows a record sets it."""
        self._pieces: list[str] = []
        """What `on_delta` got of the answer under way."""
        self._thoughts: list[str] = []
        """What `on_reasoning` got."""

    async def generate(
        self,
        new_messages: Sequence[Message] = (),
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling | None = None,
    ) -> Completion:
        """Add `new_messages`, ask the model, add and return its answer.

        Raises `LimitReached` before the call if the budget does not cover it, and after it if the
        answer cost more than there was to spare; `ModelError` if the model cannot answer. The new
        messages, and an answer that came, then stay in the history. Raises `UsageError`,
        with the history as it was, while an earlier call is still waiting for its answer.
        """
        if self._asking:
            raise UsageError(
                f"Role {self.role!r} asked in a session that is still waiting for an answer. "
                f"A conversation is one after the other: await the answer, or open another session."
            )
        sampling = sampling or self.defaults
        if self.defaults is not DEFAULT_SAMPLING:
            sampling = sampling.filled(self.defaults)
        call = Call([*self.messages[self._told :], *new_messages], tuple(tools), sampling)
        given = self.on_ask(self, call) if self.on_ask is not None else None
        self._asking = True
        try:
            if given is None:
                check_allowed(self.model)
                self.messages.extend(new_messages)
                completion = await self._within_budget(tools, sampling)
            else:
                self.messages.extend(new_messages)
                completion = given
                self._restore(given)
        except BaseException:
            if self.on_failure is not None:
                self.on_failure(self)
            raise
        finally:
            self._asking = False
        self._deliver_rest(completion)
        answer = Message(completion.text, role="assistant")
        if completion.tool_calls:
            answer.metadata = {"tool_calls": completion.tool_calls}
        if completion.provider_fields:
            kept = {"provider_fields": completion.provider_fields}
            answer.metadata = {**(answer.metadata or {}), **kept}
        self.messages.append(answer)
        self._told = len(self.messages)
        if self.on_answer is not None:
            self.on_answer(self, call, completion)
        if given is None and self.budget is not None:
            await self._check_after(self.budget)
        return completion

    def _restore(self, given: Completion) -> None:
        """Take over an answer that comes from a record, as if the model had given it now."""
        if self.budget is not None:
            self.budget.count(given.usage)

    async def _within_budget(self, tools: Sequence[Tool], sampling: Sampling) -> Completion:
        while True:
            self._pieces = []
            try:
                return await self._one_call(tools, sampling)
            except LimitReached as error:
                self.deliver_anew()
                error.session = self.id
                if not isinstance(error.decision, UseModel):
                    raise
                self._use(error.decision)
            except BaseException:
                self.deliver_anew()
                raise

    async def _one_call(self, tools: Sequence[Tool], sampling: Sampling) -> Completion:
        model, budget = self.model, self.budget
        await model.prepare()
        if model.remembers and (known := await model.recall(self, tools, sampling)) is not None:
            return known
        if budget is None:
            return await model._complete(self, tools, sampling)
        usd = model.estimate_usd(self, sampling, tools) if budget.limits_usd else 0.0
        tokens = model.estimate_tokens(self, sampling, tools) if budget.limits_tokens else 0
        hold = await budget.hold(
            model,
            usd=usd,
            tokens=(sampling.max_tokens or 0) if tokens is None else tokens,
            certain=model.estimates_hold and usd is not None and tokens is not None,
            role=self.role,
            note=self._note,
        )
        self._hold = hold
        try:
            call = model._complete(self, tools, sampling)
            if budget.limits_seconds:
                call = budget.in_time(hold, call, model, role=self.role, note=self._note)
            completion = await call
        except BaseException as error:
            if isinstance(error, ModelError) and error.usage is not None:
                budget.settle(hold, error.usage)
            else:
                budget.release(hold)
                if isinstance(error, LimitReached) and error.usage is None and hold.billed:
                    error.usage = hold.charged
            raise
        finally:
            self._hold = None
        budget.settle(hold, completion.usage)
        return completion

    async def _check_after(self, budget: Budget) -> None:
        try:
            await budget.check_after(self.model, role=self.role, note=self._note)
        except LimitReached as error:
            error.session = self.id
            if not isinstance(error.decision, UseModel):
                raise
            self._use(error.decision)

    def _note(self, crossing: Crossing, decision: Decision, usage: Usage | None) -> None:
        if self.on_limit is not None:
            self.on_limit(self, crossing, decision, usage)

    def _use(self, decision: UseModel) -> None:
        """Go on with another model, which sees the whole conversation."""
        from rolecraft.models.resolve import resolve_model

        model = resolve_model(decision.model)
        plain = type(self) is Session and type(model).session is Model.session
        if model is self.model or not plain:
            raise UsageError(
                f"`UseModel({decision.model!r})` cannot take over a conversation with "
                f"{self.model!r}: it must be another model, and neither may be one that keeps "
                f"exact tokens. Hand over to a role that has its own model: `HandOver(to, ...)`."
            )
        self.model = model

    # --- for models --------------------------------------------------------------------------

    def deliver(self, piece: str) -> None:
        """A piece of the answer's text has come."""
        if self.on_delta is not None and piece:
            self._pieces.append(piece)
            self.on_delta(piece)

    def deliver_reasoning(self, piece: str) -> None:
        """A piece of the model's reasoning has come."""
        if self.on_reasoning is not None and piece:
            self._thoughts.append(piece)
            self.on_reasoning(piece)

    def deliverer(self, *, reasoning: bool = False) -> Callable[[str], None]:
        """`deliver` for the call under way only: what comes after its end is nobody's."""
        mine = self._pieces

        def deliver(piece: str) -> None:
            if self._pieces is mine:
                (self.deliver_reasoning if reasoning else self.deliver)(piece)

        return deliver

    def deliver_anew(self) -> None:
        """What has come so far is void: another attempt begins."""
        if self._thoughts:
            self._thoughts = []
            if self.on_reasoning is not None:
                self.on_reasoning(RESET)
        if self._pieces:
            self._pieces = []
            if self.on_delta is not None:
                self.on_delta(RESET)

    def _deliver_rest(self, answer: Completion) -> None:
        """Whatever the model delivered, the pieces since the last `RESET` make up its answer."""
        thoughts, said = "".join(self._thoughts), "".join(self._pieces)
        if not (answer.reasoning.startswith(thoughts) and answer.text.startswith(said)):
            self.deliver_anew()
            thoughts = said = ""
        self.deliver_reasoning(answer.reasoning[len(thoughts) :])
        self.deliver(answer.text[len(said) :])
        self._thoughts, self._pieces = [], []

    def charge(self, usage: Usage) -> None:
        """An attempt of the call under way gave no answer, and was billed.

        It counts at once, whatever becomes of the call; the call's own usage, or that of its
        `ModelError`, still says all of it.
        """
        if self.budget is not None and self._hold is not None:
            self.budget.charge(self._hold, usage)

    async def renew(self) -> None:
        """Before another attempt of a call that was charged.

        Raises `LimitReached` if the budget does not cover it.
        """
        if self.budget is not None and self._hold is not None:
            await self.budget.renew(self.model, self._hold, role=self.role, note=self._note)
