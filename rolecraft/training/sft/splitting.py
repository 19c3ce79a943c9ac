"""A micro-batch in two halves that hold the same trained tokens, each with all that it sees.

Rows are independent of each other, and so are documents packed into one row: their positions begin
at 0, and attention keeps them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolecraft.training.sft.rows import NOT_TRAINED

Batch = dict[str, Any]

_STARTS = ("cu_seq_lens_q", "cu_seq_lens_k")
_LONGEST = ("max_length_q", "max_length_k")
"""What FlashAttention is told of packed documents: where each begins, and the longest."""


def halves(inputs: Batch) -> list[Batch]:
    """Two parts, or one: of a single document, or where only one part has trained tokens.

    A part without a trained token has no gradient, and is left out.
    """
    rows = inputs["input_ids"].shape[0]
    if rows > 1:
        middle = rows // 2
        parts = [_rows(inputs, slice(0, middle)), _rows(inputs, slice(middle, rows))]
    else:
        starts, end = _documents(inputs)
        if len(starts) < 2:
            return [inputs if end == inputs["input_ids"].shape[1] else _columns(inputs, 0, end)]
        middle = min(starts[1:], key=lambda start: abs(2 * start - end))
        parts = [_columns(inputs, 0, middle), _columns(inputs, middle, end)]
    return [part for part in parts if _trained(part)] or parts[:1]


def longest(inputs: Mapping[str, Any]) -> int:
    """Tokens of the longest document, without padding."""
    if "position_ids" in inputs:
        return int(inputs["position_ids"].max()) + 1
    if "attention_mask" in inputs:
        return int(inputs["attention_mask"].sum(-1).max())
    return int(inputs["input_ids"].shape[1])


def _rows(inputs: Batch, rows: slice) -> Batch:
    """Some rows, without the columns that are padding in all of them."""
    count, width = inputs["input_ids"].shape
    part = {
        name: value[rows] if _shaped(value, count, width) else value
        for name, value in inputs.items()
    }
    mask = part.get("attention_mask")
    if mask is None:
        return part
    used = mask.any(0).nonzero()
    if not len(used):
        return part
    first, last = int(used[0]), int(used[-1]) + 1
    return {
        name: value[:, first:last] if _shaped(value, len(mask), width) else value
        for name, value in part.items()
    }


def _columns(inputs: Batch, start: int, end: int) -> Batch:
    """Whole documents of a single row."""
    width = inputs["input_ids"].shape[1]
    part = {
        name: value[:, start:end] if _shaped(value, 1, width) else value
        for name, value in inputs.items()
    }
    for name in _STARTS:
        if name in part:
            every = part[name]
            part[name] = every[(every >= start) & (every <= end)] - start
    for name, starts in zip(_LONGEST, _STARTS, strict=True):
        if name in part:
            lengths = part[starts].diff().max()
            part[name] = lengths if hasattr(part[name], "dtype") else int(lengths)
    return part


def _documents(inputs: Batch) -> tuple[list[int], int]:
    """Where the documents of a single row begin, and where the last one ends that is trained on.

    Padding is documents of one token each, which nothing is predicted from.
    """
    width = inputs["input_ids"].shape[1]
    positions = inputs.get("position_ids")
    if positions is None:
        return [0], width
    found = [int(start) for start in (positions[0] == 0).nonzero()[:, 0]]
    trained = (inputs["labels"][0] != NOT_TRAINED).nonzero()[:, 0]
    last = int(trained[-1]) if len(trained) else width
    end = next((start for start in found if start > last), width)
    return [start for start in found if start < end], end


def _trained(part: Batch) -> bool:
    return bool((part["labels"] != NOT_TRAINED).any())


def _shaped(value: Any, rows: int, width: int) -> bool:
    return tuple(getattr(value, "shape", ()))[:2] == (rows, width)
