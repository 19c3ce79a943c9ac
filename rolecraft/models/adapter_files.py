"""A LoRA adapter on disk, as peft saves it: read, checked and fingerprinted before it is served.

Invariant: what passes these checks has the rank, the modules and the shapes that the base model
has room for. Only headers of the base's files are read; the adapter's tensors are read once.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import AdapterError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

Shape = tuple[int, ...]

_PEFT = "base_model.model."
_DAMAGED = "Save or copy the adapter again"

# The longest header that is believed: a wrong length must not ask for gigabytes of memory.
_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """What `adapter_config.json` says of what is checked here."""

    base: str
    """The base model that it says it was trained on; empty if it says none."""
    rank: int
    """The largest rank that it allows any module."""


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """What the two files of an adapter say."""

    base: str
    """The base model that it says it was trained on; empty if it says none."""
    rank: int
    """The largest rank of its matrices."""
    shapes: Mapping[str, Shape]
    """Module of the base model -> shape of the weight that the adapter's product is added to."""
    digest: str
    """SHA-256 over names, types, shapes and bytes of the tensors."""


def read_adapter(folder: Path, called: Path | None = None) -> AdapterFiles:
    """Read an adapter. Raises `AdapterError` if it is missing, damaged or no LoRA adapter.

    `called` is the folder that errors name, where `folder` is a copy.
    """
    stored, folder = folder, called or folder
    config = _config(stored, folder)
    path = folder / WEIGHTS
    if not (stored / WEIGHTS).is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        raise AdapterError(
            f"The adapter `{folder}` has no `{WEIGHTS}`"
            + (
                "; `adapter_model.bin` is a pickle, which could run any code, and is not read. "
                "Save it with peft's `save_pretrained(..., safe_serialization=True)`."
                if pickled
                else f". {_DAMAGED}."
            )
        )
    try:
        data = (stored / WEIGHTS).read_bytes()
        header, start = _header(data)
    except (OSError, ValueError) as error:
        raise AdapterError(f"`{path}` cannot be read: {error}. {_DAMAGED}.") from error
    rank, shapes = _products(header, folder)
    if rank > config.rank:
        raise AdapterError(
            f"The adapter `{folder}` has matrices of rank {rank}, and its `{CONFIG}` says "
            f"{config.rank}: the two files do not belong together. {_DAMAGED}."
        )
    return AdapterFiles(
        base=config.base,
        rank=rank,
        shapes=shapes,
        digest=_digest(header, memoryview(data)[start:]),
    )


def check_config(folder: str | Path) -> None:
    """Raise `AdapterError` if there is no LoRA adapter in `folder`, by its settings alone."""
    _config(Path(folder), Path(folder))


def check_fits(folder: Path, shapes: Mapping[str, Shape], base: Mapping[str, Shape]) -> None:
    """Raise `AdapterError` if the base model has no place for one of the adapter's matrices."""
    places: dict[str, set[Shape]] = {}
    for name, shape in base.items():
        places.setdefault(_place(name), set()).add(shape)
    # A head that shares the weights of the embeddings is not stored.
    places.setdefault("lm_head", places.get("embed_tokens", set()))
    kinds = {name.rpartition(".")[2] for name in (*base, "lm_head")}
    for module, shape in shapes.items():
        kind = module.rpartition(".")[2]
        if kind not in kinds:
            raise AdapterError(
                f"The adapter `{folder}` changes modules named {kind!r}, and the base model has "
                f"none. It was trained on another kind of model: use that one, or train it anew."
            )
        found = places.get(_place(module), set())
        if not found and "experts" in module:
            continue  # experts are stored fused by some models and one by one by others
        if shape not in found:
            has = f"{list(min(found))} there" if found else "no such module"
            raise AdapterError(
                f"The adapter `{folder}` is of another base model: its {module!r} is "
                f"{list(shape)}, the base model has {has}. Use the model it was trained on."
            )


def base_shapes(folder: Path) -> dict[str, Shape] | None:
    """Module -> shape of its weight, from the headers of a base model's files.

    None where they say nothing: no safetensors files, or quantised weights, which are stored in
    other shapes.
    """
    files = sorted(folder.glob("*.safetensors"))
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        if not files or config.get("quantization_config"):
            return None
        shapes: dict[str, Shape] = {}
        for path in files:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header, _ = _header(struct.pack("<Q", length) + file.read(length), whole=False)
            for name, about in header.items():
                if name.endswith(".weight"):
                    shapes[name.removesuffix(".weight")] = tuple(about["shape"])
    except (OSError, ValueError, struct.error, MemoryError):
        return None  # whatever is wrong with the base, loading it says so better
    return shapes


def digest_of(tensors: Mapping[str, Any]) -> str:
    """The digest of tensors in memory (torch), as `read_adapter` would find it once saved.

    For an adapter of peft: `digest_of(get_peft_model_state_dict(model))`.
    """
    from safetensors.torch import save

    data = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    header, start = _header(data)
    return _digest(header, memoryview(data)[start:])


def _config(stored: Path, folder: Path) -> AdapterConfig:
    path = folder / CONFIG
    if not (stored / CONFIG).is_file():
        raise AdapterError(
            f"There is no adapter in `{folder}`: it has no `{CONFIG}`. Check the path; peft's "
            f"`save_pretrained` writes such a folder."
        )
    try:
        config = json.loads((stored / CONFIG).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterError(f"`{path}` cannot be read: {error}. {_DAMAGED}.") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else None
        raise AdapterError(
            f"The adapter `{folder}` is of type {kind!r}; only 'LORA' can be swapped while it "
            f"serves. Train one with peft's `LoraConfig`."
        )

    def wrong(field: str, wants: str) -> AdapterError:
        return AdapterError(
            f"`{path}`: `{field}` is {_short(config[field])}, and it wants {wants}. {_DAMAGED}."
        )

    rank = config.get("r")
    if rank is not None and not _is_rank(rank):
        raise wrong("r", "a whole number from 1")
    pattern = config.get("rank_pattern")
    if pattern is None:
        pattern = {}
    if not (isinstance(pattern, dict) and all(map(_is_rank, pattern.values()))):
        raise wrong("rank_pattern", "an object of whole numbers from 1")
    base = config.get("base_model_name_or_path")
    if not (base is None or (isinstance(base, str) and "\0" not in base)):
        raise wrong("base_model_name_or_path", "a text")
    return AdapterConfig(base=base or "", rank=max([rank or 0, *pattern.values()]))


def _is_rank(value: object) -> bool:
    return type(value) is int and value >= 1


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _header(data: bytes, *, whole: bool = True) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and where its tensors begin. Raises `ValueError`.

    https://github.com/huggingface/safetensors#format: eight bytes of length, then JSON, then the
    tensors. `whole` also checks that all of them are there.
    """
    if len(data) < 8:
        raise ValueError("it is cut off before its header")
    length = int.from_bytes(data[:8], "little")
    if not (length <= _LONGEST_HEADER and 8 + length <= len(data)):
        raise ValueError("it is cut off within its header")
    header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    header.pop("__metadata__", None)
    end = 0
    for name, about in header.items():
        try:
            first, last = about["data_offsets"]
            known = isinstance(about["dtype"], str) and all(
                type(size) is int and size >= 0 for size in (first, last, *about["shape"])
            )
        except (TypeError, KeyError, ValueError):
            known = False
        if not known or not 0 <= first <= last:
            raise ValueError(f"its header says nothing sensible of {name!r}")
        end = max(end, last)
    if whole and len(data) != 8 + length + end:
        raise ValueError(
            f"its tensors should take {end} bytes and there are {len(data) - 8 - length}"
        )
    return header, 8 + length


def _digest(header: Mapping[str, Any], tensors: memoryview) -> str:
    sha = hashlib.sha256()
    for name in sorted(header):
        about = header[name]
        sha.update(json.dumps([name, about["dtype"], about["shape"]]).encode())
        sha.update(tensors[slice(*about["data_offsets"])])
    return sha.hexdigest()


def _products(header: Mapping[str, Any], folder: Path) -> tuple[int, dict[str, Shape]]:
    """The largest rank, and the shape of B times A for every module."""
    halves: dict[str, dict[str, Shape]] = {}
    for name, about in header.items():
        for half in ("lora_A", "lora_B"):
            module, found, _ = name.partition(f".{half}.")
            if found:
                halves.setdefault(module.removeprefix(_PEFT), {})[half] = tuple(about["shape"])
    if not halves:
        raise AdapterError(f"`{folder / WEIGHTS}` has no LoRA matrices. {_DAMAGED}.")
    rank = 0
    shapes: dict[str, Shape] = {}
    for module, pair in halves.items():
        a, b = pair.get("lora_A", ()), pair.get("lora_B", ())
        if not (len(a) == len(b) == 2 and a[0] == b[1]):
            raise AdapterError(
                f"`{folder / WEIGHTS}`: the matrices of {module!r} are {list(a)} and {list(b)}, "
                f"which is no pair of rank x width and width x rank. {_DAMAGED}."
            )
        rank = max(rank, a[0])
        shapes[module] = (b[0], a[1])
    return rank, shapes


def _place(module: str) -> str:
    """Where in the model a module stands, whatever the names of the wrappers around the layers."""
    _, found, rest = module.partition("layers.")
    return rest if found else module.rpartition(".")[2]
