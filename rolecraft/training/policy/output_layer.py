"""A forward pass that stops short of the logits: the hidden states, and how logits would follow.

The model runs as it always does, but its output layer is handed a few positions only; what should
have gone in is kept. What the model does to the layer's numbers afterwards (bounding or scaling
them) is told apart by handing it known ones instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.log_probs import Logits

Tensor = torch.Tensor

_CAPS = ("final_logit_softcapping", "logits_soft_cap", "softcap")
_SCALES = ("logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")
_FEW = 2
"""Positions that the output layer is still given."""

_known: weakref.WeakKeyDictionary[Any, Logits | None] = weakref.WeakKeyDictionary()


def hidden_states(module: Any, **given: Any) -> tuple[Tensor, Logits] | None:
    """What goes into the output layer, `[T, width]`, rows laid end to end; and what comes after.

    None if this model's logits are not those of one linear layer, at most scaled and bounded: then
    they must be asked of the model itself.
    """
    head = module.get_output_embeddings()
    if type(head) is not torch.nn.Linear or _known.get(module, True) is None:
        return None
    seen: list[Tensor] = []
    known: list[Tensor] = []

    def keep(layer: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(args[0])
        return (args[0][..., :_FEW, :].detach(), *args[1:])

    def hand_back(layer: Any, args: tuple[Any, ...], out: Tensor) -> Tensor:
        # Beyond any bound in use, so that one shows; the same in every column but for its place.
        known.append(torch.linspace(-50, 50, out.numel(), device=out.device).to(out).view_as(out))
        return known[-1]

    hooks = [head.register_forward_pre_hook(keep)]
    if module not in _known:
        hooks.append(head.register_forward_hook(hand_back))
    try:
        out = module(**given, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if module not in _known:
        one = len(seen) == 1 and len(known) == 1
        _known[module] = _recognised(module, known[0], out.logits) if one else None
    logits = _known[module]
    return None if logits is None else (seen[0].flatten(0, -2), logits)


def _recognised(module: Any, given: Tensor, made: Tensor) -> Logits | None:
    if given.shape != made.shape:
        return None
    wide = given.double()
    rounding = 8 * torch.finfo(given.dtype).eps
    for logits in _candidates(module):
        if torch.allclose(logits(wide), made.double(), rtol=rounding, atol=rounding):
            return logits
    return None


def _candidates(module: Any) -> Iterator[Logits]:
    places = (module, module.config, module.config.get_text_config())

    def numbers(names: tuple[str, ...]) -> list[float]:
        found = [getattr(place, name, None) for place in places for name in names]
        return [float(value) for value in found if isinstance(value, (int, float)) and value]

    caps = [None, *numbers(_CAPS)]
    for scale in numbers(_SCALES):
        yield from (Logits(s, cap) for s in (scale, 1 / scale) for cap in caps)
    yield from (Logits(1.0, cap) for cap in caps)
