"""Which tools a sample may use: toolsets, drawn with a probability each.

    tools = Distribution(
        toolsets={"web": ("search", "extract"), "files": ("read_file", "write_file")},
        chances={"web": 0.9, "files": 0.3},
    )
    drawn = tools.draw(seed=7)        # ("web",), or ("files",), or both

Invariant: what is drawn depends on the seed and on the distribution alone, and no toolset's draw on
another one's. Tools that are in no toolset are always there.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.hashing import hash64


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Toolsets by name, and how likely each is. Raises `UsageError` for what cannot be.

    If no toolset is drawn, the likeliest is taken (the first of several), so that no sample is
    without tools; unless `may_be_empty`.
    """

    toolsets: Mapping[str, Sequence[str]]
    """The names of each one's tools."""
    chances: Mapping[str, float]
    """From 0 to 1; a toolset that is not named has none."""
    may_be_empty: bool = False
    name: str = field(default="", compare=False)
    file: str = field(default="", compare=False)
    """Where it is from, for errors."""

    def __post_init__(self) -> None:
        _check_mapping("toolsets", self.toolsets)
        _check_mapping("chances", self.chances)
        for toolset, tools in self.toolsets.items():
            if isinstance(tools, str) or not all(isinstance(tool, str) for tool in tools):
                raise UsageError(
                    f"The toolset {toolset!r} is {tools!r}; it wants a list of tools' names."
                )
        for toolset, chance in self.chances.items():
            if toolset not in self.toolsets:
                raise UnknownName("Toolset", toolset, self.toolsets)
            if isinstance(chance, bool) or not isinstance(chance, (int, float)):
                raise UsageError(f"The chance of toolset {toolset!r} is {chance!r}, not a number.")
            if not 0 <= chance <= 1:
                raise UsageError(
                    f"The chance of toolset {toolset!r} is {chance!r}; it is from 0 to 1."
                )
        if not isinstance(self.may_be_empty, bool):
            raise UsageError(f"`may_be_empty` is {self.may_be_empty!r}, expected true or false.")
        own = {name: tuple(tools) for name, tools in self.toolsets.items()}
        object.__setattr__(self, "toolsets", MappingProxyType(own))
        object.__setattr__(self, "chances", MappingProxyType(dict(self.chances)))

    def draw(self, seed: int) -> tuple[str, ...]:
        """The toolsets of one sample, in the order of `chances`."""
        drawn = tuple(
            name
            for name, chance in self.chances.items()
            if hash64(seed, "toolset", name) / 2**64 < chance
        )
        if drawn or self.may_be_empty or not any(self.chances.values()):
            return drawn
        return (max(self.chances, key=lambda name: self.chances[name]),)

    def allowed(self, drawn: Iterable[str], tools: Iterable[str]) -> tuple[str, ...]:
        """Those of `tools` that a sample with these toolsets has, in their order."""
        given = {tool for name in drawn for tool in self.toolsets[name]}
        bound = {tool for members in self.toolsets.values() for tool in members}
        return tuple(tool for tool in tools if tool in given or tool not in bound)

    def check(self, tools: Iterable[str]) -> None:
        """Raise `UnknownName` for a toolset's tool that nobody has."""
        known = tuple(tools)
        for members in self.toolsets.values():
            for tool in members:
                if tool not in known:
                    raise UnknownName(
                        f"Tool of `{self.file}`" if self.file else "Tool", tool, known
                    )

    def to_dict(self) -> dict[str, Any]:
        return {
            "toolsets": {name: list(tools) for name, tools in self.toolsets.items()},
            "chances": dict(self.chances),
            "may_be_empty": self.may_be_empty,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Raises `UnknownName` for a key that is none, `UsageError` for a wrong value."""
        known = ("toolsets", "chances", "may_be_empty")
        for key in values:
            if key not in known:
                raise UnknownName("Key of a toolset distribution", key, known)
        for key in known[:2]:
            if key not in values:
                raise UsageError(f"A toolset distribution has no `{key}`.")
        return cls(**values)


def load_distribution(path: str | Path, name: str | None = None) -> Distribution:
    """A distribution of a TOML or JSON file, by name; the only one if it has one.

        [toolsets]
        web = ["search", "extract"]
        [distributions.research]
        web = 0.9

    Raises `UsageError`, which names the file, for one that is none or has not that name.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        whole = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise UsageError(f"`{path}` is no TOML or JSON: {error}.") from error
    unknown = sorted(whole.keys() - {"toolsets", "distributions"}) if _is_table(whole) else ["it"]
    if unknown:
        raise UsageError(
            f"`{path}`: {unknown[0]!r} is unknown. A file of toolsets has `toolsets` and "
            f"`distributions`, and nothing else."
        )
    try:
        return _named(path, whole, name)
    except UsageError as error:
        raise UsageError(f"`{path}`: {error}") from error


def _named(path: Path, whole: Mapping[str, Any], name: str | None) -> Distribution:
    there = whole.get("distributions", {})
    _check_mapping("distributions", there)
    if not there:
        raise UsageError("It has no `distributions`.")
    if name is None:
        if len(there) > 1:
            raise UsageError(f"It has several distributions ({', '.join(there)}): name one.")
        name = next(iter(there))
    if name not in there:
        raise UnknownName("Distribution", name, there)
    toolsets = whole.get("toolsets", {})
    return Distribution(toolsets=toolsets, chances=there[name], name=name, file=str(path))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _check_mapping(what: str, value: object) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"`{what}` is {value!r}; it wants a table with names as keys.")
