"""What a procedural modifier is: it knows one way in which code is commonly wrong.

    @modifier()
    def dropped_not(entity: Entity, rng: Random) -> Iterator[Variant]:
        # `not x` becomes `x`.
        for node in entity.find(cst.UnaryOperation):
            if isinstance(node.operator, cst.Not):
                yield entity.replacing(node, node.expression, note="`not` was dropped")

A modifier yields every variant of an entity that it knows, the same ones in the same order each
time; which of them become candidates is drawn elsewhere. `rng` is for those that have a choice
without end (an order of methods): it is seeded by the run's seed, the entity and the modifier, so
nothing depends on what was visited before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from rolecraft.errors import UsageError
from rolecraft.synthesis.modifiers.entities import Entity, EntityKind, Variant


class Variants(Protocol):
    """The function of a modifier."""

    def __call__(self, entity: Entity, rng: Random) -> Iterator[Variant]: ...


@dataclass(frozen=True, slots=True)
class Modifier:
    """One way to plant a bug."""

    name: str
    """With dashes, as it stands in the ids of candidates."""
    variants: Variants
    kinds: tuple[EntityKind, ...]
    """What it is asked for."""
    weight: float = 1.0
    """How early its variants are drawn: at 0.5 half as often as those of the others."""

    @property
    def about(self) -> str:
        """Its docstring's first line, for tables."""
        return (self.variants.__doc__ or "").strip().partition("\n")[0]


_KNOWN: dict[str, Modifier] = {}


def modifier(*kinds: EntityKind, weight: float = 1.0) -> Callable[[Variants], Variants]:
    """Register a function as the modifier of its name, `dropped_not` as `dropped-not`.

    `kinds` are those of the entities that it is for; functions, unless given. `weight` below 1 is
    for one whose variants are seldom noticed by a test, or break too much. Raises `UsageError` for
    a name that is taken.
    """

    def register(variants: Variants) -> Variants:
        name = variants.__name__.replace("_", "-")  # type: ignore[attr-defined]
        if name in _KNOWN:
            raise UsageError(f"There is a modifier {name!r} already: give it another name.")
        _KNOWN[name] = Modifier(name, variants, kinds or ("function",), weight)
        return variants

    return register


def known() -> dict[str, Modifier]:
    """Those that are registered, by name."""
    return dict(sorted(_KNOWN.items()))
