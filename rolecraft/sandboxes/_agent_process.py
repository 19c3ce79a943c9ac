"""A program that an agent owns: run to its end, or with three pipes as a `Started`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from rolecraft.sandboxes._agent_link import Link
from rolecraft.sandboxes._output import HeadAndTail
from rolecraft.sandboxes.base import KILLED, Execution, SandboxLimits
from rolecraft.sandboxes.live import SandboxFileError, SandboxLost

OUTPUT = b"o"
ERRORS = b"e"
PIECE = 1 << 16
GRACE = 10.0
"""Seconds that an agent has to do what it should, before it is given up."""


class CutOutput(HeadAndTail):
    """Output of which the agent has left out the middle."""

    def skip(self, count: int) -> None:
        """Go on with so many bytes that are not known; `limit` have come before."""
        self._total += count
        self.truncated = True


async def execute(
    link: Link,
    *,
    stdin: bytes | Iterator[bytes],
    output_bytes: int,
    seconds: float,
    sink: Callable[[bytes], object] | None = None,
) -> Execution:
    """Feed the agent's program, read it to its end and close the link.

    The agent ends it after its time. One that does not, because the program has stopped it, say,
    is given up at `seconds` and some more: the link's close ends both.

    `sink` gets stdout as it comes, in place of the result. A cancelled program is killed.
    Raises `SandboxLost` if the agent is gone, `SandboxFileError` if its folder does not exist.
    """
    started = time.monotonic()
    out, err = CutOutput(output_bytes), CutOutput(output_bytes)
    streams = {OUTPUT: out, ERRORS: err}
    feeding = asyncio.create_task(_feed(link, stdin))
    end: dict[str, Any] | None = None
    try:
        async with asyncio.timeout(seconds + GRACE):
            while end is None:
                for kind, content in await link.receive():
                    if kind == b"x":
                        end = json.loads(content)
                    elif kind == b"d":
                        streams[content[:1]].skip(int(content[1:]))
                    elif kind == OUTPUT and sink is not None:
                        sink(content)
                    else:
                        streams[kind].add(content)
    except TimeoutError:
        end = {"code": KILLED, "timed_out": True}
    finally:
        feeding.cancel()
        await asyncio.wait([feeding])
        await asyncio.shield(link.close())
    if "no_folder" in end:
        raise SandboxFileError(end["no_folder"], "there is no such folder")
    memory, timed_out = end.get("memory", False), end.get("timed_out", False)
    code = KILLED if memory or timed_out else end["code"]
    return Execution(
        exit_code=code,
        stdout=out.text,
        stderr=err.text,
        timed_out=timed_out or code == 128 + signal.SIGXCPU,
        stdout_truncated=out.truncated,
        stderr_truncated=err.truncated,
        killed_for_memory=memory and not timed_out,
        seconds=time.monotonic() - started,
    )


async def _feed(link: Link, stdin: bytes | Iterator[bytes]) -> None:
    if isinstance(stdin, bytes):
        for begin in range(0, len(stdin), PIECE):
            await link.send(b"i", stdin[begin : begin + PIECE])
    else:  # from a file
        while (piece := await asyncio.to_thread(next, stdin, None)) is not None:
            if piece:  # an empty one would be the end
                await link.send(b"i", piece)
    await link.send(b"i")


class AgentProcess:
    """See `Started`. The pipes are real ones; a task carries frames between them and the agent."""

    def __init__(self, link: Link) -> None:
        self._link = link
        theirs, self.stdin = os.pipe()
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        for fd in (theirs, self.stdin, self.stdout, out, self.stderr, err):
            os.set_blocking(fd, False)
        self._theirs, self._streams = theirs, {OUTPUT: out, ERRORS: err}
        self._orders: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._obey()), asyncio.create_task(self._feed())]
        self._ending = asyncio.create_task(self._carry())

    async def wait(self) -> int:
        """See `Started.wait`."""
        return await asyncio.shield(self._ending)

    def signal(self, number: int) -> None:
        """See `Started.signal`."""
        self._orders.put_nowait((b"s", str(int(number)).encode()))

    def kill(self) -> None:
        """See `Started.kill`."""
        self._orders.put_nowait((b"k", b""))
        self._tasks.append(asyncio.create_task(self._give_up()))

    async def _carry(self) -> int:
        try:
            while True:
                for kind, content in await self._link.receive():
                    if kind == b"x":
                        return int(json.loads(content).get("code", 126))
                    if kind in self._streams:
                        await _write(self._streams[kind], content)
        except SandboxLost:
            return KILLED
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            for fd in (self._theirs, *self._streams.values()):
                os.close(fd)
            await self._link.close()

    async def kill_recent(self, seconds: float) -> None:
        """See `Prunable.kill_recent`."""
        await self._link.send(b"r", str(seconds).encode())

    async def _give_up(self) -> None:
        await asyncio.sleep(GRACE)
        await self._link.close()

    async def _obey(self) -> None:
        while True:
            kind, content = await self._orders.get()
            await self._link.send(kind, content)

    async def _feed(self) -> None:
        while True:
            await _ready(self._theirs, asyncio.get_running_loop().add_reader, reading=True)
            with contextlib.suppress(BlockingIOError):
                chunk = os.read(self._theirs, PIECE)
                await self._link.send(b"i", chunk)
                if not chunk:
                    return


async def _write(fd: int, data: bytes) -> None:
    """Write all of it as the reader takes it; nothing if there is no reader any more."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BrokenPipeError:
            return
        except BlockingIOError:
            await _ready(fd, asyncio.get_running_loop().add_writer, reading=False)


async def _ready(fd: int, add: Callable[..., None], *, reading: bool) -> None:
    """Wait until `fd` can be read, or written."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    add(fd, tell)
    try:
        await ready
    finally:
        (loop.remove_reader if reading else loop.remove_writer)(fd)


def order(
    argv: list[str],
    *,
    cwd: str,
    env: dict[str, str],
    limits: SandboxLimits,
    seconds: float | None,
    cpu: bool,
    keep: int | None,
    memory: bool,
    shared: bool,
    files: bool,
) -> dict[str, Any]:
    """What the agent is told: the program, where it runs, and what it may use.

    `cpu`: whether processor time is limited. `keep`: how many bytes of each stream are wanted from
    its start, and from its end. `memory`: whether the agent holds the memory limit by looking.
    `shared`: whether the control group it sees is not the sandbox's own. `files`: whether the size
    of a file and of address space is limited; it is not for what carries files of ours.
    """
    kernel = {"core": [0, 0]}
    if files:
        kernel["fsize"] = [limits.file_bytes, limits.file_bytes]
        kernel["as"] = [4 * limits.memory_bytes, 4 * limits.memory_bytes]
    if cpu:
        kernel["cpu"] = [limits.cpu_seconds, limits.cpu_seconds + 1]
    return {
        "argv": argv,
        "cwd": cwd,
        "env": env,
        "limits": kernel,
        "seconds": seconds,
        "keep": keep,
        "memory": limits.memory_bytes if memory else 0,
        "shared": shared,
    }
