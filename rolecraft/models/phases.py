"""Two phases, one switch: the same roles on a model behind an API, then on one that can be trained.

Invariant: what a role does is written once. In both phases it is offered the same tools, gets the
same `Completion` with the same typed calls, and leaves the same events; only the local phase adds
what an API hides: the tokens, their log-probabilities, the policy version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from rolecraft.errors import UsageError
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.resolve import check_model, resolve_model

Phase = Literal[
    "api",  # a provider parses tool calls and reasoning: to collect data
    "local",  # we parse the model's raw text and keep its exact tokens: to train
]


class Phases(Model):
    """Two models that take each other's place: `Phases(api=..., local=..., phase="api")`.

    Goes wherever a model goes. Both take a model or its name, and are made when a role first asks
    them. `phase` may be set at any time: conversations that have begun stay with the model they
    began with, new ones go to the other.
    """

    def __init__(self, *, api: Model | str, local: Model | str, phase: Phase = "api") -> None:
        for name, spec in (("api", api), ("local", local)):
            check_model(spec)
            if spec is None:
                raise UsageError(
                    f"`{name}` is None: `Phases` wants both models, since each takes the other's "
                    f"place. One model goes wherever a model goes as it is."
                )
        self._specs: dict[str, Model | str] = {"api": api, "local": local}
        self._made: dict[str, Model] = {}
        self.phase = phase

    @property
    def phase(self) -> Phase:
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if phase not in get_args(Phase):
            raise UsageError(f"`phase` is {phase!r}, expected one of {list(get_args(Phase))}.")
        self._phase = phase
        spec = self._specs[phase]
        self.name = spec if isinstance(spec, str) else spec.name

    @property
    def current(self) -> Model:
        """The model of the phase. Raises what making it raises."""
        if self._phase not in self._made:
            self._made[self._phase] = resolve_model(self._specs[self._phase])
        return self._made[self._phase]

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        return self.current.session(role, system=system, seed=seed)

    async def aclose(self) -> None:
        """Release the models that were made here from a name; one that was given is its owner's."""
        for phase, model in list(self._made.items()):
            if isinstance(self._specs[phase], str):
                await model.aclose()
                del self._made[phase]

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        # Its sessions are those of its models, so nobody gets here but who calls it by hand.
        return await self.current._complete(session, tools, sampling)
