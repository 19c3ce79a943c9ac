"""The models of an evaluation: which role of which scenario asks whom, and sampled how."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UnknownName, UsageError
from rolecraft.experiments.setting import Setting
from rolecraft.models.base import Model
from rolecraft.models.resolve import resolve_model
from rolecraft.scenarios.scenario import Scenario

OWN = "own"
"""The label where nobody names a model: roles ask whom their scenario says."""

UNTRAINED = "untrained"
"""The label where all scenarios play with their untrained models."""

Resolve = Callable[[Model | str], Model]


@dataclass(frozen=True, slots=True)
class Player:
    """A model under a label, with the models of single roles.

    `model` takes the place of models that roles have. Where it is None each role asks the model
    that it has, then its scenario's, and where there is none at all the scenario's untrained one.
    """

    label: str
    model: Model | None
    role_models: Mapping[str, Model]
    resolve: Resolve
    seed: int
    more: str = ""
    """What else tells this model from others of its name: an adapter and its digest."""

    def options(self, scenario: Scenario, setting: Setting) -> dict[str, Any]:
        """What runs of a scenario get: `model`, `role_models`, `limits`."""
        roles = {role.name: role.model for role in scenario.team()}
        by_role: dict[str, Model] = {}
        for name, own in roles.items():
            if name in self.role_models:
                by_role[name] = setting.model(self.role_models[name])
            elif own is not None and self.model is not None:
                by_role[name] = setting.model(self.model)
            elif own is not None and setting.samples:
                by_role[name] = setting.model(self.resolve(own))
        model = self.model or scenario.models
        if model is None and not by_role and _has_none(scenario):
            assert scenario.untrained is not None
            model = scenario.untrained(self.seed)
        options: dict[str, Any] = {}
        if model is not None:
            options["model"] = setting.model(model)
        if by_role:
            options["role_models"] = by_role
        limits = setting.limits(scenario)
        if limits is not None:
            options["limits"] = limits
        return options

    def identity(self, scenario: Scenario, setting: Setting) -> str:
        """What makes a run of a scenario another one, in words."""
        names = {role.name for role in scenario.team()}
        parts = [f"model {self.label if self.model is None else self.model.name}"]
        parts += [
            f"{role} {model.name}"
            for role, model in sorted(self.role_models.items())
            if role in names
        ]
        return ", ".join(filter(None, [*parts, self.more, setting.identity]))


@asynccontextmanager
async def players_of(
    scenarios: Sequence[Scenario],
    models: Mapping[str, Model | str] | Sequence[Model | str] | Model | str | None,
    role_models: Mapping[str, Model | str] | None,
    seed: int,
    identities: Mapping[str, str],
) -> AsyncIterator[list[Player]]:
    """A player for each model; models that are given by name are closed at the end.

    Raises `UsageError` for two models with one label, and for what names no model; `UnknownName`
    for a role that no scenario has.
    """
    made: dict[str, Model] = {}

    def resolve(spec: Model | str) -> Model:
        if not isinstance(spec, str):
            return spec
        if spec not in made:
            made[spec] = resolve_model(spec)
        return made[spec]

    try:
        roles = [role.name for scenario in scenarios for role in scenario.team()]
        for name in role_models or ():
            if name not in roles:
                raise UnknownName("Role", name, roles)
        by_role = {name: resolve(spec) for name, spec in (role_models or {}).items()}
        labelled = _labelled(models, resolve)
        if models is None and not by_role and all(map(_has_none, scenarios)):
            labelled = {UNTRAINED: None}
        yield [
            Player(label, model, by_role, resolve, seed, identities.get(label, ""))
            for label, model in labelled.items()
        ]
    finally:
        for model in made.values():
            await model.aclose()


def _has_none(scenario: Scenario) -> bool:
    """True if nobody but the scenario's untrained model can answer."""
    own = scenario.models is not None or any(role.model is not None for role in scenario.team())
    return scenario.untrained is not None and not own


def _labelled(
    models: Mapping[str, Model | str] | Sequence[Model | str] | Model | str | None,
    resolve: Resolve,
) -> dict[str, Model | None]:
    if models is None:
        return {OWN: None}
    if isinstance(models, Mapping):
        if not models:
            raise UsageError("`models` is empty: name at least one, or leave it out.")
        return {label: resolve(spec) for label, spec in models.items()}
    found: dict[str, Model | None] = {}
    for spec in [models] if isinstance(models, (str, Model)) else models:
        label = spec if isinstance(spec, str) else spec.name
        if label in found:
            raise UsageError(
                f"Two models are named {label!r}. Give them labels: `models={{'base': …, …}}`."
            )
        found[label] = resolve(spec)
    if not found:
        raise UsageError("`models` is empty: name at least one, or leave it out.")
    return found
