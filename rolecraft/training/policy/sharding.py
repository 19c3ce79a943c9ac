"""A model's weights in shards, one to each process: torch's `fully_shard` (FSDP2).

Invariant: a forward pass has the weights that it would have in one process, layer by layer, and
gradients are added over the processes, never averaged. What is saved of shards is whole tensors,
the same as without.

Every pass over a sharded model is one that all processes take part in: one that leaves a pass out
lets the others wait for ever.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.attention import takes_blocks

Shard: TypeAlias = bool | Literal["auto"]
"""Whether weights are sharded: True wants several processes, "auto" does so where there are any."""


def wanted(shard: Shard, processes: int) -> bool:
    """Whether so many processes shard. Raises `UsageError` for True where there is one only."""
    if shard not in (True, False, "auto"):
        raise UsageError(f"`Trainer(shard=...)` is True, False or 'auto', got {shard!r}.")
    if shard is True and processes == 1:
        raise UsageError(
            "`Trainer(shard=True)` divides the weights among processes, and this one is alone. "
            "Start several (`torchrun --nproc-per-node 2 ...`) and have torch make a group of them "
            "(`torch.distributed.init_process_group`), or say `shard='auto'`."
        )
    return shard is not False and processes > 1


def without_weights(module: Any) -> Any:
    """A copy that has no weights yet and asks for no gradient: `shard_weights` fills it."""
    memo: dict[int, Any] = {}
    for weight in module.parameters():
        empty = torch.empty_like(weight, device="meta")
        memo[id(weight)] = torch.nn.Parameter(empty, requires_grad=False)
    return copy.deepcopy(module, memo)


def shard_weights(
    module: Any, *, whole: Iterable[torch.nn.Parameter] = (), copied: Any = None
) -> None:
    """Leave in each process its share of `module`'s weights, but for those in `whole`.

    Where `module` is what `without_weights` made of `copied`, whose own are whole, each part gets
    its weights when it is reached: no process has more than a part of them twice.

    Each layer (what transformers says is never split) is put together when it is reached, and
    taken apart behind it; what is left, embeddings and output layer, for the length of a pass.
    Reduced in float32 at least. All processes of the default group call this alike.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    device = module.device if copied is None else copied.device
    if copied is None:
        takes_blocks(module, 1)  # now: later on, not every process would try at the same time
    if device.index is not None:  # shards are where the process computes
        torch.get_device_module(device).set_device(device)
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    weights = {} if copied is None else dict(_pairs(module, copied))
    kept = set(whole)
    precision = MixedPrecisionPolicy(
        reduce_dtype=torch.promote_types(module.dtype, torch.float32), cast_forward_inputs=False
    )
    kinds = getattr(module, "_no_split_modules", None) or ()
    for part in [*_layers(module, kinds), module]:
        _fill(part, weights)
        sharded = fully_shard(
            part,
            mesh=mesh,
            mp_policy=precision,
            ignored_params=kept,
            # The output layer's weight is used after the pass through the module.
            reshard_after_forward=part is not module,
        )
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # gloo knows no other reduction
    if copied is not None:
        takes_blocks(module, 1)  # only now has it weights to try with


def _pairs(module: Any, copied: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each empty weight of a copy, and what it is a copy of."""
    return zip(module.parameters(), copied.parameters(), strict=True)


def _fill(part: Any, weights: Mapping[torch.Tensor, torch.Tensor]) -> None:
    """Give a part of a copy its weights; those that are one stay one."""
    made: dict[torch.Tensor, torch.nn.Parameter] = {}
    for layer in part.modules():
        for name, empty in layer.named_parameters(recurse=False):
            if empty not in weights:
                continue
            if empty not in made:
                weight = weights[empty].detach().clone()
                made[empty] = torch.nn.Parameter(weight, requires_grad=False)
            setattr(layer, name, made[empty])


def _layers(module: Any, kinds: Collection[str]) -> Iterator[Any]:
    """The parts of these kinds, but for those within another one."""
    for part in module.children():
        if type(part).__name__ in kinds:
            yield part
        else:
            yield from _layers(part, kinds)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether this process has a part of it only."""
    return hasattr(tensor, "full_tensor")  # torch's DTensor, without importing it where none is


def put_away(module: Any) -> None:
    """Behind passes: keep nothing whole that takes room, and would be old after a step."""
    if hasattr(module, "set_gradient_divide_factor"):
        module.reshard()


def whole(tensor: Any) -> Any:
    """All of it, in every process that asks at once; anything else than a shard as it is."""
    if isinstance(tensor, torch.Tensor) and is_sharded(tensor):
        return tensor.full_tensor()  # type: ignore[attr-defined]
    return tensor


def whole_state(state: dict[str, Any]) -> dict[str, Any]:
    """An optimiser's state without shards."""
    each = {
        number: {name: whole(value) for name, value in its.items()}
        for number, its in state["state"].items()
    }
    return {**state, "state": each}


def part_of(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This process's share of a whole tensor, as `like` is divided; all where it is not."""
    if not is_sharded(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = like.device_mesh, like.placements  # type: ignore[attr-defined]
    moved = tensor.to(like.device)
    # Everybody has it all: nothing is sent.
    return distribute_tensor(moved, mesh, placements, src_data_rank=None)


def sharded_state(state: dict[str, Any], weights: Sequence[torch.Tensor]) -> dict[str, Any]:
    """What `whole_state` gave, divided as the weights are that it belongs to."""
    each = {
        number: {
            name: part_of(value, weights[number])
            if getattr(value, "shape", None) == weights[number].shape
            else value
            for name, value in its.items()
        }
        for number, its in state["state"].items()
    }
    return {**state, "state": each}
