"""Attention within the blocks of a packed pass, and whether a model can be given one.

transformers lets attention be exchanged by name. Ours computes what the model's own would in each
row alone, block by block: with torch's kernel for sequences of various lengths on a GPU in 16
bits, and with a causal `scaled_dot_product_attention` for each shape of blocks everywhere else.
Called without blocks, as by a sampler that uses the same module meanwhile, it is "sdpa".
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rolecraft.models.torch_extra import torch, transformers
from rolecraft.training.policy.packing import Packed, Row, Run

Tensor = torch.Tensor

NAME = "rolecraft_blocks"
ARGUMENT = "attention_blocks"
"""With which models hand the blocks on to their attention."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What attention has to know of a `Packed`, on its device."""

    runs: list[Run]
    key_K: Tensor | None
    """Place of each key, block by block; None: every block attends to its own tokens alone."""
    query_edges: Tensor
    key_edges: Tensor
    """Cumulative lengths of the blocks, from 0."""

    @classmethod
    def of(cls, packed: Packed, device: Any) -> Blocks:
        runs, keys = packed.runs, packed.keys()

        def edges(lengths: list[int]) -> Tensor:
            of = torch.tensor([0, *lengths], dtype=torch.int32)
            return of.cumsum(0, dtype=torch.int32).to(device)

        return cls(
            runs,
            None if keys is None else torch.from_numpy(keys).to(device),
            edges([run.queries for run in runs for _ in range(run.blocks)]),
            edges([run.keys for run in runs for _ in range(run.blocks)]),
        )


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: `[1, heads, T, d]` in, `[1, T, heads, d]` out."""
    blocks: Blocks | None = more.pop(ARGUMENT, None)
    if blocks is None:
        return transformers.integrations.sdpa_attention.sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if more.get(name) is not None]
    if unknown:
        raise NotImplementedError(f"attention with {unknown}")
    q_TND, k_TMD, v_TMD = (states[0].transpose(0, 1) for states in (query, key, value))
    if blocks.key_K is not None:
        k_TMD, v_TMD = (states.index_select(0, blocks.key_K) for states in (k_TMD, v_TMD))
    if q_TND.is_cuda and q_TND.dtype.itemsize == 2 and _kernel() is not None:
        out = _varied(q_TND, k_TMD, v_TMD, blocks, scaling)
    else:
        out = _by_shape(q_TND, k_TMD, v_TMD, blocks, scaling)
    return out[None], None


@cache
def _kernel() -> Any:
    """torch's FlashAttention for sequences of various lengths, where this torch has it."""
    try:
        return importlib.import_module("torch.nn.attention.varlen").varlen_attn
    except (ImportError, AttributeError):
        return None


def _varied(q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, scaling: float | None) -> Tensor:
    attended: Tensor = _kernel()(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        blocks.query_edges,
        blocks.key_edges,
        max(run.queries for run in blocks.runs),
        max(run.keys for run in blocks.runs),
        scale=scaling,
        window_size=(-1, 0),  # causal, the last query at the last key
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return attended


def _by_shape(q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, scaling: float | None) -> Tensor:
    if q.shape[1] != k.shape[1]:
        k, v = (states.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v))
    queries = [run.blocks * run.queries for run in blocks.runs]
    keys = [run.blocks * run.keys for run in blocks.runs]
    parts = (torch.split(s, sizes) for s, sizes in ((q, queries), (k, keys), (v, keys)))
    out = []
    for run, *states in zip(blocks.runs, *parts, strict=True):
        mine, its_k, its_v = (s.unflatten(0, (run.blocks, -1)).transpose(1, 2) for s in states)
        deep = run.keys - run.queries
        mask = None if not deep or run.queries == 1 else _last_causal(run, q.device)
        seen = torch.nn.functional.scaled_dot_product_attention(
            mine, its_k, its_v, mask, is_causal=not deep, scale=scaling
        )
        out.append(seen.transpose(1, 2).flatten(0, 1))
    return torch.cat(out)


def _last_causal(run: Run, device: Any) -> Tensor:
    everything = torch.ones(run.queries, run.keys, dtype=torch.bool, device=device)
    return everything.tril(run.keys - run.queries)


def arguments(packed: Packed, device: Any) -> dict[str, Any]:
    """What a forward pass over `packed` is given, within `exchanged`."""
    return {
        "input_ids": torch.tensor([packed.ids], device=device),
        "position_ids": torch.tensor([packed.positions], device=device),
        # Of four dimensions: handed on as it is, so that no mask of the whole pass is made.
        "attention_mask": torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device),
        ARGUMENT: Blocks.of(packed, device),
    }


@contextmanager
def exchanged(module: Any) -> Iterator[None]:
    """Within, the module's attention takes blocks."""
    _register()
    configs = {
        id(part.config): part.config
        for part in module.modules()
        if isinstance(getattr(part, "config", None), transformers.PreTrainedConfig)
    }
    before = [(config, config._attn_implementation) for config in configs.values()]
    try:
        for config, _ in before:
            config._attn_implementation = NAME
        yield
    finally:
        for config, name in before:
            config._attn_implementation = name


@cache
def _register() -> None:
    masks = transformers.masking_utils
    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, masks.sdpa_mask)


def takes_blocks(module: Any, longest: int) -> bool:
    """Whether rows of up to `longest` tokens can be packed for this model: it is tried, once.

    Layers that keep a state, convolutions, biases by distance and attention of a kind that cannot
    be exchanged give other hidden states for packed rows; such models are given padded rows. So
    are those that look back less far than the longest row.
    """
    text = module.config.get_text_config()
    for name in ("sliding_window", "attention_chunk_size"):
        if (getattr(text, name, None) or longest) < longest:
            return False
    if module not in _tried:
        _tried[module] = _agrees(module)
    return _tried[module]


_tried: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def _agrees(module: Any) -> bool:
    vocabulary = module.get_input_embeddings().weight.shape[0]
    # What the order of additions changes, over many layers; in float64 some are of float32.
    dtypes = (module.dtype, torch.float32)
    rounding = min(100 * max(torch.finfo(dtype).eps for dtype in dtypes), 0.05)

    def tokens(*numbers: int) -> tuple[int, ...]:
        return tuple(number % vocabulary for number in numbers)

    begin = tokens(*range(3, 13))
    rows = [
        Row("", begin + tokens(1, 2, 5, 9)),
        Row("", begin + tokens(7, 1, 3)),
        Row("", tokens(2, 11, 1, 4, 3)),
    ]
    rows = list(dict.fromkeys(rows))
    packed = Packed(rows)
    try:
        with exchanged(module):
            together = last_states(module, **arguments(packed, module.device))
    except (NotImplementedError, TypeError, KeyError, ValueError, RuntimeError, IndexError):
        return False  # it has an attention of its own
    for number, row in enumerate(rows):
        alone = last_states(module, input_ids=torch.tensor([row.ids], device=module.device))
        places = packed.places(number, np.arange(len(row.ids)))
        if not gap(together[torch.from_numpy(places)], alone) <= rounding:
            return False
    return True


def last_states(module: Any, **given: Any) -> Tensor:
    """What comes out of the last layer for the first row, `[T, width]`: no dropout, no gradient."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            out = module(**given, use_cache=False, output_hidden_states=True)
    finally:
        module.train(was_training)
    states: Tensor = out.hidden_states[-1][0]
    return states


def gap(states: Tensor, wanted: Tensor) -> float:
    """The largest difference between two passes' states, as a share of the largest of `wanted`."""
    most = max(wanted.abs().max().item(), 1e-6)
    return float((states - wanted).abs().max().item() / most)
