"""From plain data (YAML, JSON) to the settings that a training is made of, each checked by itself.

`algorithm`, `credit` and `adapters` are frozen dataclasses that say what cannot be meant. Here they
are made from names and mappings: `{"name": "dapo", "kl": {"coefficient": 0.001}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.limits import Limits
from rolecraft.training.algorithms.clips import Clip, DetachedClip, Importance, ProbabilityClip
from rolecraft.training.algorithms.presets import algorithm as preset
from rolecraft.training.algorithms.settings import FROM_SCRATCH, Algorithm
from rolecraft.training.algorithms.terms import Critic, Kl, Normalise, Overlong, StepGroups
from rolecraft.training.credit.blame import Blame
from rolecraft.training.credit.ema import Ema
from rolecraft.training.credit.settings import Credit
from rolecraft.training.credit.settings import credit as credit_preset
from rolecraft.training.credit.waste import Communication
from rolecraft.training.policy.adapter_settings import AdapterSettings

CLIPS: dict[str, Any] = {
    "ratio": Clip,
    "detached": DetachedClip,
    "probability": ProbabilityClip,
}
"""Kinds of clip by what they bound."""
_Preset = TypeVar("_Preset", Algorithm, Credit)

FROM_SCRATCH_NAME = "from_scratch"


def algorithm_of(data: str | Mapping[str, Any] | None) -> Algorithm:
    """An algorithm by its name, with settings changed; None is `Algorithm()`.

    `clip` has a `kind` of `CLIPS`. Raises `UnknownName` or `UsageError`.
    """
    name, changes = _named(data, "algorithm")
    parts: dict[str, Any] = {
        "kl": Kl,
        "critic": Critic,
        "importance": Importance,
        "overlong": Overlong,
        "steps": StepGroups,
    }
    for part, kind in parts.items():
        if part in changes:
            changes[part] = _part(kind, changes[part], f"algorithm.{part}")
    if "clip" in changes:
        clip = _mapping(changes["clip"], "algorithm.clip")
        kind = clip.pop("kind", "ratio")
        if kind not in CLIPS:
            raise UnknownName("`algorithm.clip.kind`:", str(kind), CLIPS)
        changes["clip"] = _part(CLIPS[kind], clip, "algorithm.clip")
    if "normalise" in changes:
        known = {each.name.lower(): each for each in Normalise}
        wanted = str(changes["normalise"]).lower()
        if wanted not in known:
            raise UnknownName("`algorithm.normalise`:", wanted, known)
        changes["normalise"] = known[wanted]
    if name is None or name == FROM_SCRATCH_NAME:
        base = Algorithm() if name is None else FROM_SCRATCH
        return _changed(base, changes, "algorithm")
    return preset(name, **changes)


def credit_of(data: str | Mapping[str, Any] | None) -> Credit:
    """Credit by its name, with settings changed; None is `Credit()`."""
    name, changes = _named(data, "credit")
    for part, kind in (("communication", Communication), ("blame", Blame)):
        if part in changes:
            changes[part] = _part(kind, changes[part], f"credit.{part}")
    if isinstance(changes.get("baseline"), Mapping):
        changes["baseline"] = _part(Ema, changes["baseline"], "credit.baseline")
    if name is None:
        return _changed(Credit(), changes, "credit")
    return credit_preset(name, **changes)


def adapters_of(
    data: bool | Mapping[str, Any] | None, roles: Sequence[str]
) -> AdapterSettings | None:
    """Adapters for `roles`, unless the data names others; False and None are none."""
    if data is None or data is False:
        return None
    settings = {} if data is True else _mapping(data, "adapters")
    settings.setdefault("roles", list(roles))
    made: AdapterSettings = _part(AdapterSettings, settings, "adapters")
    return made


def limits_of(data: Mapping[str, Any] | None) -> Limits | None:
    """Limits of each episode."""
    if data is None:
        return None
    made: Limits = _part(Limits, data, "limits")
    return made


def _named(data: str | Mapping[str, Any] | None, where: str) -> tuple[str | None, dict[str, Any]]:
    if data is None or isinstance(data, str):
        return data, {}
    changes = _mapping(data, where)
    name = changes.pop("name", None)
    if not (name is None or isinstance(name, str)):
        raise UsageError(f"`{where}.name` is {name!r}; write a name.")
    return name, changes


def _mapping(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise UsageError(f"`{where}` is {data!r}; write settings by name.")
    return {str(name): value for name, value in data.items()}


def _part(kind: Any, data: Any, where: str) -> Any:
    """`kind` with these settings; None stays None, and True is its defaults."""
    if data is None or isinstance(data, kind):
        return data
    settings = {} if data is True else _mapping(data, where)
    known = [each.name for each in fields(kind)]
    for name in settings:
        if name not in known:
            raise UnknownName(f"`{where}`: setting", name, known)
    try:
        return kind(**settings)
    except TypeError as error:  # a setting that has no default is missing, or of another type
        raise UsageError(f"`{where}`: {error}") from error


def _changed(base: _Preset, changes: Mapping[str, Any], where: str) -> _Preset:
    known = [each.name for each in fields(base)]
    for name in changes:
        if name not in known:
            raise UnknownName(f"`{where}`: setting", name, known)
    return replace(base, **changes)
