"""Adapters as folders that peft reads: what training goes on from, and what it leaves."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import AdapterError
from rolecraft.models._base_names import compare_bases
from rolecraft.models.adapter_files import CONFIG, WEIGHTS, Shape, check_fits, read_adapter
from rolecraft.models.torch_extra import torch
from rolecraft.trajectories.whole_file import write_whole

_PREFIX = "base_model.model."

# Settings of peft's that mean another computation than x A^T B^T on top of a linear layer.
_OTHERS = {
    "use_dora": "DoRA",
    "lora_bias": "a bias in its own matrices",
    "modules_to_save": "`modules_to_save`",
    "alora_invocation_tokens": "activated LoRA",
    "target_parameters": "`target_parameters`",
    "trainable_token_indices": "`trainable_token_indices`",
    "layer_replication": "`layer_replication`",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """An adapter read from a folder."""

    config: dict[str, Any]
    matrices: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    """Layer -> A `[rank, in]` and B `[out, rank]`."""

    def scaling(self, layer: str) -> float:
        """What the product of this layer's matrices is multiplied by, as peft has it."""
        rank = self.matrices[layer][0].shape[0]
        alpha = self.config.get("lora_alpha", 8)  # peft's default
        for pattern, its_alpha in (self.config.get("alpha_pattern") or {}).items():
            if re.match(rf"(.*\.)?({pattern})$", layer):
                alpha = its_alpha
                break
        return float(alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank))


def read_folder(folder: Path, base: Mapping[str, Shape], names: list[str]) -> Stored:
    """The adapter in `folder`, checked against a base: its layers' shapes, and its names if known.

    Raises `AdapterError` if it is missing, damaged, of another base, or of a kind that roles of
    one pass cannot have beside each other.
    """
    from safetensors.torch import load_file

    files = read_adapter(folder)
    named = [name for name in names if name]
    if files.base and named and compare_bases(files.base, named) == "another":
        raise AdapterError(
            f"The adapter `{folder}` was trained on {files.base!r}, and the model is {named[0]!r}. "
            f"Load its own base, or start the role anew."
        )
    check_fits(folder, files.shapes, base)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    for key, called in _OTHERS.items():
        if config.get(key):
            raise AdapterError(
                f"The adapter `{folder}` uses {called}, which cannot be trained beside other "
                f"roles' adapters. Start from a plain LoRA adapter, or merge this one into the "
                f"base (`rolecraft merge`)."
            )
    halves: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(folder / WEIGHTS).items():
        layer, _, half = name.removeprefix(_PREFIX).rpartition(".lora_")
        if half not in ("A.weight", "B.weight") or layer not in base:
            raise AdapterError(
                f"The adapter `{folder}` has a tensor {name!r}, and the base model no linear layer "
                f"for it that can be trained. Was it trained with other `targets`?"
            )
        halves.setdefault(layer, {})[half] = tensor
    return Stored(config, {n: (half["A.weight"], half["B.weight"]) for n, half in halves.items()})


def new_config(
    *, rank: int, alpha: float, targets: list[str], base: str, turned: bool
) -> dict[str, Any]:
    """What `adapter_config.json` says of an adapter that began here."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base or None,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": targets,
        "bias": "none",
        "fan_in_fan_out": turned,
    }


def named_tensors(
    matrices: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
) -> dict[str, torch.Tensor]:
    """Under the names that peft gives them in a file, on the CPU."""
    return {
        f"{_PREFIX}{layer}.lora_{half}.weight": tensor.detach().cpu().contiguous()
        for layer, pair in matrices.items()
        for half, tensor in zip("AB", pair, strict=True)
    }


def write_folder(folder: Path, config: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Write an adapter; each of its two files whole or not at all. Raises `OSError`."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, save(tensors, {"format": "pt"}))
    said = {**config, "lora_dropout": 0.0, "inference_mode": True}
    write_whole(folder / CONFIG, json.dumps(said, indent=2, sort_keys=True) + "\n")
