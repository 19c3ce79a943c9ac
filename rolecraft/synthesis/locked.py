"""A folder in which one process at a time does what no other may see half done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.trajectories.append_file import lock, other_process


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Have a folder for this process alone; it is made if need be. A kill frees it.

    Raises `UsageError` while another process has it, which is then `doing` the same.
    """
    with ExitStack() as stack:
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, fd)
            try:
                lock(fd)
            except BlockingIOError:
                who = other_process(fd)
                raise UsageError(
                    f"{who[0].upper()}{who[1:]} is {doing}: wait for it, or name another folder."
                ) from None
            if folder.exists() and os.path.samestat(os.fstat(fd), folder.stat()):
                break  # else who had it has deleted it: there is another one
        yield
