"""Where a judge meets its model: every model call of a judge is made here, and nowhere else.

What happens around a call (a cache, a pace, a count of what it cost) is added in this file; a
judge only opens conversations and asks in them. Invariants: what `Conversation.ask` gets is what
the judge wrote, and what it returns is what the model answered, word for word; a question that
has an answer worth keeping is never asked again, also not by two traces at once, where there is a
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeAlias

from rolecraft.errors import BadModelResponse, ModelError, ModelUnavailable
from rolecraft.failure_taxonomy.judging.tally import Tally
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.budget import Budget
from rolecraft.models.cached_model import CachedModel
from rolecraft.models.prompt_cache import PromptCache
from rolecraft.models.rate_limiter import OVERLOADED, RateLimiter
from rolecraft.trajectories.events import Usage

Again: TypeAlias = Callable[[ModelError, int], bool]
"""Whether a call is made again: it gets the error, and how often the call was made by now."""

_counted: ContextVar[tuple[Tally, ...]] = ContextVar("rolecraft_tallies", default=())
_again: ContextVar[Again | None] = ContextVar("rolecraft_again", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Counts the judges' calls that are made inside, also by tasks that are started inside."""
    tally = Tally()
    token = _counted.set((*_counted.get(), tally))
    try:
        yield tally
    finally:
        _counted.reset(token)


@contextmanager
def persistent(again: Again) -> Iterator[None]:
    """Calls inside that fail are made again as long as `again` says so.

    A call is made again before anything else is asked in its conversation, so what is asked next
    never depends on how often it took.
    """
    token = _again.set(again)
    try:
        yield
    finally:
        _again.reset(token)


class Asker:
    """Opens a judge's conversations with `model`.

    With a `cache`, an answer that is in it is taken from there and counts against no budget.
    `pace` bounds the calls under way; share one among all who ask the same server. How fast the
    attempts of calls follow one another is the model's own business.
    """

    def __init__(
        self,
        model: Model,
        *,
        sampling: Sampling | None = None,
        budget: Budget | None = None,
        cache: PromptCache | None = None,
        pace: RateLimiter | None = None,
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.budget = budget
        self.cache = cache
        self.pace = pace
        self._asked = model if cache is None else CachedModel(model, cache, repeats="same")

    def open(self, *, system: str, seed: int = 0, trace: str = "") -> Conversation:
        """A new conversation. `trace` is the id of the trajectory that it is about.

        Equal questions with different seeds are different samples, and are asked anew.
        """
        session = self._asked.session("judge", system=system, seed=seed)
        if self.budget is not None:
            session.budget = self.budget
        return Conversation(session, self)

    async def ask(
        self, session: Session, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> Completion:
        """The next answer in a conversation."""
        return await self._of_model(session, messages, tools)

    async def _of_model(
        self, session: Session, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> Completion:
        again, times = _again.get(), 0
        while True:
            try:
                return await self._once_of_model(session, messages, tools)
            except (ModelUnavailable, BadModelResponse) as error:
                times += 1
                if again is None or not again(error, times):
                    raise
            messages = ()  # a session keeps what it was asked

    async def _once_of_model(
        self, session: Session, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> Completion:
        try:
            answer = await self._paced(session, messages, tools)
        except ModelError as error:
            for tally in _counted.get():
                tally.failed += 1
                tally.usage = tally.usage + (error.usage or Usage(calls=0))
            raise
        if answer.kept is not None:
            for tally in _counted.get():
                tally.reused += 1
                tally.saved = tally.saved + answer.kept
            return replace(answer, usage=answer.kept, kept=None)
        for tally in _counted.get():
            tally.asked += 1
            tally.retries += max(answer.attempts - 1, 0)
            tally.unpriced += answer.usage.usd is None
            tally.usage = tally.usage + answer.usage
        return answer

    async def _paced(
        self, session: Session, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> Completion:
        if self.pace is None:
            return await session.generate(messages, tools=tools, sampling=self.sampling)
        async with self.pace.turn() as turn:
            try:
                return await session.generate(messages, tools=tools, sampling=self.sampling)
            except ModelError as error:
                if error.status in OVERLOADED:
                    turn.refused()
                raise


class Conversation:
    """One conversation: mostly one question, several where the judge uses tools."""

    def __init__(self, session: Session, asker: Asker) -> None:
        self._session = session
        self._asker = asker

    async def ask(self, *messages: Message, tools: Sequence[Tool] = ()) -> Completion:
        """Add messages and ask. Raises what `Session.generate` raises, and `CacheError`."""
        return await self._asker.ask(self._session, messages, tools)
