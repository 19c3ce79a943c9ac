"""Asking a model about many things at once, within a budget, and what it took for each.

Invariant: what has begun comes to its end; when the budget is used up, nothing more begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from rolecraft.errors import LimitReached, ModelError
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session
from rolecraft.models.budget import Budget
from rolecraft.models.limits import Limits
from rolecraft.trajectories.events import Usage

Item = TypeVar("Item")


@dataclass(slots=True)
class Asker:
    """Opens conversations with one model, all of them within one budget.

    `usd` is what may be spent in US dollars, `spent_usd` of it by an earlier process.
    """

    model: Model
    usd: float | None = None
    spent_usd: float = 0.0
    max_tokens: int = 1024
    """Of one answer."""
    at_once: int = 8
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.budget = Budget(Limits(usd=self.usd), name="the run")
        self.budget.count(Usage(calls=0, usd=self.spent_usd))

    def open(self, *, system: str, seed: int = 0) -> Conversation:
        session = self.model.session("writer", system=system, seed=seed)
        session.budget = self.budget
        return Conversation(session, Sampling(max_tokens=self.max_tokens))

    async def each(
        self, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]
    ) -> LimitReached | None:
        """Do the work for each item, `at_once` of them at a time. What stopped it, if the budget.

        Another error ends it when what is under way has ended.
        """
        under_way: set[asyncio.Task[None]] = set()
        stopped: LimitReached | None = None
        error: BaseException | None = None

        async def ended(least: int) -> None:
            nonlocal under_way, stopped, error
            while len(under_way) > least:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
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
                if stopped is not None or error is not None:
                    break
            await ended(0)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        if error is not None:
            raise error
        return stopped


class Conversation:
    """One conversation, and what it has cost."""

    def __init__(self, session: Session, sampling: Sampling) -> None:
        self._session, self._sampling = session, sampling
        self._answers: list[Completion] = []
        session.on_answer = lambda session, call, answer: self._answers.append(answer)
        self.usage = Usage(calls=0, usd=0.0)

    @property
    def usd(self) -> float | None:
        """What it took, in US dollars; None where a price is not known."""
        return self.usage.usd

    async def ask(self, question: str) -> Completion:
        """The answer; also one that cost more than was left, which is paid for.

        Raises `ModelError` and `LimitReached` where there is none. `usage` has what was billed.
        """
        before = len(self._answers)
        try:
            await self._session.generate([Message(question)], sampling=self._sampling)
        except (ModelError, LimitReached) as error:
            if len(self._answers) == before:
                self.usage = self.usage + (error.usage or Usage(calls=0, usd=0.0))
                raise
        answer = self._answers[-1]
        self.usage = self.usage + answer.usage
        return answer
