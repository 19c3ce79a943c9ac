"""A crossing on its way to a decision.

Invariant: of crossings of one limit that wait for a person, one is asked about at a time, and who
waited meanwhile is not asked again what is settled.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from rolecraft._log import log
from rolecraft.errors import LimitReached
from rolecraft.models.limits import (
    Crossing,
    Decide,
    Decision,
    MoreRoom,
    Note,
    Word,
    check_decision,
    limit_reached,
)

if TYPE_CHECKING:
    from rolecraft.models.budget import Budget
    from rolecraft.trajectories.events import Usage


class Crossed(Exception):
    """A limit of `budget` is crossed and nothing is decided yet; never leaves a budget."""

    def __init__(self, budget: Budget, crossing: Crossing) -> None:
        self.budget, self.crossing = budget, crossing
        super().__init__(str(crossing))

    async def settle(self, note: Note | None) -> None:
        """Return if there may be room now; raises `LimitReached` if that was refused."""
        refused = await self.decide(note)
        if refused is not None:
            raise self.refusal(refused, note)

    async def decide(self, note: Note | None) -> Decision | None:
        """What `on_limit` says, if it gives no room; None if it did, or may have: look again."""
        budget, crossing = self.budget, self.crossing
        chosen: Word | Decide = next(
            (around.limits.on_limit for around in budget._chain if around.limits.on_limit), "raise"
        )
        if chosen == "raise" or chosen == "stop":
            return chosen
        # Two that cross together ask one after the other, and the first answer may hold for both.
        waits = budget._question is not None and budget._question.locked()
        if not waits:
            budget._question = asyncio.Lock()  # of this event loop
        assert budget._question is not None
        async with budget._question:
            if waits and budget._answer in ("raise", "stop"):
                return budget._answer
            if waits and isinstance(budget._answer, MoreRoom):
                return None
            budget._answer = None
            answer = chosen(crossing)
            decision = check_decision(
                await answer if inspect.isawaitable(answer) else answer, crossing
            )
            budget._answer = decision
            log.bind(role=crossing.role).info("{} Decided: {}.", crossing, decision)
            if not isinstance(decision, MoreRoom):
                return decision
            budget.grant(decision)
            if note is not None:
                note(crossing, decision, None)
            return None

    def refusal(
        self, decision: Decision, note: Note | None, usage: Usage | None = None
    ) -> LimitReached:
        """What to raise, once it is noted."""
        error = limit_reached(self.crossing, decision)
        error.usage = usage
        if note is not None:
            note(self.crossing, decision, usage)
        return error
