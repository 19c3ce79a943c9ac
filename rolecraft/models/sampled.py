"""A model whose answers are sampled in a given way wherever a call does not say otherwise."""

from __future__ import annotations

from rolecraft.models._lending import LendingModel
from rolecraft.models.base import Model, Sampling, Session


class Sampled(LendingModel):
    """A model whose answers are sampled so wherever a call does not say otherwise itself."""

    def __init__(self, model: Model, sampling: Sampling) -> None:
        super().__init__(model)
        self.sampling = sampling

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A conversation with the model itself; all that differs are the session's defaults."""
        session = self.model.session(role, system=system, seed=seed)
        session.defaults = self.sampling
        return session
