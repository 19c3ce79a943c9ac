"""Folders that sandboxes read."""

from __future__ import annotations

from pathlib import Path


def make_readable(folder: Path) -> None:
    """Let every user read all of it, and nobody but its owner change it.

    A sandbox may be made by another user than this one. What its owner may execute, all may.
    """
    for each in (folder, *folder.rglob("*")):
        if not each.is_symlink():
            each.chmod(0o755 if each.is_dir() or each.stat().st_mode & 0o100 else 0o644)
