"""One LoRA adapter per role, on one base, all of them in the same forward and backward pass.

Invariant: the base's bytes never change, and a role's adapter sees the tokens of its role only.
The model that is trained has a structure of its own over the base's tensors: the sampler's module,
which those belong to, is left as it is, and can have adapters swapped in beside.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.hashing import hash64
from rolecraft.models.torch_extra import torch
from rolecraft.training.policy.adapter_folders import (
    Stored,
    named_tensors,
    new_config,
    read_folder,
    write_folder,
)
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.batches import Segment
from rolecraft.training.policy.lora import RoleLinear, Routes, put_in


class Adapters:
    """The adapters that `settings` ask for, on the causal language model `module`.

    `self.module` is the model to train: it shares the memory of `module`'s weights, and computes
    what the base does outside `segments`. `base` is a further name of the base model; by default
    that in its config counts. Raises `UsageError` for a model or for layers that cannot have
    adapters, `AdapterError` for a folder in `starts` that is not an adapter of this base.
    """

    def __init__(self, module: Any, settings: AdapterSettings, *, base: str = "") -> None:
        if getattr(module, "peft_config", None):
            raise UsageError(
                "The model is wrapped in peft already. Give its base, and the folder of the "
                "adapter as `AdapterSettings(starts={role: folder})`."
            )
        if getattr(module.config, "quantization_config", None):
            raise UsageError(
                "The base is quantised, and adapters per role are trained on plain weights only. "
                "Load it in bfloat16."
            )
        self.settings = settings
        self.module = same_weights(module).eval()
        self._routes = Routes()
        self._base = base or getattr(module.config, "_name_or_path", "") or ""
        linear = linear_layers(self.module)
        shapes = {name: _shape(layer) for name, layer in linear.items()}
        names = [base, getattr(module.config, "_name_or_path", "")]
        stored = {
            role: read_folder(Path(folder), shapes, names)
            for role, folder in settings.starts.items()
        }
        targets = _targets(self.module, linear, settings.targets)
        places = {name: set(targets) for name in settings.roles if name not in stored}
        places |= {role: set(found.matrices) for role, found in stored.items()}
        used = set().union(*places.values())
        self.layers: dict[str, RoleLinear] = put_in(
            self.module, {name: linear[name] for name in linear if name in used}, self._routes
        )
        self._configs: dict[str, dict[str, Any]] = {}
        for role in settings.roles:
            if role in stored:
                self._go_on(role, stored[role])
            else:
                self._begin(role, targets)
            for weight in self.weights(role):
                weight.requires_grad_(role not in settings.frozen)
        for role in settings.kept_near_start:
            self._keep(role, stored[role])

    def segments(self, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        """Within, each segment's tokens go through its role's adapter.

        Raises `UnknownName` for a role that has none. An empty list is the base alone.
        """
        for segment in segments:
            if segment.adapter not in self.settings.roles:
                raise UnknownName("Role with an adapter", segment.adapter, self.settings.roles)
        return self._routes.through(segments)

    def references(self, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        """Within, each segment's tokens go through its role's reference: base or first adapter."""
        kept = self.settings.kept_near_start
        if not any(segment.adapter in kept for segment in segments):
            return self._routes.through(())
        return self._routes.through(
            [segment._replace(adapter=_first(segment.adapter)) for segment in segments]
        )

    def weights(self, role: str) -> list[torch.nn.Parameter]:
        """The role's matrices, in an order that never changes."""
        return [half for pair in self._pairs(role).values() for half in pair]

    def parameters(self) -> list[torch.nn.Parameter]:
        """The matrices of all adapters."""
        return [
            half
            for layer in self.layers.values()
            for pair in layer.pairs.values()
            for half in (pair.A_RI, pair.B_OR)
        ]

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write every role's adapter to a folder of its name, as peft does. Raises `OSError`."""
        paths = {role: Path(folder) / role for role in self.settings.roles}
        for role, path in paths.items():
            write_folder(path, self._configs[role], self.tensors(role))
        return paths

    def tensors(self, role: str) -> dict[str, torch.Tensor]:
        """The role's matrices under peft's names, as `save` writes them now.

        `digest_of(adapters.tensors(role))` is the digest of what a sampler should then serve.
        """
        return named_tensors(self._pairs(role))

    def _pairs(self, role: str) -> dict[str, tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        found = {name: layer.pairs.get(role) for name, layer in self.layers.items()}
        return {name: (pair.A_RI, pair.B_OR) for name, pair in found.items() if pair is not None}

    def _begin(self, role: str, targets: Sequence[str]) -> None:
        settings = self.settings
        for name in targets:
            layer = self.layers[name]
            rows, columns = layer.shape
            # From names alone: a role's first weights do not depend on who else has an adapter.
            random = torch.Generator().manual_seed(hash64(settings.seed, role, name) >> 1)
            A_RI = torch.empty(settings.rank, columns)
            if settings.init == "gaussian":
                torch.nn.init.normal_(A_RI, std=1 / settings.rank, generator=random)
            else:
                torch.nn.init.kaiming_uniform_(A_RI, a=math.sqrt(5), generator=random)
            B_OR = torch.zeros(rows, settings.rank)
            layer.add(role, A_RI, B_OR, settings.alpha / settings.rank)
        self._configs[role] = new_config(
            rank=settings.rank,
            alpha=settings.alpha,
            targets=_short(targets, self.module),
            base=self._base,
            turned=any(self.layers[name].turned for name in targets),
        )

    def _go_on(self, role: str, stored: Stored) -> None:
        for name, (A_RI, B_OR) in stored.matrices.items():
            self.layers[name].add(role, A_RI, B_OR, stored.scaling(name))
        self._configs[role] = stored.config

    def _keep(self, role: str, stored: Stored) -> None:
        """The adapter that the role begins with, once more, to stay as it is."""
        for name, matrices in stored.matrices.items():
            A_RI, B_OR = (half.clone() for half in matrices)  # what is trained may be those
            self.layers[name].add(_first(role), A_RI, B_OR, stored.scaling(name))
            for half in (pair := self.layers[name].pairs[_first(role)]).A_RI, pair.B_OR:
                half.requires_grad_(False)


def _first(role: str) -> str:
    """Under which name the layers have what a role began with: of no role, as it has a slash."""
    return f"{role}/start"


def same_weights(module: Any) -> Any:
    """The model once more, over the same tensors in memory, none of which asks for a gradient.

    Adapters that a sampler has put into `module` are left out.
    """
    memo: dict[int, Any] = {id(buffer): buffer for buffer in module.buffers()}
    for weight in module.parameters():
        memo[id(weight)] = torch.nn.Parameter(weight.detach(), requires_grad=False)
    clone = copy.deepcopy(module, memo)
    for name, layer in list(clone.named_modules()):
        if hasattr(layer, "base_layer") and hasattr(layer, "lora_A"):
            parent, _, last = name.rpartition(".")
            setattr(clone.get_submodule(parent), last, layer.base_layer)
    return clone


def linear_layers(module: Any) -> dict[str, Any]:
    """Name -> layer, for the linear layers that can have adapters: all but the output layer."""
    head = module.get_output_embeddings()
    return {
        name: layer
        for name, layer in module.named_modules()
        if layer is not head
        and (type(layer) is torch.nn.Linear or type(layer).__name__ == "Conv1D")
    }


def _shape(layer: Any) -> tuple[int, int]:
    rows, columns = layer.weight.shape
    return (columns, rows) if type(layer).__name__ == "Conv1D" else (rows, columns)


def _targets(module: Any, linear: Mapping[str, Any], wanted: Sequence[str] | str) -> list[str]:
    if isinstance(wanted, str):
        return list(linear)
    found: list[str] = []
    for target in wanted:
        names = [name for name in linear if name == target or name.endswith(f".{target}")]
        if not names:
            raise UsageError(_no_target(module, linear, target))
        found += names
    return [name for name in linear if name in found]


def _no_target(module: Any, linear: Mapping[str, Any], target: str) -> str:
    layers = dict(module.named_modules())
    head, embeddings = module.get_output_embeddings(), module.get_input_embeddings()
    named = [layer for name, layer in layers.items() if name.rpartition(".")[2] == target]
    why = "the base model has no linear layer of that name"
    if any(layer is head for layer in named):
        why = "it is the output layer, whose weights are applied to action tokens only"
        if head.weight is embeddings.weight:
            why += ", and which are those of the embeddings too"
    elif any(layer is embeddings for layer in named):
        why = "it is the embeddings, and no linear layer"
    kinds = sorted({name.rpartition(".")[2] for name in linear})
    return (
        f"`AdapterSettings(targets=...)`: {target!r} cannot have an adapter: {why}. These can: "
        f"{', '.join(f'`{kind}`' for kind in kinds)}."
    )


def _short(targets: Sequence[str], module: Any) -> list[str]:
    """The last parts of the layers' names, where peft would find the same layers by them."""
    kinds = sorted({name.rpartition(".")[2] for name in targets})
    found = [name for name, _ in module.named_modules() if name.rpartition(".")[2] in kinds]
    return kinds if set(found) == set(targets) else list(targets)
