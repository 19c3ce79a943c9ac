"""Asking a model about many things at once, within a budget, and what it took for each.

Invariant: what has begun comes to its end; when the budget is used up or nobody answers, nothing
more begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from rolecraft.errors import LimitReached, MissingKey, ModelError, RealModelForbidden
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session
from rolecraft.models.budget import Budget
from rolecraft.models.limits import Limits
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.in_words import count

Item = TypeVar("Item")
MAX_TOKENS = 1024
"""Of one answer."""
GIVE_UP = 3
"""So many questions that fail alike, and the model counts as gone. Once it has answered, as many
more as are under way at the same time, which may fail for one and the same reason."""
PATIENCE = 15.0
"""Seconds in which nothing comes to its end, after which `on_wait` is told; then twice as many."""
_OF_THE_SETTINGS = (MissingKey, RealModelForbidden)
"""Errors that the next question would meet too."""


@dataclass(slots=True)
class Asker:
    """Opens conversations with one model, all of them within one budget.

    `usd` is what may be spent in US dollars, `spent_usd` of it by an earlier process.
    """

    model: Model
    usd: float | None = None
    spent_usd: float = 0.0
    max_tokens: int = MAX_TOKENS
    at_once: int = 8
    on_wait: Callable[[str], None] = lambda words: None
    """Told, in words, what is waited for."""
    patience: float = PATIENCE
    budget: Budget = field(init=False)
    _heard: _Heard = field(init=False)

    def __post_init__(self) -> None:
        self.budget = Budget(Limits(usd=self.usd), name="the run")
        self.budget.count(Usage(calls=0, usd=self.spent_usd))
        self._heard = _Heard(self.at_once)

    def open(self, *, system: str, seed: int = 0) -> Conversation:
        session = self.model.session("writer", system=system, seed=seed)
        session.budget = self.budget
        return Conversation(session, Sampling(max_tokens=self.max_tokens), self._heard)

    async def each(
        self, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]
    ) -> LimitReached | ModelError | None:
        """Do the work for each item, `at_once` of them at a time.

        What stopped it, if it is the budget, or that the model answers no more. A model that has
        answered nothing at all is raised, as is any other error, when what is under way has ended.
        """
        under_way: set[asyncio.Task[None]] = set()
        stopped: LimitReached | None = None
        error: BaseException | None = None

        async def ended(least: int) -> None:
            nonlocal under_way, stopped, error
            patience = self.patience
            while len(under_way) > least:
                done, under_way = await asyncio.wait(
                    under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                patience = self.patience if done else 2 * patience
                if not done and (words := self._heard.in_words()):
                    self.on_wait(words)
                for task in done:
                    raised = task.exception()
                    if isinstance(raised, LimitReached):
                        stopped = stopped or raised
                    else:
                        error = error or raised

        try:
            for item in items:
                under_way.add(asyncio.ensure_future(work(item)))
                await ended(self.at_once - 1)
                if not (stopped is None and error is None and self._heard.gone is None):
                    break
            await ended(0)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        if error is not None:
            raise error
        gone = self._heard.gone
        if gone is not None and not self._heard.answered:
            gone.add_note("it answered no question, so no more were asked")
            raise gone
        return gone or stopped


@dataclass(slots=True)
class _Heard:
    """What became of the questions so far."""

    at_once: int
    answered: bool = False
    gone: ModelError | None = None
    """Why nothing more is to be asked."""
    waiting: dict[object, float] = field(default_factory=dict)
    """Since when each question waits for its answer, by the loop's clock."""
    refused: int = 0
    """Attempts that failed and were made again."""
    last: str = ""
    """What the last one of them failed with."""
    _alike: list[ModelError] = field(default_factory=list)
    """Failures in a row that are of one kind."""

    def answer(self) -> None:
        self.answered = True
        self._alike.clear()

    def failure(self, error: ModelError) -> None:
        if self._alike and _kind(self._alike[-1]) != _kind(error):
            self._alike.clear()
        self._alike.append(error)
        most = GIVE_UP + (self.at_once if self.answered else 0)
        if len(self._alike) >= most or isinstance(error, _OF_THE_SETTINGS):
            self.gone = self.gone or error

    def retry(self, failure: object) -> None:
        self.refused += 1
        self.last = " ".join(str(failure).split()).rstrip(".")

    def in_words(self) -> str:
        """What is waited for; empty for nothing."""
        if not self.waiting:
            return ""
        longest = asyncio.get_running_loop().time() - min(self.waiting.values())
        words = f"Waiting for {count(len(self.waiting), 'answer')}, {longest:.0f} s by now"
        if self.refused:
            words += f"; {count(self.refused, 'attempt')} failed, the last one: {self.last}"
        return f"{words}."


def _kind(error: ModelError) -> tuple[type, int | None]:
    return type(error), error.status


class Conversation:
    """One conversation, and what it has cost."""

    def __init__(self, session: Session, sampling: Sampling, heard: _Heard) -> None:
        self._session, self._sampling, self._heard = session, sampling, heard
        self._answers: list[Completion] = []
        session.on_answer = lambda session, call, answer: self._answers.append(answer)
        session.on_retry = lambda session, failure, wait: heard.retry(failure)
        self.usage = Usage(calls=0, usd=0.0)
        self._priced = True

    @property
    def usd(self) -> float | None:
        """What it took, in US dollars; None where a price is not known."""
        return self.usage.usd if self._priced else None

    async def ask(self, question: str) -> Completion:
        """The answer; also one that cost more than was left, which is paid for.

        Raises `ModelError` and `LimitReached` where there is none. `usage` has what was billed.
        """
        before = len(self._answers)
        self._heard.waiting[self] = asyncio.get_running_loop().time()
        try:
            await self._session.generate([Message(question)], sampling=self._sampling)
        except (ModelError, LimitReached) as error:
            if len(self._answers) == before:
                if isinstance(error, ModelError):
                    self._heard.failure(error)
                self._pay(error.usage or Usage(calls=0, usd=0.0))
                raise
        finally:
            del self._heard.waiting[self]
        self._heard.answer()
        answer = self._answers[-1]
        self._pay(answer.usage)
        return answer

    def _pay(self, usage: Usage) -> None:
        self._priced = self._priced and usage.usd is not None
        self.usage = self.usage + usage
