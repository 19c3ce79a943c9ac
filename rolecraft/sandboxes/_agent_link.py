"""How frames get to an agent in a sandbox and back: over a pipe, or in one short command at a time.

See `_agent.py` for the frames.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from rolecraft.errors import SandboxError
from rolecraft.sandboxes.live import SandboxLost

# They go with each command that runs them: a file in the sandbox could be changed there.
AGENT = Path(__file__).with_name("_agent.py").read_text()
FILES = Path(__file__).with_name("_agent_files.py").read_text()
PYTHON = ("python3", "-I", "-S", "-c")
HEADER = struct.Struct("!cI")
PIECE = 48 * 1024
"""Bytes that one command carries, in base64: an argument of a program has at most 128 KiB."""
IDLE_SECONDS = 300.0
"""After so long an agent that nobody asks ends what it has."""
LONGEST_PAUSE = 1.0
SHARE = 0.1
"""Output that comes after a long silence comes later by no more than this share of it."""

Frame = tuple[bytes, bytes]


# The agent itself comes over the pipe, so that no list of processes in the sandbox is full of it.
BOOT = (
    *PYTHON,
    "import json, os, sys; n, s = int(os.read(0, 8)), b''\n"
    "while len(s) < n: s += os.read(0, n - len(s))\n"
    "sys.argv, s = json.loads(s); exec(s)",
)
ASK = """\
import os, socket, sys
text = b""
try:
    os.chdir(sys.argv[2])
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect("socket")
        asking.sendall(sys.argv[3].encode() + b"\\n")
        while chunk := asking.recv(1 << 20):
            text += chunk
except OSError:
    text = b""
sys.stdout.write(text.decode() or "gone")
"""


class Link(Protocol):
    """The connection to one agent."""

    async def send(self, kind: bytes, content: bytes = b"") -> None:
        """Hand it a frame; nothing if it has ended. Waits while it cannot take more."""
        ...

    async def receive(self) -> list[Frame]:
        """Frames from it, at least one. Raises `SandboxLost` if it is gone without an `x`."""
        ...

    async def close(self) -> None:
        """Let go of it. If it still runs, it ends, with all that it started."""
        ...


class ShortCommands(Protocol):
    """What a cloud's client can do: run a program to its end, and return what it printed."""

    async def execute(self, command: Sequence[str], *, seconds: float) -> tuple[int, str, str]:
        """Exit code, stdout and stderr. Raises `SandboxLost` if the sandbox is gone."""
        ...


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(kind, len(content)) + content


def frames_of(data: bytearray) -> list[Frame]:
    """The whole frames at the beginning of `data`, which loses them."""
    found = []
    while len(data) >= HEADER.size:
        kind, length = HEADER.unpack_from(data)
        end = HEADER.size + length
        if len(data) < end:
            break
        found.append((kind, bytes(data[HEADER.size : end])))
        del data[:end]
    return found


class PipeLink:
    """An agent whose stdin and stdout are those of a process here, such as `docker exec -i`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._data = bytearray()

    @classmethod
    async def start(cls, words: Sequence[str], order: dict[str, Any], *, cwd: str) -> Self:
        """Run a command line that ends with `BOOT`, and have an agent start what `order` says."""
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C here is no signal there
        )
        link = cls(process)
        content = json.dumps([["agent", "stream", json.dumps(order)], AGENT]).encode()
        await link._write(b"%8d" % len(content) + content)
        return link

    async def send(self, kind: bytes, content: bytes = b"") -> None:
        """See `Link.send`."""
        await self._write(frame(kind, content))

    async def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()

    async def receive(self) -> list[Frame]:
        """See `Link.receive`."""
        assert self._process.stdout is not None
        while not (found := frames_of(self._data)):
            chunk = await self._process.stdout.read(1 << 16)
            if not chunk:
                assert self._process.stderr is not None
                said = (await self._process.stderr.read())[-600:].decode("utf-8", "replace")
                raise SandboxLost(
                    f"The process in the sandbox is gone: {' '.join(said.split()) or 'no word'}"
                )
            self._data += chunk
        return found

    async def close(self) -> None:
        """See `Link.close`."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await ended(self._process)


async def ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process whose input was closed; after ten seconds it is killed."""
    try:
        await asyncio.wait_for(process.communicate(), 10)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@dataclass
class PolledLink:
    """An agent in the background of a sandbox, asked for news by short commands.

    `hold` is how many seconds one of them may take while there is no news.
    """

    commands: ShortCommands
    folder: str
    hold: float
    _data: bytearray = field(default_factory=bytearray)
    _unsent: bytearray = field(default_factory=bytearray)
    _pending: int = 0
    _silent_since: float = 0.0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _taken: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False

    @classmethod
    async def start(
        cls,
        commands: ShortCommands,
        folder: str,
        order: dict[str, Any],
        *,
        hold: float,
    ) -> PolledLink:
        """Start an agent with a new `folder` of the sandbox for its socket."""
        link = cls(commands, folder, hold)
        text = await link._agent("start", {**order, "idle": IDLE_SECONDS})
        link._data += base64.b64decode(text)
        link._ended = bool(text)
        link._silent_since = asyncio.get_running_loop().time()
        return link

    async def send(self, kind: bytes, content: bytes = b"") -> None:
        """See `Link.send`."""
        pieces = [content[at : at + PIECE] for at in range(0, max(len(content), 1), PIECE)]
        for piece in pieces:
            while kind == b"i" and not self._ended and len(self._unsent) + self._pending > PIECE:
                self._taken.clear()
                await self._taken.wait()
            self._unsent += frame(kind, piece)
            self._news.set()

    async def receive(self) -> list[Frame]:
        """See `Link.receive`."""
        loop = asyncio.get_running_loop()
        try:
            while not (found := frames_of(self._data)):
                if self._ended:
                    raise SandboxLost("The process in the sandbox is gone.")
                sent = bytes(self._unsent[:PIECE])
                del self._unsent[:PIECE]
                request = {"frames": base64.b64encode(sent).decode(), "wait": self.hold}
                text = await self._agent("ask", request)
                if text == "gone":
                    self._ended = True
                    continue
                answer = json.loads(text)
                self._data += base64.b64decode(answer["frames"])
                self._pending = int(answer["pending"])
                self._taken.set()
                if self._data or sent:
                    self._silent_since = loop.time()
                elif not self._unsent:
                    silence = loop.time() - self._silent_since
                    self._news.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(
                            self._news.wait(), min(LONGEST_PAUSE, SHARE * silence)
                        )
        finally:
            self._taken.set()
        self._ended = found[-1][0] == b"x"  # and it has ended with that
        return found

    async def close(self) -> None:
        """See `Link.close`."""
        self._taken.set()
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(SandboxError):
            await self._agent("ask", {"quit": True})

    async def _agent(self, verb: str, content: dict[str, Any]) -> str:
        program = AGENT if verb == "start" else ASK
        words = [*PYTHON, program, verb, self.folder, json.dumps(content)]
        code, out, err = await self.commands.execute(words, seconds=self.hold + 30)
        if code:
            raise SandboxError(f"The agent in the sandbox failed: {(err or out).strip()[-300:]}")
        return out.strip()
