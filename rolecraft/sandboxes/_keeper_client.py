"""Rolecraft's side of the keeper: requests without a thread, and commands as `Started`.

Invariant: whoever waits for the keeper gets an answer, or `SandboxLost` once it is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._keeper_wire import Wire, pack
from rolecraft.sandboxes.live import SandboxLost

BOOT = """
import sys, types
for name in "rolecraft", "rolecraft.sandboxes":
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + name.removeprefix("rolecraft").replace(".", "/")]
from rolecraft.sandboxes.%s import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
"""The keeper's program: it imports its own modules and not what their packages begin with."""

Why = Literal["timeout", "memory"]


class KeeperError(SandboxError):
    """The keeper could not do what was asked; `errno` is the system's number for why, if any."""

    def __init__(self, text: str, errno: int | None) -> None:
        self.errno = errno
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `why` is the limit that the keeper ended it for."""

    code: int
    why: Why | None
    failed: str | None
    """What went wrong before its program was run."""


class Keeper:
    """One keeper process, for the event loop in which it was started."""

    program = "_keeper"
    """The module whose `main` it runs."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.pidfd_open(os.getpid())
        try:
            self.wire = Wire(ours)
            ours.setblocking(False)
            pid = os.posix_spawn(
                sys.executable,
                [
                    *(sys.executable, "-I", "-S", "-c", BOOT % self.program),
                    *(str(Path(__file__).parents[1]), str(theirs.fileno()), str(parent)),
                ],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), theirs.fileno()),
                    (os.POSIX_SPAWN_DUP2, parent, parent),
                ],
            )
        finally:
            theirs.close()
            os.close(parent)
        threading.Thread(target=os.waitpid, args=(pid, 0), daemon=True).start()
        self.lost = False
        self.numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[list[int]]] = {}
        self._endings: dict[int, asyncio.Future[Ended]] = {}
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._reader = weakref.WeakMethod(self._receive)
        self.ready: asyncio.Future[list[int]] = self.loop.create_future()
        self._answers[0] = self.ready
        self.loop.add_reader(ours.fileno(), _call, self._reader)
        weakref.finalize(self, _end, self.loop, ours)

    def usable(self) -> bool:
        """Whether it lives, and for the loop that runs now."""
        return not self.lost and self.loop is asyncio.get_running_loop()

    async def ask(self, op: str, fds: Sequence[int] = (), **words: Any) -> list[int]:
        """Have something done, and return the open files that are its result.

        Raises `KeeperError` if it could not be done, `SandboxLost` if the keeper is gone.
        """
        number = next(self.numbers)
        answer: asyncio.Future[list[int]] = self.loop.create_future()
        self._answers[number] = answer
        self._send({"op": op, "n": number, **words}, fds)
        return await answer

    def tell(self, op: str, **words: Any) -> None:
        """Have something done; nothing if the keeper is gone."""
        if not self.lost and not self.loop.is_closed():
            self._send({"op": op, **words}, ())

    def ending(self, number: int) -> asyncio.Future[Ended]:
        """The end of the command `number`, which is about to be started."""
        self._endings[number] = self.loop.create_future()
        return self._endings[number]

    def close(self) -> None:
        """End it and all that it keeps."""
        self._lose()

    def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        if self.lost:
            raise SandboxLost("The sandbox is gone: the process that kept it has ended.")
        body, files, extra = pack(message, fds)
        files = [os.dup(fd) for fd in files]  # it may be some time until they are sent
        if extra is not None:
            os.close(extra)
        self._unsent.append((body, files))
        if len(self._unsent) == 1:
            self._flush()

    def _flush(self) -> None:
        while self._unsent:
            body, files = self._unsent[0]
            try:
                socket.send_fds(self.wire.socket, [body], files)
            except BlockingIOError:
                self.loop.add_writer(self.wire.socket.fileno(), self._flush)
                return
            except OSError:
                self._lose()
                return
            self._unsent.popleft()
            for fd in files:
                os.close(fd)
        self.loop.remove_writer(self.wire.socket.fileno())

    def _receive(self) -> None:
        while True:
            try:
                received = self.wire.receive()
            except BlockingIOError:
                return
            if received is None:
                self._lose()
                return
            message, fds = received
            if "ended" in message:
                ending = self._endings.pop(message["ended"], None)
                if ending is not None and not ending.done():
                    ending.set_result(Ended(message["code"], message["why"], message["failed"]))
                continue
            answer = self._answers.pop(message["n"], None)
            if answer is None or answer.done():  # whoever asked was cancelled
                for fd in fds:
                    os.close(fd)
            elif "error" in message:
                answer.set_exception(KeeperError(message["error"], message.get("errno")))
            else:
                answer.set_result(fds)

    def _lose(self) -> None:
        if self.lost:
            return
        self.lost = True
        _end(self.loop, self.wire.socket)
        for _, files in self._unsent:
            for fd in files:
                os.close(fd)
        self._unsent.clear()
        waiting: list[asyncio.Future[Any]] = [*self._answers.values(), *self._endings.values()]
        self._answers.clear()
        self._endings.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(SandboxLost("The process that kept the sandbox has ended."))
                future.exception()  # nobody may be waiting for it any more


def _call(method: weakref.WeakMethod[Any]) -> None:
    if (bound := method()) is not None:
        bound()


def _end(loop: asyncio.AbstractEventLoop, end: socket.socket) -> None:
    """Hang up: the keeper ends, and all that it kept."""
    if end.fileno() >= 0:
        if not loop.is_closed():
            loop.remove_reader(end.fileno())
            loop.remove_writer(end.fileno())
        end.close()


class KeptProcess:
    """A command of a sandbox: a `Started`. It has no id here: the keeper knows it."""

    def __init__(
        self,
        keeper: Keeper,
        number: int,
        streams: tuple[int, int, int],
        ended: asyncio.Future[Ended],
        kills: Callable[[], int] = lambda: 0,
    ) -> None:
        self._keeper, self._number, self._ended = keeper, number, ended
        self._kills, self._told = kills, 0
        self.stdin, self.stdout, self.stderr = streams

    async def ending(self) -> Ended:
        """Its end. By then nothing that it started runs any more."""
        return await asyncio.shield(self._ended)

    async def wait(self) -> int:
        """See `Started.wait`."""
        return (await self.ending()).code

    def signal(self, number: int) -> None:
        """See `Started.signal`."""
        if not self._ended.done():
            self._keeper.tell("signal", number=self._number, signal=int(number))

    def kill(self) -> None:
        """See `Started.kill`."""
        self.signal(signal.SIGKILL)

    def killed_for_memory(self) -> bool:
        """See `Counting`. `kills` is how many of its processes the kernel has killed so far."""
        if self._ended.done() and not self._ended.cancelled() and not self._ended.exception():
            return self._ended.result().why == "memory" or self._kills() > self._told
        told, self._told = self._told, self._kills()
        return self._told > told

    async def kill_recent(self, seconds: float) -> None:
        """Kill what it has started in the last `seconds`, and go on itself."""
        if not self._ended.done():
            await self._keeper.ask("prune", number=self._number, seconds=seconds)


def pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Three pipes: this process's ends, non-blocking, and the command's."""
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for fd in (ours_in, ours_out, ours_err):
        os.set_blocking(fd, False)
    return (ours_in, ours_out, ours_err), (theirs_in, theirs_out, theirs_err)
