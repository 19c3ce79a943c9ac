"""A linear layer of a frozen base with one LoRA adapter per role, in one pass for all roles.

peft keeps adapters of one batch apart only where nothing is trained, so this layer is ours. What
it computes is peft's: y = x W^T + b, and for the tokens of a role, `scaling` (x A^T) B^T on top
(Hu et al. 2021, arXiv 2106.09685, section 4.1).

Shapes: T tokens of the pass, laid end to end; I numbers in and O out of the layer; R the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.batches import Segment

Tensor = torch.Tensor


class Pair(NamedTuple):
    """One role's adapter in one layer."""

    A_RI: torch.nn.Parameter
    B_OR: torch.nn.Parameter
    scaling: float
    """Of their product: alpha / rank, or alpha / sqrt(rank) with `use_rslora`."""


@dataclass(slots=True)
class Routes:
    """Which tokens of the pass under way belong to whose adapter. Shared by a model's layers."""

    segments: Sequence[Segment] = ()
    """All tokens of the pass, each in one segment; none at all: the base alone."""

    @contextmanager
    def through(self, segments: Sequence[Segment]) -> Iterator[None]:
        """Within, forward passes are routed so; so are layers that a backward pass runs again."""
        before, self.segments = self.segments, segments
        try:
            yield
        finally:
            self.segments = before


class RoleLinear(torch.nn.Module):
    """Takes the place of a linear layer: the same weights, and every role's adapter beside them.

    `turned`: the weight is stored as [I, O], as `Conv1D` of transformers has it. The weights are
    those of `layer` itself, in the same memory, and get no gradient.
    """

    def __init__(self, layer: Any, routes: Routes, *, name: str, turned: bool = False) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.routes, self.name, self.turned = routes, name, turned
        self.pairs: dict[str, Pair] = {}
        """The adapter of each role that has one here."""
        # So that torch knows of them; its names of parameters take no dots, and roles may.
        self._lora_A = torch.nn.ParameterList()
        self._lora_B = torch.nn.ParameterList()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers out and in."""
        rows, columns = self.weight.shape
        return (columns, rows) if self.turned else (rows, columns)

    def add(self, role: str, A_RI: Tensor, B_OR: Tensor, scaling: float) -> None:
        """Put in a role's adapter; trained in float32 at least, whatever the base is stored in."""
        dtype = torch.promote_types(self.weight.dtype, torch.float32)
        A, B = (torch.nn.Parameter(half.to(self.weight.device, dtype)) for half in (A_RI, B_OR))
        self._lora_A.append(A)
        self._lora_B.append(B)
        self.pairs[role] = Pair(A, B, scaling)

    def forward(self, x: Tensor) -> Tensor:
        parts: list[tuple[int, int, float]] = []
        matrices: list[Tensor] = []
        for segment in self.routes.segments:
            pair = self.pairs.get(segment.adapter)
            if pair is not None:
                parts.append((segment.start, segment.stop, pair.scaling))
                matrices += (pair.A_RI, pair.B_OR)
        weight = self.weight.t() if self.turned else self.weight
        if not parts:
            return torch.nn.functional.linear(x, weight, self.bias)
        flat = x.reshape(-1, x.shape[-1])
        if len(flat) != self.routes.segments[-1].stop:
            raise UsageError(
                f"`{self.name}` was given {len(flat)} tokens of a pass of "
                f"{self.routes.segments[-1].stop}: the model mixes or drops tokens there, so that "
                f"roles cannot be told apart. Leave it out of `AdapterSettings(targets=...)`."
            )
        y: Tensor = _Grouped.apply(  # type: ignore[no-untyped-call]
            flat, weight, self.bias, tuple(parts), *matrices
        )
        return y.view(*x.shape[:-1], y.shape[-1])

    def extra_repr(self) -> str:
        rows, columns = self.shape
        return f"in={columns}, out={rows}, roles={list(self.pairs)}"


class _Grouped(torch.autograd.Function):
    """x W^T + b, and in the rows of each part `scaling` (x A^T) B^T added in place.

    Written out because autograd would make every part's product, their concatenation and the sum:
    five times the memory traffic of a layer's output. The half-way product x A^T is computed again
    in the backward pass instead of being kept. Matrices are multiplied in the type of `x`;
    gradients are in the adapters' own.
    """

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor, weight_OI: Tensor, bias: Any, parts: Any, *AB: Any) -> Any:
        y_TO = torch.nn.functional.linear(x_TI, weight_OI, bias)
        for (start, stop, scaling), A, B in zip(parts, AB[::2], AB[1::2], strict=True):
            half_TR = x_TI[start:stop] @ A.to(x_TI.dtype).t()
            y_TO[start:stop].addmm_(half_TR, B.to(x_TI.dtype).t(), alpha=scaling)
        ctx.save_for_backward(x_TI, weight_OI, *AB)
        ctx.parts = parts
        return y_TO

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (g_TO,) = gradients
        x_TI, weight_OI, *AB = ctx.saved_tensors
        to_x, to_AB = ctx.needs_input_grad[0], ctx.needs_input_grad[4:]
        g_x = g_TO @ weight_OI if to_x else None
        found: list[Tensor | None] = []
        for n, ((start, stop, scaling), A, B) in enumerate(
            zip(ctx.parts, AB[::2], AB[1::2], strict=True)
        ):
            x, g = x_TI[start:stop], g_TO[start:stop]
            A_, B_ = A.to(x.dtype), B.to(x.dtype)
            g_half_TR = (g @ B_).mul_(scaling)
            found.append((g_half_TR.t() @ x).to(A.dtype) if to_AB[2 * n] else None)
            half_TR = (x @ A_.t()).mul_(scaling) if to_AB[2 * n + 1] else None
            found.append(None if half_TR is None else (g.t() @ half_TR).to(B.dtype))
            if g_x is not None:
                g_x[start:stop].addmm_(g_half_TR, A_)
        return g_x, None, None, None, *found


def put_in(module: Any, places: Mapping[str, Any], routes: Routes) -> dict[str, RoleLinear]:
    """Put a `RoleLinear` in the place of each of `places` (name in `module` -> layer)."""
    layers: dict[str, RoleLinear] = {}
    for name, layer in places.items():
        turned = type(layer).__name__ == "Conv1D"
        layers[name] = RoleLinear(layer, routes, name=name, turned=turned)
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, layers[name])
    return layers
