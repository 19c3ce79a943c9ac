"""The files in which bugs are planted, as trees; of those not in use a few are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from rolecraft.synthesis.modifiers.base import Modifier
from rolecraft.synthesis.modifiers.entities import Entity, Variant, entities
from rolecraft.synthesis.planting.order import source_of_chance

KEPT_CHARACTERS = 500_000
"""Text of the files whose trees are kept. A tree takes some 300 bytes a character."""


class Trees:
    """Reads files as entities. Raises `Refused` for one that libcst does not take."""

    def __init__(self, read: Callable[[str], str], seed: int) -> None:
        self._read, self._seed = read, seed
        self._kept: OrderedDict[str, _Source] = OrderedDict()

    def entities(self, path: str) -> list[Entity]:
        return self._source(path).entities

    def variants(self, path: str, number: int, modifier: Modifier) -> list[Variant]:
        """All that a modifier has of an entity, up to `MOST`; none are written yet."""
        source = self._source(path)
        name = (number, modifier.name)
        if name not in source.variants:
            entity = source.entities[number]
            chance = source_of_chance(self._seed, entity, modifier.name)
            source.variants[name] = list(islice(modifier.variants(entity, chance), MOST))
        return source.variants[name]

    def _source(self, path: str) -> _Source:
        if path not in self._kept:
            text = self._read(path)
            self._kept[path] = _Source(len(text), entities(path, text))
            while len(self._kept) > 1 and self._characters() > KEPT_CHARACTERS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(path)
        return self._kept[path]

    def _characters(self) -> int:
        return sum(source.characters for source in self._kept.values())


@dataclass(slots=True)
class _Source:
    characters: int
    entities: list[Entity]
    variants: dict[tuple[int, str], list[Variant]] = field(default_factory=dict)


MOST = 1000
"""Of a function that is one table of numbers."""
