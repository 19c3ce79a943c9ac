"""In which order possible changes are drawn.

Each function or class of the project gives one change a round, each time by another modifier if
there is one that has not had its turn. A change comes later

- the more tests see it, beyond a fifth of them: where nearly every test runs, a bug breaks nearly
  every test, and such are no tasks. What all tests run comes five times as late as what a fifth
  runs, and so does a line of which nobody knows who runs it;
- by the modifier's weight, which is 1 unless its changes seldom matter to a test.

The place of a change is so decided by its own entity alone: other entities and files stand between,
and change neither what an entity gives nor in which order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rolecraft.synthesis.modifiers.base import Modifier
from rolecraft.synthesis.modifiers.entities import Entity

FEW = 0.2
"""The share of the tests that may see a change without making it come later."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One possible change, and when it is drawn."""

    at: float
    path: str
    entity: int
    """Its number in its file."""
    modifier: str
    variant: int
    """Its number among those that the modifier has of the entity."""


def source_of_chance(seed: int, entity: Entity, modifier: str, *, use: str = "") -> Random:
    """Nothing but its arguments decides what it gives."""
    return Random("\0".join((str(seed), entity.id, modifier, use)))


def places(
    seed: int,
    entity: Entity,
    number: int,
    shares: Mapping[str, Sequence[tuple[int, float | None]]],
    modifiers: Mapping[str, Modifier],
) -> list[Place]:
    """The changes of one entity. `shares` has, by modifier, the number of each of its variants that
    is to be drawn, and the share of the tests that sees it, None where that is not known.
    """
    drawn = []
    for name, variants in shares.items():
        chance = source_of_chance(seed, entity, name, use="order")
        mixed = [*variants]
        chance.shuffle(mixed)
        for turn, (variant, share) in enumerate(mixed):
            weight = modifiers[name].weight * _weight(share)
            drawn.append(((turn + chance.random()) / weight, weight, name, variant))
    drawn.sort()
    offset = source_of_chance(seed, entity, "", use="order").random()
    return [
        Place((turn + offset) / weight, entity.path, number, name, variant)
        for turn, (_, weight, name, variant) in enumerate(drawn)
    ]


def _weight(share: float | None) -> float:
    return min(1.0, FEW / (1.0 if share is None else max(share, FEW)))
