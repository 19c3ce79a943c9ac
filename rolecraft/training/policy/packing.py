"""Token rows laid end to end for one forward pass, their equal beginnings only once.

Invariant: a token attends to exactly what it would attend to if its row were alone in the pass.

The rows of one role are a tree: where several begin alike (samples of one prompt, say), those
tokens are a block which each continuation looks back on. Positions go on from block to block. A
block of q tokens that stands k - q tokens deep attends to k keys, its ancestors' and its own, of
which the last q are causal: so there is neither padding nor a mask of the whole pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from rolecraft.models.torch_extra import torch

GRAIN = 8
"""Beginnings are shared in multiples of so many tokens: each block costs a few operations."""


class Row(NamedTuple):
    """What must be equal for sequences to share a row."""

    role: str
    ids: tuple[int, ...]


class Segment(NamedTuple):
    """Tokens of a forward pass that belong to one role, and so to its adapter."""

    adapter: str
    """The role's name."""
    start: int
    """Position of the first, where rows are laid end to end, padding included."""
    stop: int
    """Position after the last."""


class Run(NamedTuple):
    """Neighbouring blocks of one shape, which attention takes together."""

    blocks: int
    queries: int
    """Tokens of each."""
    keys: int
    """Tokens that its last one attends to, itself among them."""


@dataclass(slots=True, eq=False)
class _Block:
    role: str
    ids: tuple[int, ...]
    depth: int
    """Position of its first token in its rows."""
    parent: _Block | None
    start: int = 0
    """Place of its first token in the pass."""
    line: list[_Block] = field(init=False)
    """Its ancestors from the first on, and itself."""

    def __post_init__(self) -> None:
        self.line = [*(self.parent.line if self.parent is not None else ()), self]


class Packed:
    """The layout of `rows`, all different, in one pass. `place` says where a row's token went."""

    def __init__(self, rows: Sequence[Row]) -> None:
        order = sorted(range(len(rows)), key=rows.__getitem__)
        last: dict[int, _Block] = {}
        for _, its in groupby(order, lambda index: rows[index].role):
            last |= _tree([(index, rows[index]) for index in its])
        self._leaf = [last[index] for index in range(len(rows))]
        blocks = {id(block): block for leaf in self._leaf for block in leaf.line}.values()
        # Equal shapes side by side, so that attention takes them at once.
        self._blocks = sorted(blocks, key=lambda b: (b.role, b.depth, len(b.ids), b.ids))
        at = 0
        for block in self._blocks:
            block.start = at
            at += len(block.ids)
        self.tokens = at

    def places(self, row: int, positions: np.ndarray) -> np.ndarray:
        """Where in the pass the tokens at `positions` of a row are."""
        line = self._leaf[row].line
        if len(line) == 1:
            return positions + line[0].start
        of = np.searchsorted([block.depth for block in line], positions, side="right") - 1
        offsets = np.array([block.start - block.depth for block in line])
        moved: np.ndarray = positions + offsets[of]
        return moved

    @property
    def ids(self) -> list[int]:
        return [token for block in self._blocks for token in block.ids]

    @property
    def positions(self) -> list[int]:
        """Of each token in its rows."""
        return [block.depth + n for block in self._blocks for n in range(len(block.ids))]

    @property
    def segments(self) -> list[Segment]:
        """All tokens, each role once."""
        segments: list[Segment] = []
        for role, its in groupby(self._blocks, lambda block: block.role):
            start = segments[-1].stop if segments else 0
            segments.append(Segment(role, start, start + sum(len(block.ids) for block in its)))
        return segments

    @property
    def runs(self) -> list[Run]:
        """How attention takes the tokens, in order."""
        shapes = [(len(block.ids), block.depth + len(block.ids)) for block in self._blocks]
        return [Run(len(list(same)), *shape) for shape, same in groupby(shapes)]

    def keys(self) -> np.ndarray | None:
        """Place of each key that the runs attend to, block by block; None: each its own tokens."""
        if all(block.parent is None for block in self._blocks):
            return None
        return np.concatenate(
            [
                np.arange(of.start, of.start + len(of.ids))
                for block in self._blocks
                for of in block.line
            ]
        )


def _tree(rows: list[tuple[int, Row]]) -> dict[int, _Block]:
    """The last block of each row; rows are sorted, and all of one role."""
    common = [0, *_common([row for _, row in rows])]
    ends: dict[int, _Block] = {}
    waiting: list[tuple[int, int, int, _Block | None]] = [(0, len(rows), 0, None)]
    while waiting:
        first, stop, depth, parent = waiting.pop()
        index, row = rows[first]
        if stop - first == 1:
            if depth < len(row.ids) or parent is None:
                parent = _Block(row.role, row.ids[depth:], depth, parent)
            ends[index] = parent
            continue
        shared = min(common[first + 1 : stop])
        cuts = [n for n in range(first + 1, stop) if common[n] == shared]
        if shared > depth:
            parent = _Block(row.role, row.ids[depth:shared], depth, parent)
            depth = shared
        edges = [first, *cuts, stop]
        waiting += [(a, b, depth, parent) for a, b in pairwise(edges)]
    return ends


def _common(rows: Sequence[Row]) -> Iterator[int]:
    """How many first tokens each row shares with the one before it, a multiple of `GRAIN`."""
    before: np.ndarray | None = None
    for row in rows:
        ids = np.asarray(row.ids)
        if before is not None:
            least = min(len(before), len(ids))
            different = (before[:least] != ids[:least]).nonzero()[0]
            alike = int(different[0]) if len(different) else least
            yield alike - alike % GRAIN
        before = ids


def fill(rows: Sequence[Row], most: int) -> list[list[Row]]:
    """Parts of the rows with at most `most` tokens each, what begins alike together.

    First fit, the longest first: a part takes what fits, and a row that is longer than `most` is
    alone. The order of `rows` is of no account.
    """
    together: list[tuple[int, list[Row]]] = []  # tokens, rows that begin alike
    for _, its in groupby(sorted(rows), lambda row: row.role):
        its_rows = list(its)
        tokens, alike = 0, list[Row]()
        for row, shared in zip(its_rows, [0, *_common(its_rows)], strict=True):
            if alike and (not shared or tokens + len(row.ids) - shared > most):
                together.append((tokens, alike))
                tokens, alike, shared = 0, [], 0
            tokens += len(row.ids) - shared
            alike.append(row)
        if alike:
            together.append((tokens, alike))
    parts: list[tuple[int, list[Row]]] = []
    for tokens, alike in sorted(together, key=lambda some: -some[0]):
        for n, (filled, part) in enumerate(parts):
            if filled + tokens <= most:
                parts[n] = (filled + tokens, part + alike)
                break
        else:
            parts.append((tokens, alike))
    return [part for _, part in parts]


def padded(rows: Sequence[Row], width: int) -> torch.Tensor:
    """Rows of one width, with padding behind them, which no token of theirs attends to."""
    ids_UT = torch.zeros(len(rows), width, dtype=torch.long)
    for ids_T, row in zip(ids_UT, rows, strict=True):
        ids_T[: len(row.ids)] = torch.tensor(row.ids, dtype=torch.long)
    return ids_UT
