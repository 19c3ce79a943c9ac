"""What stays in a folder of tasks that is written anew: all that is not of `gather`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rolecraft.synthesis.gathering.before import SUMMARY
from rolecraft.synthesis.gathering.row_files import PARQUET, ROWS
from rolecraft.synthesis.gathering.tasks import REPOSITORY

PATCHES = "patches"
SCENARIO = "scenario.py"
PATCH_ENDS = (".bug.patch", ".fix.patch")
_OURS = {ROWS, PARQUET, PATCHES, REPOSITORY, SCENARIO, SUMMARY, "__pycache__"}


def carry_over(old: Path, new: Path) -> list[str]:
    """Bring the user's own files and folders of `old` into `new`; what they are called.

    They are linked, not copied, where the disk can: whoever is writing one goes on in the new
    folder. `scenario.py` is not among them. Raises `OSError`.
    """
    if not old.is_dir():
        return []
    names = [path.name for path in old.iterdir() if path.name not in _OURS]
    if (old / PATCHES).is_dir():
        patches = (path.name for path in (old / PATCHES).iterdir())
        names += [f"{PATCHES}/{name}" for name in patches if not name.endswith(PATCH_ENDS)]
    for name in sorted(names):
        bring(old / name, new / name)
    return sorted(names)


def clear(folder: Path) -> None:
    """Delete the tasks of a folder. What stays is the user's, with `scenario.py`, and what
    `summary.json` knows of it for the next time.
    """
    for path in (folder / ROWS, folder / PARQUET):
        path.unlink(missing_ok=True)
    for end in PATCH_ENDS:
        for path in (folder / PATCHES).glob(f"*{end}"):
            path.unlink()
    shutil.rmtree(folder / REPOSITORY, ignore_errors=True)


def bring(old: Path, new: Path) -> None:
    """Have a file, a link or a folder in a second place."""
    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True, copy_function=_link)
    else:
        _link(old, new)


def _link(old: str | Path, new: str | Path) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:  # a disk without links, or a file of somebody else
        shutil.copy2(old, new, follow_symlinks=False)
