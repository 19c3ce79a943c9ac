"""What `train` refuses before anything is played, each with the reason."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.chance import UniformModel
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.scenarios import Scenario
from rolecraft.training.policy.adapter_settings import AdapterSettings


def check_numbers(**numbers: tuple[int, int]) -> None:
    """Raise `UsageError` for a number that is below its least."""
    for name, (value, least) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(
                f"`train({name}=...)` wants a whole number from {least}, got {value!r}."
            )


def policy(scenario: Scenario, model: TransformersModel | None, seed: int) -> TransformersModel:
    """The model to train: the given one, else the scenario's untrained one."""
    found: Any = model
    if found is None:
        if scenario.untrained is None:
            raise UsageError(
                f"Scenario `{scenario.name}` brings no untrained model. Give `train` one: "
                f"`model=TransformersModel.load(folder)`."
            )
        found = scenario.untrained(seed)
    if not isinstance(found, TransformersModel):
        raise UsageError(
            f"`train` changes weights in this process and wants a `TransformersModel`, got "
            f"{found!r}."
        )
    return found


def frozen_models(scenario: Scenario, frozen: Collection[str]) -> dict[str, UniformModel]:
    """A model that guesses for each role that is not trained."""
    names = [role.name for role in scenario.team()]
    if isinstance(frozen, str):
        raise UsageError(f"`train(frozen=...)` wants a list of role names, got {frozen!r}.")
    for name in frozen:
        if name not in names:
            raise UnknownName(f"Role of scenario `{scenario.name}`", name, names)
    if set(names) <= set(frozen):
        raise UsageError(f"All roles of `{scenario.name}` are frozen: nothing is left to train.")
    return {name: UniformModel() for name in frozen}


def check_adapters(scenario: Scenario, adapters: AdapterSettings, frozen: Collection[str]) -> None:
    """Raise `UsageError` unless every role that asks the model has an adapter, and no other."""
    names = [role.name for role in scenario.team()]
    for role in adapters.roles:
        if role not in names:
            raise UnknownName(f"Role of scenario `{scenario.name}`", role, names)
        if role in frozen:
            raise UsageError(
                f"Role {role!r} is in `frozen`, where it guesses, and has an adapter. To keep an "
                f"adapter as it is, name it in `AdapterSettings(frozen=...)` only."
            )
    for name in names:
        if name not in adapters.roles and name not in frozen:
            raise UsageError(
                f"Role {name!r} of scenario `{scenario.name}` has no adapter: name it in "
                f"`AdapterSettings(roles=...)`."
            )


def check_thinking(
    scenario: Scenario, thinking: Collection[str], frozen: Collection[str] = ()
) -> None:
    """Raise `UsageError` unless everybody in `thinking` is a role that asks the model."""
    names = [role.name for role in scenario.team()]
    for role in thinking:
        if role not in names:
            raise UnknownName(f"Role of scenario `{scenario.name}`", role, names)
        if role in frozen:
            raise UsageError(
                f"Role {role!r} is frozen: it guesses, and whether it thinks makes no difference. "
                f"Leave it out of `thinking`."
            )


def check_base(model: TransformersModel) -> None:
    """Raise `UsageError` for a base on which adapters learn nothing, whatever is played.

    Where the output layer is all zeros, so is every logit, and so is every gradient below it.
    """
    output = model.module.get_output_embeddings()
    if output is not None and not bool(output.weight.any()):
        raise UsageError(
            "Adapters leave the output layer alone, and this base's is zero: nothing can be "
            "learnt. Give a trained base (`--model`, `train(model=...)`): docs/sft-warm-up.md."
        )
