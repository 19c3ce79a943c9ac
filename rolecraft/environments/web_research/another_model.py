"""The judge must be another model than the policy: checked, not hoped.

A model that grades itself learns to please itself. It is the same where it is the same object, has
the same name (whoever serves it), or is behind the same address of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.base import Model
from rolecraft.models.cached_model import CachedModel
from rolecraft.models.fallback import FallbackModel
from rolecraft.models.phases import Phases
from rolecraft.models.resolve import BETWEEN


class JudgeIsPolicy(UsageError):
    """A run is to be judged by a model that plays in it.

    Attributes: `judge`, `policy` (names), `role` (whose model it is).
    """

    def __init__(self, judge: str, policy: str, role: str, why: str) -> None:
        self.judge, self.policy, self.role = judge, policy, role
        super().__init__(
            f"The judge {judge!r} may not judge role {role!r}, whose model is {policy!r}: {why}. "
            f"Give another model as the judge, or none."
        )


def check_another(judge: Model, roles: Iterable[tuple[str, Model | str | None]]) -> None:
    """Raise `JudgeIsPolicy` if `judge` is, or asks, the model of one of `roles`."""
    for role, model in roles:
        for own in _all_of(model):
            for other in _all_of(judge):
                if why := _same(other, own):
                    raise JudgeIsPolicy(judge.name, _name(own), role, why)


def _all_of(model: Model | str | None) -> Iterator[Model | str]:
    """The models that may answer in place of this one."""
    if isinstance(model, str):
        yield from (part.strip() for part in model.split(BETWEEN))
    elif isinstance(model, CachedModel):
        yield from _all_of(model.model)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from _all_of(each)
    elif isinstance(model, Phases):
        for spec in model._specs.values():
            yield from _all_of(spec)
    elif model is not None:
        yield model


def _same(judge: Model | str, policy: Model | str) -> str:
    """Why the two are the same; empty if they are not."""
    if judge is policy:
        return "they are the same model"
    if any(isinstance(each, Model) and not each.real for each in (judge, policy)):
        return ""  # doubles mostly share a name, and are the same only as objects
    address = _address(judge)
    if address and address == _address(policy):
        return f"both are at {address}"
    if _model(judge) == _model(policy):
        return f"both are the model {_model(judge)!r}"
    return ""


def _name(model: Model | str) -> str:
    return model if isinstance(model, str) else model.name


def _model(model: Model | str) -> str:
    """A model's name without its provider: `azure/gpt-4o` and `openai/gpt-4o` are one model."""
    name = _name(model)
    if isinstance(model, str) and ":" in name.partition("/")[0]:
        name = name.partition(":")[2]  # `transformers:PATH`
    if name.startswith(("/", ".", "~")):
        return name
    return name.rpartition("/")[2].casefold()


def _address(model: Any) -> str:
    """Where a model of one's own is served."""
    address = getattr(model, "base_url", None)
    return address.rstrip("/") if isinstance(address, str) else ""
