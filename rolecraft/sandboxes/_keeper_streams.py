"""Pipes read and written by the event loop, without a thread."""

from __future__ import annotations

import asyncio
import os

from rolecraft.sandboxes._output import HeadAndTail

READS = 16
"""Pieces of 64 KiB that are taken one after the other before others have their turn."""


async def _ready(fd: int, *, to_write: bool = False) -> None:
    """Wait until there is something to read, or room to write."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_writer if to_write else loop.add_reader)(fd, resolve)
    try:
        await ready
    finally:
        (loop.remove_writer if to_write else loop.remove_reader)(fd)


async def read_all(fd: int, output: HeadAndTail) -> None:
    """Add all that comes to `output`, to the end."""
    taken = 0
    while True:
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            await _ready(fd)
            continue
        if not chunk:
            return
        output.add(chunk)
        if (taken := taken + 1) % READS == 0:
            await asyncio.sleep(0)


async def write_all(fd: int, data: bytes) -> None:
    """Write to a command's standard input and close it; it need not read all."""
    left = memoryview(data)
    try:
        while left:
            try:
                left = left[os.write(fd, left[:65536]) :]
            except BlockingIOError:
                await _ready(fd, to_write=True)
            except BrokenPipeError:
                return
    finally:
        os.close(fd)
