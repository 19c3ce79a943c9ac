"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Put `content` in the place of what the file held, if anything; text in UTF-8.

    Whoever reads the file meanwhile reads the one or the other, also when this process is killed.
    Lone surrogates, which UTF-8 has no bytes for, are written as escapes. Raises `OSError`; then
    the file is as it was, and nothing lies beside it.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
