"""Prepared data on disk, under the hash of all that it was made from.

Invariant: an entry is whole or it is not there. It is written beside and then moved into its place,
and what was changed afterwards (a file cut short, a byte that flipped) is found by its hash and
made anew. Two processes that make the same entry do not disturb each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.trajectories.whole_file import write_whole

_ABOUT = "about.json"
_UNFINISHED = ".unfinished-"
_REMAINS = 24 * 3600
"""Seconds after which an unfinished entry is what a killed process has left."""


def key_of(parts: Any) -> str:
    """The name of what was made from `parts`, a JSON value."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_entry(cache: Path, key: str) -> dict[str, Any] | None:
    """What an entry says of itself; None if there is none, or a broken one, which is taken away."""
    folder = cache / key
    if not folder.is_dir():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_bytes())
        if all(_digest(folder / name) == known for name, known in about["sha256"].items()):
            return dict(about["says"])
    shutil.rmtree(folder, ignore_errors=True)
    return None


def write_entry(cache: Path, key: str, fill: Callable[[Path], dict[str, Any]]) -> None:
    """Make an entry: `fill` writes its files into a folder, and returns what it says of itself.

    Raises `UsageError` if the disk refuses, and what `fill` raises; then nothing is left behind.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _take_away_remains(cache)
        beside = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{key}-", dir=cache))
    except OSError as error:
        raise _refused(cache, error) from error
    try:
        says = fill(beside)
        files = sorted(file for file in beside.iterdir() if file.is_file())
        about = {"says": says, "sha256": {file.name: _digest(file) for file in files}}
        (beside / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        beside.chmod(0o755)  # `mkdtemp` makes it for its owner alone
        try:
            os.rename(beside, cache / key)
        except OSError:
            if read_entry(cache, key) is None:  # else another process has made the same just now
                os.rename(beside, cache / key)
    except OSError as error:
        raise _refused(cache, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_note(cache: Path | None, parts: Any) -> dict[str, Any] | None:
    """A small thing that is known of `parts`; None if it is not."""
    if cache is None:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads((cache / "notes" / f"{key_of(parts)}.json").read_bytes())
        if note["sha256"] == key_of(note["says"]):
            return dict(note["says"])
    return None


def write_note(cache: Path | None, parts: Any, says: dict[str, Any]) -> None:
    """Keep a small thing. Raises `UsageError` if the disk refuses."""
    if cache is None:
        return
    path = cache / "notes" / f"{key_of(parts)}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        note = {"says": says, "sha256": key_of(says)}
        write_whole(path, json.dumps(note))
    except OSError as error:
        raise _refused(cache, error) from error


def _take_away_remains(cache: Path) -> None:
    for folder in cache.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):  # another process takes it away just now
            if time.time() - folder.stat().st_mtime > _REMAINS:
                shutil.rmtree(folder, ignore_errors=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refused(cache: Path, error: OSError) -> UsageError:
    return UsageError(
        f"Prepared data cannot be written to `{cache}`: {error}. Free some space "
        f"there, or name another folder for the cache."
    )
