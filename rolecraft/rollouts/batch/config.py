"""Everything that a batch run is told, in one frozen object.

Two kinds of settings: those that decide what a sample is (`identity`), which cannot change within
a run, and those that decide how fast, how long and for how much money it goes on, which can.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from rolecraft.environments.row_files import MAX_ROW_BYTES
from rolecraft.errors import UnknownName, UsageError
from rolecraft.rollouts.batch.identity import VOLATILE
from rolecraft.rollouts.batch.toolsets import Distribution

FORMATS = ("sharegpt", "openai", "parquet")


def default_formats() -> tuple[str, ...]:
    """All that can be written: Parquet where its library is installed."""
    there = importlib.util.find_spec("pyarrow") is not None
    return FORMATS if there else tuple(form for form in FORMATS if form != "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """Settings of a batch run. Raises `UsageError` that names a value that cannot be."""

    # --- what a sample is ---
    team: str = ""
    """FILE:NAME of the team, role or scenario."""
    model: str = ""
    """Of every role; empty for their own."""
    role_models: Mapping[str, str] = field(default_factory=dict)
    """Of single roles, by name."""
    seed: int = 0
    prompt: str = ""
    """The column that has the prompt; empty for the first of `rows.PROMPTS` that a row has."""
    volatile: tuple[str, ...] = VOLATILE
    """Columns that do not belong to a row's identity."""
    max_row_bytes: int = MAX_ROW_BYTES
    """A longer row is discarded."""
    toolsets: Distribution | None = None
    rounds: int | None = None
    """A sample of a team ends after so many rounds."""
    calls: int | None = None
    """A sample ends before more model calls."""

    # --- how it goes on ---
    samples: int = 1
    """So many of each row."""
    concurrency: int = 32
    """Items under way at the same time."""
    attempts: int = 3
    """So often an item is tried in one call, if what it failed with may pass."""
    first_wait: float = 1.0
    """Seconds before the second attempt; each further wait is twice as long."""
    seconds: float = 600.0
    """The hard deadline of an attempt at an item: for preparing it, and again for playing it."""
    usd: float | None = None
    """What all calls of the run may cost, those of earlier processes included."""
    tokens: int | None = None
    """The same in tokens, of prompts and answers."""
    tool_workers: int = 32
    """Threads for synchronous tools and rewards."""
    keep_without_reasoning: bool = False
    """Whether samples without any reasoning are in the training output."""
    keep_invented_tools: bool = False
    """Whether samples in which a tool was called that does not exist are."""
    formats: tuple[str, ...] = field(default_factory=default_formats)
    """What the training output is written as: of `FORMATS`, and all that can be unless given."""
    fsync: bool = False
    """Whether finished samples survive a power cut."""

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("concurrency", 1), ("attempts", 1)):
            _check_whole(name, getattr(self, name), least)
        for name in ("max_row_bytes", "tool_workers"):
            _check_whole(name, getattr(self, name), 1)
        _check_whole("seed", self.seed, None)
        for name, least in (("rounds", 1), ("calls", 0), ("tokens", 0)):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), least)
        for name in ("first_wait", "seconds", "usd"):
            value = getattr(self, name)
            if value is None and name == "usd":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise _wrong(name, value, "a number from 0")
        if not 0 < self.seconds < float("inf"):
            raise _wrong("seconds", self.seconds, "seconds above 0")
        for name in ("keep_without_reasoning", "keep_invented_tools", "fsync"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, getattr(self, name), "true or false")
        for name in ("team", "model", "prompt"):
            if not isinstance(getattr(self, name), str):
                raise _wrong(name, getattr(self, name), "a text")
        for name in ("volatile", "formats"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(each, str) for each in values):
                raise _wrong(name, values, "a list of names")
            object.__setattr__(self, name, tuple(values))
        for form in self.formats:
            if form not in FORMATS:
                raise UnknownName("Format", form, FORMATS)
        models = self.role_models
        if not isinstance(models, Mapping) or not all(
            isinstance(text, str) for pair in models.items() for text in pair
        ):
            raise _wrong("role_models", models, "models by the roles' names")
        object.__setattr__(self, "role_models", MappingProxyType(dict(models)))
        if self.toolsets is not None and not isinstance(self.toolsets, Distribution):
            raise _wrong("toolsets", self.toolsets, "a `Distribution`")

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that cannot change within a run."""
        whole = self.to_dict()
        return {name: whole[name] for name in _IDENTITY}

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` gives an equal one."""
        whole: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        whole["role_models"] = dict(self.role_models)
        for name in ("volatile", "formats"):
            whole[name] = list(whole[name])
        whole["toolsets"] = None if self.toolsets is None else self.toolsets.to_dict()
        return whole

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Raises `UnknownName` for a key that is none, `UsageError` for a wrong value."""
        known = tuple(each.name for each in fields(cls))
        for key in values:
            if key not in known:
                raise UnknownName("Setting of a batch run", key, known)
        values = dict(values)
        if values.get("toolsets") is not None:
            values["toolsets"] = Distribution.from_dict(values["toolsets"])
        return cls(**values)

    def but(self, **changes: Any) -> Self:
        """The same with some settings changed."""
        return replace(self, **changes)


_IDENTITY = (
    *("team", "model", "role_models", "seed", "prompt", "volatile"),
    *("max_row_bytes", "toolsets", "rounds", "calls"),
)


def _check_whole(name: str, value: object, least: int | None) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or (least is not None and value < least)
    ):
        raise _wrong(name, value, "a whole number" + ("" if least is None else f" from {least}"))


def _wrong(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"`BatchConfig({name}={value!r})`: expected {wanted}.")
