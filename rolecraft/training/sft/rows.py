"""From prepared samples to batches: packed or padded, with what they hold counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.attention import gap, last_states
from rolecraft.training.sft.libraries import trl

TOKENS, SAMPLES = "tokens_in_batch", "samples_in_batch"
"""Keys that `Counting` adds to a batch, and the trainer takes out before the model sees it."""

NOT_TRAINED = -100

Rows = Sequence[Mapping[str, Any]]


def pack(dataset: Any, max_length: int) -> Any:
    """Rows of up to `max_length` tokens with several samples each: TRL's best fit, decreasing."""
    return trl.pack_dataset(dataset.select_columns(["input_ids", "labels"]), max_length, "bfd")


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Batches of packed rows for attention that takes a mask: SDPA and eager.

    TRL lays all rows of a batch end to end, which FlashAttention wants. A mask for that has the
    square of their joint length; one for each row has the square of a row's. As in TRL, positions
    begin at 0 with each sample, which is how transformers sees where one ends: it builds a mask of
    blocks when it is given positions and no mask.
    """

    pad: int

    def __call__(self, rows: Rows) -> dict[str, Any]:
        width = max(len(row["input_ids"]) for row in rows)
        ids_RT = torch.full((len(rows), width), self.pad)
        labels_RT = torch.full((len(rows), width), NOT_TRAINED)
        # Each padding token is a sample of its own, which nothing else attends to.
        positions_RT = torch.zeros((len(rows), width), dtype=torch.long)
        for index, row in enumerate(rows):
            length = len(row["input_ids"])
            ids_RT[index, :length] = torch.as_tensor(row["input_ids"])
            labels_RT[index, :length] = torch.as_tensor(row["labels"])
            starts = [torch.arange(n) for n in row.get("seq_lengths", [length])]
            positions_RT[index, :length] = torch.cat(starts)
        # The first token of a sample would otherwise be predicted from the sample before.
        labels_RT[positions_RT == 0] = NOT_TRAINED
        return {"input_ids": ids_RT, "labels": labels_RT, "position_ids": positions_RT}


@dataclass(frozen=True, slots=True)
class Counting:
    """Batches of `collate`, with the number of their samples and of their tokens, no padding."""

    collate: Callable[[Rows], dict[str, Any]]

    def __call__(self, rows: Rows) -> dict[str, Any]:
        batch = self.collate(rows)
        batch[TOKENS] = sum(len(row["input_ids"]) for row in rows)
        batch[SAMPLES] = sum(len(row.get("seq_lengths", (0,))) for row in rows)
        return batch


def check_packing(model: Any, collate: Callable[[Rows], dict[str, Any]]) -> None:
    """Raise `UsageError` if a sample in a packed row sees another one in this model.

    The same second sample behind two different first ones must come out of the last layer alike.
    Layers that keep a state, convolutions, and attention that ignores positions would differ.
    """
    vocabulary = model.get_input_embeddings().weight.shape[0]
    second = [index % vocabulary for index in range(3, 11)]
    states = []
    for first in ([1 % vocabulary] * 8, [2 % vocabulary] * 8):
        ids = [*first, *second]
        batch = collate([{"input_ids": ids, "labels": ids, "seq_lengths": [8, 8]}])
        given = {
            name: value.to(model.device) if torch.is_tensor(value) else value
            for name, value in batch.items()
            if name not in ("labels", TOKENS, SAMPLES)
        }
        states.append(last_states(model, **given)[8:].float())
    # To the bit but for kernels: whatever the number format, the same numbers are added up.
    if not (difference := gap(states[0], states[1])) <= 1e-5:
        raise UsageError(
            f"`packing` cannot be used with this model: with {model.config._attn_implementation!r} "
            f"attention a sample sees the one before it in its row (a difference of "
            f"{difference:.2g} of the last layer's largest number). Leave `packing` out."
        )
