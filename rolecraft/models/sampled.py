"""A model whose answers are sampled in a given way wherever a call does not say otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.models.base import Completion, Model, Sampling, Session, Tool


class Sampled(Model):
    """A model whose answers are sampled so wherever a call does not say otherwise itself."""

    def __init__(self, model: Model, sampling: Sampling) -> None:
        self.model, self.sampling = model, sampling
        self.name, self.real, self.person = model.name, model.real, model.person

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A conversation with the model itself; all that differs are the session's defaults."""
        session = self.model.session(role, system=system, seed=seed)
        session.defaults = self.sampling
        return session

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        # Its sessions are those of the model, so nobody gets here but who calls it by hand.
        return await self.model._complete(session, tools, sampling)

    async def aclose(self) -> None:
        await self.model.aclose()
