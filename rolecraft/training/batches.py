"""Packing training sequences into tensors, and the log-probabilities of their actions.

What is computed is exactly what the loss needs: logits only where an action was chosen, and equal
beginnings of sequences only once, however many samples share them (samples of one prompt that
differ in their last choice cost one row together).

Shapes: U distinct rows of T tokens; C columns with logits; D decisions (distinct places where a
token was chosen); N sequences with at most A actions each; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.models._torch import torch
from rolecraft.models.distribution import log_distribution
from rolecraft.training.sequences import BrokenSequence, TrainingSequence

Tensor = torch.Tensor


@dataclass(slots=True)
class Batch:
    """A micro-batch of whole sequences. Made by `micro_batches`."""

    sequences: list[TrainingSequence]
    ids_UT: Tensor
    """Everything before the last action, padded on the right."""
    columns_C: Tensor
    """Token positions at which logits are needed, in any row."""
    row_D: Tensor
    column_D: Tensor
    """Index into `columns_C`."""
    temperature_D: Tensor
    allowed_DV: Tensor | None
    """What could be chosen; None if it was everything everywhere."""
    decision_NA: Tensor
    """At which decision each action was taken."""
    token_NA: Tensor
    """Which token it was."""
    mask_NA: Tensor
    sampled_logp_NA: Tensor
    advantage_N1: Tensor

    def log_probs(self, module: Any) -> tuple[Tensor, Tensor]:
        """Log-probability of each action and entropy at it (nats), `[N, A]` each, 0 where masked.

        Under the temperature and support that it was sampled with.
        """
        # No mask for the padding: in a causal model no token looks at what is right of it.
        out = module(input_ids=self.ids_UT, use_cache=False, logits_to_keep=self.columns_C)
        logits_DV = out.logits[self.row_D, self.column_D]
        if self.allowed_DV is not None:
            logits_DV = logits_DV.masked_fill(~self.allowed_DV, -torch.inf)
        logp_DV = log_distribution(logits_DV, self.temperature_D)
        # What cannot be chosen adds nothing; 0 times -inf would be NaN.
        entropy_D = -(logp_DV.exp() * logp_DV.masked_fill(logp_DV == -torch.inf, 0.0)).sum(-1)
        nothing = logp_DV.new_zeros(())
        return (
            torch.where(self.mask_NA, logp_DV[self.decision_NA, self.token_NA], nothing),
            torch.where(self.mask_NA, entropy_D[self.decision_NA], nothing),
        )


def micro_batches(
    sequences: Sequence[TrainingSequence],
    *,
    vocabulary: int,
    max_tokens: int,
    device: Any = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Iterator[Batch]:
    """All sequences that have actions, in batches of at most `max_tokens` padded tokens.

    A row that is longer than that gets a batch of its own. `vocabulary` is the number of logits,
    `dtype` that of the numbers. Raises `BrokenSequence` for an action that nothing precedes.
    """
    rows: dict[tuple[int, ...], list[TrainingSequence]] = {}
    for sequence in sequences:
        if True in sequence.action_mask:
            rows.setdefault(tuple(sequence.ids[: _last_action(sequence)]), []).append(sequence)
    waiting: list[tuple[int, ...]] = []
    for row in sorted(rows, key=len):  # alike lengths together, so that little is padding
        if waiting and (len(waiting) + 1) * len(row) > max_tokens:
            yield _batch(waiting, rows, vocabulary, device, dtype)
            waiting = []
        waiting.append(row)
    if waiting:
        yield _batch(waiting, rows, vocabulary, device, dtype)


def _last_action(sequence: TrainingSequence) -> int:
    mask = sequence.action_mask
    if mask[0]:
        raise BrokenSequence(
            f"Sequence `{sequence.name}` begins with a sampled token: there is nothing that it "
            f"could have been sampled from."
        )
    return len(mask) - 1 - mask[::-1].index(True)


def _batch(
    prefixes: list[tuple[int, ...]],
    rows: dict[tuple[int, ...], list[TrainingSequence]],
    vocabulary: int,
    device: Any,
    dtype: torch.dtype,
) -> Batch:
    width = max(map(len, prefixes))
    known: dict[tuple[int, int, float, tuple[int, ...] | None], int] = {}
    sequences: list[TrainingSequence] = []
    decisions: list[list[int]] = []
    tokens: list[list[int]] = []
    logprobs: list[list[float]] = []
    for row, prefix in enumerate(prefixes):
        for sequence in rows[prefix]:
            at = [index for index, action in enumerate(sequence.action_mask) if action]
            sequences.append(sequence)
            tokens.append([sequence.ids[index] for index in at])
            logprobs.append([sequence.logprobs[index] for index in at])
            taken = []
            for index in at:
                allowed = sequence.support[index]
                place = (
                    row,
                    index - 1,
                    sequence.temperatures[index],
                    None if allowed is None else tuple(allowed),
                )
                taken.append(known.setdefault(place, len(known)))
            decisions.append(taken)
    columns = sorted({place[1] for place in known})
    column_of = {column: index for index, column in enumerate(columns)}
    longest = max(map(len, tokens))

    def padded(lists: Any, pad: float, of: torch.dtype, to: int = longest) -> Tensor:
        full = [[*values, *[pad] * (to - len(values))] for values in lists]
        return torch.tensor(full, dtype=of, device=device)

    def column(values: Any, of: torch.dtype = torch.long) -> Tensor:
        return torch.tensor(list(values), dtype=of, device=device)

    return Batch(
        sequences=sequences,
        ids_UT=padded(prefixes, 0, torch.long, width),
        columns_C=column(columns),
        row_D=column(place[0] for place in known),
        column_D=column(column_of[place[1]] for place in known),
        temperature_D=column((place[2] for place in known), dtype),
        allowed_DV=_allowed([place[3] for place in known], vocabulary, device),
        decision_NA=padded(decisions, 0, torch.long),
        token_NA=padded(tokens, 0, torch.long),
        mask_NA=padded([[1] * len(taken) for taken in tokens], 0, torch.bool),
        sampled_logp_NA=padded(logprobs, 0.0, dtype),
        advantage_N1=column((sequence.advantage for sequence in sequences), dtype)[:, None],
    )


def _allowed(
    support: Sequence[tuple[int, ...] | None], vocabulary: int, device: Any
) -> Tensor | None:
    if all(ids is None for ids in support):
        return None
    allowed_DV = torch.zeros(len(support), vocabulary, dtype=torch.bool)
    for row, ids in zip(allowed_DV, support, strict=True):
        row[slice(None) if ids is None else list(ids)] = True
    return allowed_DV.to(device)
