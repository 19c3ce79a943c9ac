"""LoRA adapters inside a torch module, where every row of a batch has its own.

Invariant: a forward pass outside `rows` computes what the module computed before, whatever is
loaded, and trains what it trained before. The layers and the loading are peft's, so an adapter says
here what it says there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rolecraft.errors import AdapterError, MissingExtra
from rolecraft.models.torch_extra import torch

_BASE = "__base__"
"""What peft calls the rows of a mixed batch that have no adapter."""

# What peft writes into `adapter_config.json` and cannot serve row by row.
_REFUSED = {
    "use_dora": "DoRA",
    "alora_invocation_tokens": "activated LoRA",
    "modules_to_save": "`modules_to_save`",
    "target_parameters": "`target_parameters`",
    "trainable_token_indices": "`trainable_token_indices`",
    "layer_replication": "`layer_replication`",
}


class LoraLayers:
    """The adapters of one module. `name` is the model's, for errors.

    Nothing is changed in the module before the first `load`. Not for several threads.
    """

    def __init__(self, module: torch.nn.Module, name: str) -> None:
        self._module, self._name = module, name
        self._inside: dict[str, str] = {}
        """Name of each adapter -> the name it has in peft, which forbids dots."""
        self._count = 0
        self._rows: list[str] | None = None
        self._hooks: dict[torch.nn.Module, Any] = {}

    def load(self, name: str, stored: str | Path, called: str | Path | None = None) -> None:
        """Put the adapter in the folder `stored` into the module, or raise `AdapterError`.

        `called` is the folder that errors name, where `stored` is a copy.
        """
        folder = called or stored
        peft = _peft()
        self._count += 1
        inside = f"v{self._count}"
        try:
            config = peft.PeftConfig.from_pretrained(str(stored))
            tensors = peft.utils.load_peft_weights(str(stored), device=str(self._module.device))
        except Exception as error:  # each of the libraries underneath has errors of its own
            raise AdapterError(f"The adapter `{folder}` cannot be read: {error}") from error
        self._check(config, folder)
        config.inference_mode = True
        trained = [(weight, weight.requires_grad) for weight in self._module.parameters()]
        try:
            peft.inject_adapter_in_model(config, self._module, inside)
            done = peft.set_peft_model_state_dict(self._module, tensors, adapter_name=inside)
            missing = [key for key in done.missing_keys if f".{inside}." in key]
            if left := [*done.unexpected_keys, *missing]:
                raise AdapterError(
                    f"The adapter `{folder}` does not fit `{self._name}`: {len(left)} of its "
                    f"tensors have no counterpart, such as {left[0]!r}."
                )
            self._prepare()
        except Exception as error:
            self._drop(inside)
            if isinstance(error, AdapterError):
                raise
            raise AdapterError(
                f"The adapter `{folder}` does not fit `{self._name}`: {error}"
            ) from error
        finally:
            for weight, wanted in trained:  # peft freezes all others
                weight.requires_grad_(wanted)
            # Only this class knows which adapter is meant: no save, no trainer is to guess.
            vars(self._module).pop("peft_config", None)
        self._inside[name] = inside

    def unload(self, name: str) -> None:
        """Take an adapter out; after the last one the module is as it was at first."""
        self._drop(self._inside.pop(name))

    def places(self) -> dict[str, tuple[int, int]] | None:
        """Module -> (rows, columns) of its weight, for those that an adapter can change.

        None for a quantised model, whose weights are stored in other shapes.
        """
        if getattr(getattr(self._module, "config", None), "quantization_config", None):
            return None
        found: dict[str, tuple[int, int]] = {}
        for name, module in self._module.named_modules():
            weight = getattr(module, "weight", None)
            if weight is not None and weight.ndim == 2:
                rows, columns = weight.shape
                turned = type(module).__name__ == "Conv1D"  # GPT-2's, which stores them turned
                found[name] = (columns, rows) if turned else (rows, columns)
        return found

    @property
    def loaded(self) -> list[str]:
        return list(self._inside)

    @contextmanager
    def rows(self, adapters: Sequence[str]) -> Iterator[None]:
        """Within, row n of every forward pass is served by adapter n; '' is the base model."""
        if not any(adapters):
            yield
            return
        self._rows = [self._inside[name] if name else _BASE for name in adapters]
        try:
            yield
        finally:
            self._rows = None

    def base_state(self) -> dict[str, torch.Tensor] | None:
        """The base model's own tensors under their own names; None while nothing is loaded."""
        if not self._inside:
            return None
        return {
            key.replace(".base_layer.", "."): tensor
            for key, tensor in self._module.state_dict().items()
            if ".lora_" not in key
        }

    def _check(self, config: Any, folder: str | Path) -> None:
        if str(getattr(config.peft_type, "value", config.peft_type)) != "LORA":
            raise AdapterError(f"The adapter `{folder}` is no LoRA adapter: {config.peft_type}.")
        for field, called in _REFUSED.items():
            if getattr(config, field, None):
                raise AdapterError(
                    f"The adapter `{folder}` uses {called}, which cannot be served beside other "
                    f"adapters in this process. Train a plain LoRA adapter, or merge it."
                )

    def _layers(self) -> list[tuple[str, Any]]:
        from peft.tuners.lora import LoraLayer

        found = self._module.named_modules()
        return [(name, module) for name, module in found if isinstance(module, LoraLayer)]

    def _prepare(self) -> None:
        for _, layer in self._layers():
            layer.set_adapter([], inference_mode=True)
            for part in (layer.lora_dropout, layer.lora_A, layer.lora_B):
                part.eval()
            if layer not in self._hooks:
                self._hooks[layer] = layer.register_forward_pre_hook(self._say, with_kwargs=True)

    def _say(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._rows is None:
            return None
        rows, count = self._rows, len(args[0])
        if count != len(rows):  # a layer that sees batch and positions as one dimension
            each, rest = divmod(count, len(rows))
            if rest or not each:
                raise AdapterError(
                    f"`{self._name}` mixes the rows of a batch in {type(layer).__name__}, so "
                    f"adapters cannot be told apart there. Serve one adapter, merged."
                )
            rows = [name for name in rows for _ in range(each)]
        return args, {**kwargs, "adapter_names": rows}

    def _drop(self, inside: str) -> None:
        for name, layer in self._layers():
            layer.delete_adapter(inside)
            if not (layer.lora_A or layer.lora_embedding_A):
                if (hook := self._hooks.pop(layer, None)) is not None:
                    hook.remove()
                parent, _, last = name.rpartition(".")
                setattr(self._module.get_submodule(parent), last, layer.base_layer)


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("peft", "local", "An adapter for a model in this process") from error
    return peft
