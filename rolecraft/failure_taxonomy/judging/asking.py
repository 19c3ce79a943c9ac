"""Where a judge meets its model: every model call of a judge is made here, and nowhere else.

What happens around a call (a cache, retries, a rate, a price, the removal of secrets) is added in
this file; a judge only opens conversations and asks in them. Invariant: what `Conversation.ask`
gets is what the judge wrote, and what it returns is what the judge reads, word for word; whatever
is changed on the way out is changed back on the way in.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.messages import Message
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.budget import Budget


class Asker:
    """Opens a judge's conversations with `model`."""

    def __init__(
        self, model: Model, *, sampling: Sampling | None = None, budget: Budget | None = None
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.budget = budget

    def open(self, *, system: str, seed: int = 0, trace: str = "") -> Conversation:
        """A new conversation. `trace` is the id of the trajectory that it is about.

        Equal questions with different seeds are different samples, and are asked anew.
        """
        session = self.model.session("judge", system=system, seed=seed)
        if self.budget is not None:
            session.budget = self.budget
        return Conversation(session, self.sampling)


class Conversation:
    """One conversation: mostly one question, several where the judge uses tools."""

    def __init__(self, session: Session, sampling: Sampling | None) -> None:
        self._session = session
        self._sampling = sampling

    async def ask(self, *messages: Message, tools: Sequence[Tool] = ()) -> Completion:
        """Add messages and ask. Raises what `Session.generate` raises."""
        return await self._session.generate(messages, tools=tools, sampling=self._sampling)
