"""A model that stands in front of another, and whose sessions are that one's own."""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.models.base import Completion, Model, Sampling, Session, Tool


class LendingModel(Model):
    """`model` under its own name. Write `session`, which makes one of `self.model`'s."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name, self.real, self.person = model.name, model.real, model.person

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        # Its sessions are those of the model, so nobody gets here but who calls it by hand.
        return await self.model._complete(session, tools, sampling)

    async def aclose(self) -> None:
        await self.model.aclose()
