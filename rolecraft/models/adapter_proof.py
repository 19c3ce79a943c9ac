"""Proof that the adapter served is the adapter trained.

Weight updates can go wrong without a sound: nothing was sent, an old file was read again, a cache
answered for an older version. Two facts together exclude that: the digest of the tensors that the
engine was given, and the log-probabilities that it computes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import AdapterError
from rolecraft.models.adapters import AdapterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterProof:
    """How close what is served comes to what was trained, on one probe text."""

    version: AdapterVersion
    gap: float
    """The largest difference of a token's log-probability, served against trained."""
    effect: float
    """The largest difference that the adapter makes to the base model. A probe proves something
    where this is clearly larger than `gap`; after no training it is 0."""


def token_logprobs(module: Any, ids: Sequence[int]) -> list[float]:
    """Natural log-probability of each of `ids[1:]` after those before it, at temperature 1.

    `module` is a causal language model of transformers, with or without an adapter of peft; it is
    left in the mode (training or not) that it was in.
    """
    import torch

    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            ids_1T = torch.tensor([list(ids)], device=module.device)
            logits_TV = module(input_ids=ids_1T).logits[0, :-1].float()
            logp_TV = torch.log_softmax(logits_TV, dim=-1)
            found: list[float] = logp_TV.gather(-1, ids_1T[0, 1:, None])[:, 0].tolist()
    finally:
        module.train(training)
    return found


def check_probe(
    version: AdapterVersion,
    *,
    served: Sequence[float],
    base: Sequence[float],
    expected: Sequence[float],
    digest: str | None,
    tolerance: float,
) -> AdapterProof:
    """Compare. Raises `AdapterError` where served and trained differ."""
    if digest is not None and digest != version.digest:
        raise AdapterError(
            f"The adapter `{version.name}` was loaded from `{version.source}` with digest "
            f"{version.digest!r}, and {digest!r} was trained: it is another one. Save it again "
            f"and load that folder."
        )
    if len(expected) != len(served):
        raise AdapterError(
            f"`expected` has {len(expected)} log-probabilities and the probe has {len(served)} "
            f"tokens after its first. Give those of `token_logprobs(module, ids)`."
        )
    gap = max(map(_distance, served, expected), default=0.0)
    effect = max(map(_distance, served, base), default=0.0)
    if not gap <= tolerance:
        raise AdapterError(
            f"The engine does not serve `{version.name}` as it was trained: log-probabilities of "
            f"the probe differ by up to {gap:.3g}, and {tolerance:g} is allowed (the adapter "
            f"itself changes them by up to {effect:.3g}). Compare number formats; load it again."
        )
    return AdapterProof(version=version, gap=gap, effect=effect)


def _distance(one: float, other: float) -> float:
    return abs(one - other)
