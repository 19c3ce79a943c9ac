"""The checkpoints of a run: each whole, or not there.

Invariant: a folder `checkpoint-N` whose manifest agrees with its files is one that a run can go on
from. It is written under another name and renamed when every byte is on the disk, so that a process
that is killed leaves at most a folder that no run takes for a checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import RolecraftError

FOLDER, MANIFEST = "checkpoints", "manifest.json"

_WHOLE = re.compile(r"checkpoint-(\d+)")
_WRITING = ".writing-"

Warn = Callable[[str], None]


class CheckpointError(RolecraftError):
    """A checkpoint or the result could not be written. The last good checkpoint is as it was.

    Attributes: `folder`, `written` (bytes that found room and are removed again), `free` (bytes
    that the disk has left then).
    """

    def __init__(self, folder: Path, name: str, reason: str, *, written: int = 0) -> None:
        self.folder, self.written = folder, written
        self.free = shutil.disk_usage(_existing(folder)).free
        half = f" {written:,} bytes of it were written and are removed;" if written else ""
        super().__init__(
            f"{name} could not be written to `{folder}`: {reason}.{half} {self.free:,} bytes are "
            f"free there now."
        )


@contextlib.contextmanager
def disk_errors(folder: Path, name: str) -> Iterator[None]:
    """Turns what the disk does not take into a `CheckpointError`."""
    try:
        yield
    except Exception as error:
        if reason := disk_error(error):
            raise CheckpointError(folder, name, reason) from error
        raise


@dataclass(frozen=True, slots=True)
class Checkpoint:
    step: int
    path: Path


class Checkpoints:
    """The folder `checkpoints` of a run. `warn` is told what is skipped and removed."""

    def __init__(self, run: Path, warn: Warn = lambda text: None) -> None:
        self.folder = run / FOLDER
        self._warn = warn

    def path(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step}"

    def staging(self, step: int) -> Path:
        """Where the checkpoint of `step` is while it is written."""
        return self.folder / f"{_WRITING}checkpoint-{step}"

    def is_good(self, step: int) -> bool:
        return not damage(self.path(step))

    def last_good(self, most: int | None = None) -> Checkpoint | None:
        """The latest checkpoint that is whole; later ones that are not are named in warnings."""
        for found in reversed(self.all()):
            if most is not None and found.step > most:
                continue
            if not (problem := damage(found.path)):
                return found
            self._warn(f"`{found.path}` is skipped: {problem}.")
        return None

    def all(self) -> list[Checkpoint]:
        """Those that were renamed, whole or not, by step."""
        if not self.folder.is_dir():
            return []
        matches = [(path, _WHOLE.fullmatch(path.name)) for path in self.folder.iterdir()]
        found = [Checkpoint(int(m[1]), path) for path, m in matches if m and path.is_dir()]
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def clean(self) -> None:
        """Remove what a killed process was writing, and name it."""
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(_WRITING):
                name = path.name.removeprefix(_WRITING)
                self._warn(f"`{name}` was half written when the run ended, and is removed.")
                shutil.rmtree(path)

    @contextlib.contextmanager
    def write(self, step: int) -> Iterator[Path]:
        """A folder to write the checkpoint of `step` into; it counts once the block has ended.

        Raises `CheckpointError` if it cannot be written; nothing is left of it then.
        """
        try:
            yield self.begin(step)
            self.finish(step)
        except BaseException as error:
            written = self.discard(step)
            if reason := disk_error(error):
                raise self.error(step, reason, written=written) from error
            raise

    def begin(self, step: int) -> Path:
        """An empty folder to write the checkpoint of `step` into. `write` is the safe way."""
        staging = self.staging(step)
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        return staging

    def finish(self, step: int) -> None:
        """From here on the checkpoint of `step` counts."""
        staging, target = self.staging(step), self.path(step)
        _seal(staging)
        if target.exists():  # a damaged one that was skipped on resuming, or the same again
            shutil.rmtree(target)
        staging.rename(target)
        _sync(self.folder)

    def discard(self, step: int) -> int:
        """Remove what was begun; returns how many bytes it had."""
        staging = self.staging(step)
        written = _size(staging)
        shutil.rmtree(staging, ignore_errors=True)
        return written

    def error(self, step: int, reason: str, *, written: int = 0) -> CheckpointError:
        """That the checkpoint of `step` could not be written."""
        name = f"`{self.path(step).name}`"
        return CheckpointError(self.folder, name, reason, written=written)

    def prune(self, keep: int, *, at: int, best: int | None = None) -> None:
        """Remove the oldest until `keep` are left, the one of step `best` not counted.

        Nor are those after step `at`, where the run is: it went on before them, since they are
        damaged, and they must not outlast those that it can go on from.
        """
        others = [found for found in self.all() if found.step != best and found.step <= at]
        for checkpoint in others[:-keep]:
            # Renamed first, so that a kill half way through leaves no checkpoint with holes.
            staging = self.staging(checkpoint.step)
            checkpoint.path.rename(staging)
            shutil.rmtree(staging)


def damage(checkpoint: Path) -> str:
    """What is wrong with the files of a checkpoint; empty if they are as they were written."""
    try:
        manifest: dict[str, Any] = json.loads((checkpoint / MANIFEST).read_text("utf-8"))
        files = {str(name): (int(a["bytes"]), str(a["sha256"])) for name, a in manifest.items()}
    except FileNotFoundError:
        return f"it has no `{MANIFEST}`, so it was not written to its end"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return f"its `{MANIFEST}` cannot be read"
    for name, (size, digest) in files.items():
        path = checkpoint / name
        try:
            found = path.stat().st_size
            if found != size:
                return f"`{name}` has {found:,} bytes of {size:,}"
            if _digest(path) != digest:
                return f"`{name}` has other bytes than were written"
        except OSError as error:
            return f"`{name}` cannot be read: {error.strerror}"
    return ""


def _seal(folder: Path) -> None:
    """Write the manifest, and wait until all is on the disk."""
    manifest = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _sync(path)
        about = {"bytes": path.stat().st_size, "sha256": _digest(path)}
        manifest[path.relative_to(folder).as_posix()] = about
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    _sync(path)
    _sync(folder)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def disk_error(error: BaseException) -> str:
    """Why the disk did not take it; empty if that was not what happened.

    torch and safetensors have errors of their own for a full disk, and torch's does not say so.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    kind, text = type(error).__name__, str(error)
    if kind == "SafetensorError":
        return text
    if isinstance(error, RuntimeError) and (
        "PytorchStreamWriter" in text or "unexpected pos" in text
    ):
        return "No space left on device, or it cannot be written to"
    return ""
