"""Packing training sequences into tensors, and the log-probabilities of their actions.

What is computed is exactly what the loss needs: no padding, equal beginnings of a role's sequences
only once, however many samples share them, and the distribution over the vocabulary only where an
action was chosen, in chunks. A model whose attention cannot be kept within rows, which is tried,
gets rows of its own with padding behind them instead.

Shapes: T tokens of a pass, in U rows laid end to end (one row where they are packed); C columns
with actions; D decisions (distinct places where a token was chosen, and from what); P pairs of a
decision and a token; N sequences with at most A actions each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.attention import arguments, exchanged, takes_blocks
from rolecraft.training.policy.log_probs import (
    Chosen,
    Support,
    action_log_probs,
    plain_log_probs,
)
from rolecraft.training.policy.output_layer import hidden_states
from rolecraft.training.policy.packing import Packed, Row, Segment, fill, padded
from rolecraft.training.policy.sequences import BrokenSequence, TrainingSequence

__all__ = ["Batch", "Segment", "micro_batches"]

Tensor = torch.Tensor


@dataclass(slots=True)
class Batch:
    """A micro-batch of whole sequences. Made by `micro_batches`."""

    sequences: list[TrainingSequence]
    segments: list[Segment]
    """Every position of `ids_UT`, in order; each role is named once."""
    given: dict[str, Any]
    """What the model's forward pass is given."""
    packed: bool
    place_D: Tensor
    """Of each decision the token before it, in the pass's tokens laid end to end."""
    chosen: Chosen
    decision_NA: Tensor
    """At which decision each action was taken."""
    pair_NA: Tensor
    """Which of the pairs it was."""
    mask_NA: Tensor
    sampled_logp_NA: Tensor
    advantage_NA: Tensor

    @property
    def ids_UT(self) -> Tensor:
        """Everything before the last action; rows that are not packed have padding behind."""
        ids_UT: Tensor = self.given["input_ids"]
        return ids_UT

    def log_probs(self, module: Any) -> tuple[Tensor, Tensor]:
        """Log-probability of each action and entropy at it (nats), `[N, A]` each, 0 where masked.

        Under the temperature and support that it was sampled with.
        """
        logp_P, entropy_D = self._scored(module)
        nothing = logp_P.new_zeros(())
        return (
            torch.where(self.mask_NA, logp_P[self.pair_NA], nothing),
            torch.where(self.mask_NA, entropy_D[self.decision_NA], nothing),
        )

    def read(self, module: Any) -> None:
        """A forward pass for its hidden states alone, which hooks see: no distribution is made."""
        with exchanged(module) if self.packed else nullcontext():
            if hidden_states(module, **self.given) is None:
                module(**self.given, use_cache=False, logits_to_keep=1)

    def _scored(self, module: Any) -> tuple[Tensor, Tensor]:
        with exchanged(module) if self.packed else nullcontext():
            found = hidden_states(module, **self.given)
            if found is None:
                width = self.ids_UT.shape[1]
                columns_C, column_D = torch.unique(self.place_D % width, return_inverse=True)
                out = module(**self.given, use_cache=False, logits_to_keep=columns_C)
                return plain_log_probs(out.logits[self.place_D // width, column_D], self.chosen)
        hidden_TH, self.chosen.logits = found
        head = module.get_output_embeddings()
        return action_log_probs(hidden_TH[self.place_D], head.weight, head.bias, self.chosen)


def micro_batches(
    sequences: Sequence[TrainingSequence],
    module: Any,
    *,
    max_tokens: int,
    dtype: torch.dtype | None = None,
) -> Iterator[Batch]:
    """All sequences that have actions, in batches of at most `max_tokens` tokens, padding included.

    For `module`, the model that is to score them, on its device: rows are laid end to end if it
    takes them so. A row that is longer than `max_tokens` gets a batch of its own. `dtype` is that
    of the numbers, by default the module's but at least float32. Raises `BrokenSequence` for an
    action that nothing precedes.
    """
    # Sums over many tokens are taken in it.
    dtype = dtype or torch.promote_types(module.dtype, torch.float32)
    rows: dict[Row, list[TrainingSequence]] = {}
    for sequence in sequences:
        if True in sequence.action_mask:
            _check_first(sequence)
            row = Row(sequence.role, tuple(sequence.ids[: sequence.given_length]))
            rows.setdefault(row, []).append(sequence)
    if not rows:
        return
    longest = max(len(row.ids) for row in rows)
    packed = takes_blocks(module, longest)
    for part in fill(list(rows), max_tokens) if packed else _alike(rows, max_tokens):
        yield _batch(part, rows, packed, module.device, dtype)


def _alike(rows: dict[Row, list[TrainingSequence]], max_tokens: int) -> Iterator[list[Row]]:
    """Rows of alike lengths together, so that little is padding."""
    waiting: list[Row] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if waiting and (len(waiting) + 1) * len(row.ids) > max_tokens:
            yield sorted(waiting)
            waiting = []
        waiting.append(row)
    yield sorted(waiting)


def _check_first(sequence: TrainingSequence) -> None:
    if sequence.action_mask[0]:
        raise BrokenSequence(
            f"Sequence `{sequence.name}` begins with a sampled token: there is nothing that it "
            f"could have been sampled from."
        )


def _batch(
    part: list[Row],
    rows: dict[Row, list[TrainingSequence]],
    is_packed: bool,
    device: Any,
    dtype: torch.dtype,
) -> Batch:
    sequences = [sequence for row in part for sequence in rows[row]]
    number = [n for n, row in enumerate(part) for _ in rows[row]]
    at = [np.array(sequence.action_mask).nonzero()[0] for sequence in sequences]
    if is_packed:
        packed = Packed(part)
        given, segments = arguments(packed, device), packed.segments
        places = [packed.places(n, where - 1) for n, where in zip(number, at, strict=True)]
    else:
        width = max(len(row.ids) for row in part)
        given, segments = {"input_ids": padded(part, width).to(device)}, _segments(part, width)
        places = [n * width + where - 1 for n, where in zip(number, at, strict=True)]

    kinds: dict[tuple[float, tuple[int, ...] | None], int] = {}
    kind = [_kinds(sequence, where, kinds) for sequence, where in zip(sequences, at, strict=True)]
    keys = np.concatenate(places) * len(kinds) + np.concatenate(kind)
    known, decision = np.unique(keys, return_inverse=True)
    tokens = np.concatenate([np.asarray(s.ids)[w] for s, w in zip(sequences, at, strict=True)])
    most = int(tokens.max()) + 1
    pairs, pair = np.unique(decision * most + tokens, return_inverse=True)
    temperature = np.array([kind[0] for kind in kinds])[known % len(kinds)]
    allowed = [kind[1] for kind in kinds]
    limited = any(ids is not None for ids in allowed)
    support = [allowed[n] for n in (known % len(kinds)).tolist()] if limited else []

    lengths = [len(where) for where in at]
    mask_NA = np.arange(max(lengths)) < np.array(lengths)[:, None]

    def of_actions(values: np.ndarray, to: torch.dtype) -> Tensor:
        full = np.zeros(mask_NA.shape, values.dtype)
        full[mask_NA] = values
        return torch.from_numpy(full).to(device, to)

    def numbers(name: str) -> Tensor:
        lists = [np.asarray(getattr(s, name), float)[w] for s, w in zip(sequences, at, strict=True)]
        return of_actions(np.concatenate(lists), dtype)

    def tensor(values: Any, to: torch.dtype = torch.long) -> Tensor:
        return torch.from_numpy(np.asarray(values)).to(device, to)

    return Batch(
        sequences=sequences,
        segments=segments,
        given=given,
        packed=is_packed,
        place_D=tensor(known // len(kinds)),
        chosen=Chosen(
            tensor(pairs // most),
            tensor(pairs % most),
            tensor(temperature, dtype),
            Support(support, device) if limited else None,
        ),
        decision_NA=of_actions(decision, torch.long),
        pair_NA=of_actions(pair, torch.long),
        mask_NA=torch.from_numpy(mask_NA).to(device),
        sampled_logp_NA=numbers("logprobs"),
        advantage_NA=numbers("advantages"),
    )


def _kinds(
    sequence: TrainingSequence,
    at: np.ndarray,
    known: dict[tuple[float, tuple[int, ...] | None], int],
) -> np.ndarray:
    """Of each action, the number of the temperature and support it was drawn with."""
    support = sequence.support
    free = support.count(None) == len(support)
    temperatures = np.asarray(sequence.temperatures)[at]
    if free and (temperatures == temperatures[0]).all():
        return np.full(len(at), known.setdefault((float(temperatures[0]), None), len(known)))
    return np.array(
        [
            known.setdefault(
                (
                    float(sequence.temperatures[index]),
                    None if free or (ids := support[index]) is None else tuple(ids),
                ),
                len(known),
            )
            for index in at.tolist()
        ]
    )


def _segments(rows: list[Row], width: int) -> list[Segment]:
    segments: list[Segment] = []
    for role, its_rows in groupby(rows, lambda row: row.role):
        start = segments[-1].stop if segments else 0
        segments.append(Segment(role, start, start + width * len(list(its_rows))))
    return segments
