"""Log-probabilities and entropies of actions straight from hidden states, chunk by chunk.

Invariant: no tensor of the size positions x vocabulary is ever made. What the backward pass needs
of it is computed again, one chunk at a time, with the gradient written out.

For a position with hidden state h, temperature t and allowed ids S, with z = cap(s (W h + b)):

    u_v = z_v / t for v in S        log p_v = u_v - log sum_{S} exp u
    entropy H = -sum p log p        d log p_a / d u_v = [v = a] - p_v
                                    d H / d u_v = -p_v (log p_v + H)

which is `log_distribution` of `models/distribution.py`, the sampler's. cap(y) = c tanh(y / c) in
families that bound their logits (Gemma), s is 1 but in those that scale them (Cohere, Granite).

Shapes: D positions, H hidden size, V vocabulary, P pairs of a position and a token chosen there, C
positions of one chunk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.models.torch_extra import torch

Tensor = torch.Tensor

CHUNK = 1 << 25
"""Logits that are held at once, 4 bytes each, and a second time for their exponentials."""
_NEVER = -1e30
"""The logit of what cannot be chosen: finite, because 0 times infinity would be NaN."""


@dataclass(frozen=True, slots=True)
class Logits:
    """How a model makes logits of its output layer's numbers."""

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, raw: Tensor) -> Tensor:
        scaled = raw if self.scale == 1 else raw * self.scale
        return scaled if self.cap is None else (scaled / self.cap).tanh() * self.cap


class Support:
    """For each position the ids that could be drawn there; None is the whole vocabulary."""

    def __init__(self, allowed: Sequence[Sequence[int] | None], device: Any = "cpu") -> None:
        self.rows = [row for row, ids in enumerate(allowed) if ids is not None]
        self._starts = [0]
        flat: list[int] = []
        for row in self.rows:
            flat += allowed[row] or ()
            self._starts.append(len(flat))
        lengths = torch.tensor(self._starts).diff()
        self._row_K = torch.tensor(self.rows).repeat_interleave(lengths).to(device)
        self._id_K = torch.tensor(flat, dtype=torch.long).to(device)
        self._rows = torch.tensor(self.rows, dtype=torch.long).to(device)

    def forbidden(self, start: int, stop: int, vocabulary: int) -> Tensor | None:
        """Of positions start to stop, `[C, V]`: what could not be drawn. None: all could."""
        first, last = bisect_left(self.rows, start), bisect_left(self.rows, stop)
        if first == last:
            return None
        ids = slice(self._starts[first], self._starts[last])
        mask_CV = torch.zeros(stop - start, vocabulary, dtype=torch.bool, device=self._id_K.device)
        mask_CV[self._rows[first:last] - start] = True
        mask_CV[self._row_K[ids] - start, self._id_K[ids]] = False
        return mask_CV


@dataclass(slots=True)
class Chosen:
    """What was drawn, and from what. Everything but the hidden states and the head."""

    position_P: Tensor
    """Positions, ascending."""
    token_P: Tensor
    temperature_D: Tensor
    support: Support | None = None
    logits: Logits = Logits()
    chunk: int = CHUNK

    def chunks(self, vocabulary: int) -> Iterator[tuple[slice, slice]]:
        """Positions, and the pairs that are theirs."""
        count = len(self.temperature_D)
        size = max(1, self.chunk // vocabulary)
        starts = torch.arange(0, count + size, size).clamp(max=count)
        edges = torch.searchsorted(self.position_P, starts.to(self.position_P.device)).tolist()
        for n in range(-(-count // size)):
            yield slice(n * size, min((n + 1) * size, count)), slice(edges[n], edges[n + 1])


def action_log_probs(
    hidden_DH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, chosen: Chosen
) -> tuple[Tensor, Tensor]:
    """Log-probability of each chosen token `[P]`, and entropy at each position `[D]`, in nats.

    Float32 at least. A token that could not be drawn has -inf. Gradients reach whichever of the
    first three arguments asks for one; second derivatives do not exist.
    """
    logp_P, entropy_D = _Scored.apply(  # type: ignore[no-untyped-call]
        hidden_DH, weight_VH, bias_V, chosen
    )
    return logp_P, entropy_D


def plain_log_probs(logits_DV: Tensor, chosen: Chosen) -> tuple[Tensor, Tensor]:
    """The same from logits that a model made itself, all held at once."""
    at, u_DV = slice(0, len(logits_DV)), logits_DV.to(_wide(logits_DV.dtype))
    u_DV = u_DV / chosen.temperature_D[:, None].to(u_DV.dtype)
    forbidden = _forbidden(chosen, at, u_DV.shape[1])
    if forbidden is not None:
        u_DV = u_DV.masked_fill(forbidden, _NEVER)
    logp_DV = u_DV.log_softmax(-1)
    logp_P = logp_DV[chosen.position_P, chosen.token_P]
    return _impossible(logp_P), -(logp_DV.exp() * logp_DV).sum(-1)


class _Scored(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_DH: Tensor, weight_VH: Tensor, bias_V: Any, chosen: Chosen) -> Any:
        dtype = _wide(hidden_DH.dtype)
        logp_P = hidden_DH.new_empty(len(chosen.position_P), dtype=dtype)
        total_D = hidden_DH.new_empty(len(hidden_DH), dtype=dtype)
        entropy_D = torch.empty_like(total_D)
        for rows, pairs in chosen.chunks(len(weight_VH)):
            u_CV, _ = _scaled(hidden_DH[rows], weight_VH, bias_V, chosen, rows)
            total_D[rows] = u_CV.logsumexp(-1)
            logp_CV = u_CV.sub_(total_D[rows, None])
            logp_P[pairs] = logp_CV[chosen.position_P[pairs] - rows.start, chosen.token_P[pairs]]
            entropy_D[rows] = -logp_CV.exp().mul_(logp_CV).sum(-1)
        ctx.save_for_backward(hidden_DH, weight_VH, bias_V, total_D, entropy_D)
        ctx.chosen = chosen
        ctx.set_materialize_grads(False)
        return _impossible(logp_P), entropy_D

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        g_P, g_D = gradients
        hidden_DH, weight_VH, bias_V, total_D, entropy_D = ctx.saved_tensors
        chosen: Chosen = ctx.chosen
        to_hidden, to_weight, to_bias, _ = ctx.needs_input_grad
        dtype = total_D.dtype
        g_P = torch.zeros_like(chosen.token_P, dtype=dtype) if g_P is None else g_P
        g_hidden = torch.empty_like(hidden_DH) if to_hidden else None
        g_weight = torch.zeros_like(weight_VH, dtype=dtype) if to_weight else None
        g_bias = torch.zeros_like(bias_V, dtype=dtype) if to_bias else None
        # What the positions' pairs pull at log sum exp u.
        g_total_D = torch.zeros_like(total_D).index_add_(0, chosen.position_P, g_P)
        for rows, pairs in chosen.chunks(len(weight_VH)):
            g_CV, slope = _scaled(hidden_DH[rows], weight_VH, bias_V, chosen, rows, slope=True)
            g_CV.sub_(total_D[rows, None])
            p_CV = g_CV.exp()
            if g_D is None:
                g_CV = p_CV.mul_(g_total_D[rows, None])
            else:
                g_CV.add_(entropy_D[rows, None]).mul_(g_D[rows, None])
                g_CV.add_(g_total_D[rows, None]).mul_(p_CV)
            g_CV.neg_()
            at = (chosen.position_P[pairs] - rows.start, chosen.token_P[pairs])
            g_CV.index_put_(at, g_P[pairs], accumulate=True)
            g_CV.mul_(chosen.logits.scale / chosen.temperature_D[rows, None].to(dtype))
            if slope is not None:
                g_CV.mul_(slope)
            if g_hidden is not None:
                g_hidden[rows] = g_CV.to(weight_VH.dtype) @ weight_VH
            if g_weight is not None:
                _add_product(g_weight, g_CV, hidden_DH[rows])
            if g_bias is not None:
                g_bias += g_CV.sum(0)
        return (
            g_hidden,
            None if g_weight is None else g_weight.to(weight_VH.dtype),
            None if g_bias is None else g_bias.to(bias_V.dtype),
            None,
        )


def _scaled(
    hidden_CH: Tensor,
    weight_VH: Tensor,
    bias_V: Tensor | None,
    chosen: Chosen,
    rows: slice,
    *,
    slope: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """u of a chunk, `[C, V]`, and if asked for the derivative of the cap, where there is one."""
    u_CV = _raw(hidden_CH, weight_VH, bias_V)
    if chosen.logits.scale != 1:
        u_CV *= chosen.logits.scale
    steepness = None
    if (cap := chosen.logits.cap) is not None:
        u_CV.div_(cap).tanh_()
        steepness = 1 - u_CV.square() if slope else None
        u_CV *= cap
    u_CV /= chosen.temperature_D[rows, None].to(u_CV.dtype)
    forbidden = _forbidden(chosen, rows, len(weight_VH))
    return u_CV if forbidden is None else u_CV.masked_fill_(forbidden, _NEVER), steepness


def _forbidden(chosen: Chosen, rows: slice, vocabulary: int) -> Tensor | None:
    if chosen.support is None:
        return None
    return chosen.support.forbidden(rows.start, rows.stop, vocabulary)


def _impossible(logp_P: Tensor) -> Tensor:
    return logp_P.masked_fill(logp_P < _NEVER / 2, -torch.inf)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _raw(hidden_CH: Tensor, weight_VH: Tensor, bias_V: Tensor | None) -> Tensor:
    """The output layer's numbers, added up in float32 at least and rounded to the model's type.

    In bfloat16 that rounding is a few hundredths of a nat. The sampler's logits have it too, so
    that it is part of what was drawn from: without it the first ratio would not be 1.
    """
    raw_CV = torch.nn.functional.linear(hidden_CH, weight_VH, bias_V)
    return raw_CV.to(_wide(raw_CV.dtype))


def _add_product(g_VH: Tensor, g_CV: Tensor, hidden_CH: Tensor) -> None:
    if g_CV.is_cuda and hidden_CH.dtype != g_CV.dtype:
        g_VH += torch.mm(g_CV.t().to(hidden_CH.dtype), hidden_CH, out_dtype=g_VH.dtype)
    else:
        g_VH.addmm_(g_CV.t(), hidden_CH.to(g_VH.dtype))
