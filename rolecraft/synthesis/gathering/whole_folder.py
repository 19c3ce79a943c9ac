"""Folders that are written whole or not at all.

    with whole_folder(out / "tasks") as new:
        (new / "rows.jsonl").write_text(…)

Whoever is killed leaves the old folder or the new one, and at most a hidden folder beside it,
which the next one removes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolecraft.synthesis.locked import locked

_HERE = -100
_EXCHANGE = 2
"""`AT_FDCWD` and `RENAME_EXCHANGE` of Linux."""


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new, empty folder that takes the place of `path` at the end, unless something is raised.

    Raises `UsageError` while another process does the same, and `OSError` where the disk refuses.
    """
    beside = path.parent
    with locked(beside, f"writing `{path}`"):
        _clear(path)
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}-new-", dir=beside))
        try:
            new.chmod(0o755)  # of whoever reads it, sandboxes too
            yield new
            _put(new, path)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _clear(path: Path) -> None:
    """Remove what killed ones left; put back the old folder of one that was killed in between."""
    was = path.with_name(f".{path.name}-was")
    if was.exists() and not path.exists():
        was.rename(path)
    for left in (was, *path.parent.glob(f".{path.name}-new-*")):
        shutil.rmtree(left, ignore_errors=True)


def _put(new: Path, path: Path) -> None:
    if not path.exists():
        new.rename(path)
    elif not _exchanged(new, path):  # a file system that cannot: a moment without the folder
        was = path.with_name(f".{path.name}-was")
        path.rename(was)
        new.rename(path)
        shutil.rmtree(was)


def _exchanged(first: Path, second: Path) -> bool:
    """Whether two folders could be given each other's name in one step."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
