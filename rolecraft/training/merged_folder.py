"""The folder that a merge writes: the weights as the base stores them, whole or not there.

It is written under another name beside the one that it gets, where whoever sees it can tell that
somebody is at work in it.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from rolecraft.errors import ModelError, UsageError
from rolecraft.models.torch_extra import no_progress_bars, torch
from rolecraft.training.device_memory import gib
from rolecraft.training.model_sizes import BYTES, stored_tensors

Format = Literal["float32", "bfloat16", "float16"]

_WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
_STORED = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def stored_formats(source: str | Path, dtype: Format | None) -> dict[str, str]:
    """Number format of each of the base's tensors, by torch's names; empty if all get `dtype`."""
    if (
        dtype is not None
        or not Path(source).is_dir()
        or not any(Path(source).glob("*.safetensors"))
    ):
        return {}
    return {
        name: _STORED[kind]
        for name, (_, kind) in stored_tensors(Path(source)).items()
        if kind in _STORED
    }


def one_format(formats: dict[str, str]) -> str:
    """The format of all of them; `mixed` if they differ."""
    kinds = set(formats.values())
    return kinds.pop() if len(kinds) == 1 else "mixed"


def base_config(folder: Path) -> dict[str, Any]:
    """What the base's `config.json` says. Raises `ModelError` if it cannot be read."""
    path = folder / "config.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"`{folder}` holds no model that can be merged into: its `config.json` cannot be read "
            f"({error}). Check the path."
        ) from error
    return found


def check_room(out: Path, source: str | Path, dtype: Format | None) -> None:
    """Raise `UsageError` before anything is computed if the disk cannot hold the result."""
    if not Path(source).is_dir():
        return
    sizes = [file.stat().st_size for file in Path(source).glob("*.safetensors")]
    config = base_config(Path(source))
    now = _WIDTH.get(str(config.get("dtype", config.get("torch_dtype"))), 4)
    needed = sum(sizes) * (_WIDTH[dtype] if dtype else now) // now
    parent = out.parent
    while not parent.exists():
        parent = parent.parent
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise UsageError(
            f"The merged model takes {gib(needed)}, and there are {gib(free)} free where `{out}` "
            f"is to be. Make room, or name another folder."
        )


def round_weights(model: Any, formats: dict[str, str], *, default: Format | None) -> None:
    """Round every weight to what it is stored in: as in the base, or all alike."""
    common = default or model.config.dtype or torch.float32
    usual = getattr(torch, common) if isinstance(common, str) else common
    if formats:  # what the base's files do not name has what most of them have
        kinds = list(formats.values())
        usual = getattr(torch, max(set(kinds), key=kinds.count))
    for name, weight in model.named_parameters():
        if weight.is_floating_point():
            known = None if default else formats.get(name)
            weight.data = weight.data.to(getattr(torch, known) if known else usual)
    model.config.dtype = usual


def write_model(
    model: Any, tokenizer: Any, part: Path, source: str | Path, dtype: Format | None
) -> None:
    """Weights in as many files as the base's, tokenizer, and its licence. Raises `OSError`."""
    from safetensors import SafetensorError

    try:
        with no_progress_bars():
            model.save_pretrained(part, max_shard_size=_shard_size(source, dtype))
    except SafetensorError as error:  # how it reports a full disk
        raise OSError(errno.ENOSPC, str(error)) from error
    tokenizer.save_pretrained(part)
    if Path(source).is_dir():
        for name in ("LICENSE*", "NOTICE*"):
            for file in Path(source).glob(name):
                shutil.copyfile(file, part / file.name)


def _shard_size(source: str | Path, dtype: Format | None) -> int:
    """The largest of the base's files, so that there are as many again."""
    files = sorted(Path(source).glob("*.safetensors")) if Path(source).is_dir() else []
    if len(files) == 1:
        return 1 << 60
    if not files:
        return 5 * 10**9
    return max(
        sum(
            math.prod(shape) * (_WIDTH[dtype] if dtype else BYTES.get(kind, 2))
            for shape, kind in stored_tensors(file).values()
        )
        for file in files
    )


def part_of(out: Path) -> str:
    """How the folders begin in which a result is while it is written and compared."""
    return f".{out.name}.part-"


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Whoever sees the folder can tell that somebody is at work in it."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_left_over(out: Path) -> None:
    """Remove what merges that were killed have left of this result: it is as large as the model."""
    for part in out.parent.glob(f"{glob.escape(part_of(out))}*"):
        with suppress(OSError), _held(part):  # nobody is at work in it
            shutil.rmtree(part)


@contextmanager
def made_whole(part: Path, out: Path) -> Iterator[None]:
    """Nothing half made stays behind, and a disk that is full is one clear error."""
    try:
        part.mkdir(parents=True)
        with _held(part):
            yield
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        free = shutil.disk_usage(part.parent).free if part.parent.exists() else 0
        raise ModelError(
            f"The merged model cannot be written to `{out}`: {error.strerror or error} "
            f"({gib(free)} free there). Nothing was left behind. Make room, or name another folder."
        ) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
