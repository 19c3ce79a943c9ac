"""Owns one program inside a sandbox that we can only reach through a client.

    python3 -I -S -c THIS stream ORDER          frames on stdin and stdout, for as long as it takes
    python3 -I -S -c THIS start FOLDER ORDER    the same in the background; returns when it runs

The one in the background has a socket in FOLDER; who connects writes `{"frames": BASE64, "wait":
SECONDS}` and a newline, and gets `{"frames": BASE64, "pending": BYTES}`. All of it needs nothing
but the standard library of Python 3.9.

ORDER is JSON. A frame is a letter, four bytes of length and a content: `o` and `e` for output in
the order it was written, `d` for how many bytes of it were left out, `x` for the end; to the agent
`i` for input (nothing: its end), `s` for a signal, `k` for kill, `r` to kill what the program has
started in so many seconds.

What the program starts and leaves behind becomes the agent's child (it is a subreaper), so nothing
of it is left when the program ends, when its time or memory is used up, or when whoever gave the
order is gone: stdin ends, or nobody has asked for `idle` seconds.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, cast

KEPT = 1 << 18
"""Bytes of frames that wait to be taken; until they are, the program's pipes are not read."""
LOOK = 0.05
"""Seconds between two looks at memory and time."""
HEADER = struct.Struct("!cI")
KINDS = {
    "cpu": resource.RLIMIT_CPU,
    "fsize": resource.RLIMIT_FSIZE,
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
}
OOMS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Agent:
    def __init__(self, order: dict[str, Any]) -> None:
        self.memory = order["memory"]
        self.until = time.monotonic() + (order["seconds"] or float("inf"))
        self.keep = order["keep"]
        self.sent = {b"o": 0, b"e": 0}
        self.tails = {b"o": bytearray(), b"e": bytearray()}
        self.dropped = {b"o": 0, b"e": 0}
        self.shared = order["shared"]
        self.outgoing = bytearray()
        self.pending, self.eof = bytearray(), False
        self.code: int | None = None
        self.timed_out = self.out_of_memory = False
        self.over = self.reported = False
        self.look = 0.0
        self.ooms = self.count_ooms()
        env = {"PATH": path_of_image(), **order["env"]}
        kernel = ctypes.CDLL(None)
        kernel.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        # PR_SET_DUMPABLE: who runs as the same user cannot open or trace us, and so forge a frame.
        kernel.prctl(4, 0, 0, 0, 0)
        self.child = subprocess.Popen(
            order["argv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=order["cwd"],
            env=env,
            start_new_session=True,
            bufsize=0,
            preexec_fn=lambda: limit(order["limits"]),
        )
        self.stdin = cast(Any, self.child.stdin)
        # Output before answers: a shell's answer on stderr says that all of its output is written.
        self.streams = {b"o": cast(Any, self.child.stdout), b"e": cast(Any, self.child.stderr)}
        for stream in (self.stdin, *self.streams.values()):
            os.set_blocking(stream.fileno(), False)

    def frame(self, kind: bytes, content: bytes) -> None:
        self.outgoing += framed(kind, content)

    def take(self, frames: bytearray) -> None:
        """Do what the whole ones of these frames say, and remove them."""
        while len(frames) >= HEADER.size:
            kind, length = HEADER.unpack_from(frames)
            if len(frames) < HEADER.size + length:
                return
            content = bytes(frames[HEADER.size : HEADER.size + length])
            del frames[: HEADER.size + length]
            if kind == b"i":
                self.pending += content
                self.eof = self.eof or not content
                self.feed()
            elif kind == b"s" and self.code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.child.pid, int(content))
            elif kind == b"k":
                self.kill()
            elif kind == b"r":
                self.kill_recent(float(content))

    def register(self, ready: selectors.BaseSelector) -> None:
        if len(self.outgoing) < KEPT:
            for kind, stream in self.streams.items():
                if not stream.closed:
                    ready.register(stream, selectors.EVENT_READ, lambda kind=kind: self.read(kind))
        if self.pending and not self.stdin.closed:
            ready.register(self.stdin, selectors.EVENT_WRITE, self.feed)

    def patience(self) -> float:
        """Seconds to wait for something to happen."""
        if self.code is not None:
            return 1.0
        if all(stream.closed for stream in self.streams.values()):
            return 0.002  # it closed its output, so it is about to end
        return min(LOOK, max(0.0, self.until - time.monotonic()))

    def read(self, kind: bytes) -> bool:
        stream = self.streams[kind]
        try:
            chunk = os.read(stream.fileno(), 65536)
        except BlockingIOError:
            return False
        if chunk:
            self.pass_on(kind, chunk)
        else:
            stream.close()
        return bool(chunk)

    def pass_on(self, kind: bytes, chunk: bytes) -> None:
        """Send output on; of what is more than wanted, keep the end for the end."""
        room = len(chunk) if self.keep is None else max(0, self.keep - self.sent[kind])
        if chunk[:room]:
            self.sent[kind] += len(chunk[:room])
            self.frame(kind, chunk[:room])
        tail = self.tails[kind]
        tail += chunk[room:]
        if self.keep is not None and len(tail) > self.keep + 65536:
            self.dropped[kind] += len(tail) - self.keep
            del tail[: len(tail) - self.keep]

    def count_ooms(self) -> int:
        return 0 if self.shared else ooms()

    def feed(self) -> None:
        if self.stdin.closed:
            self.pending.clear()
            return
        try:
            if self.pending:
                del self.pending[: os.write(self.stdin.fileno(), self.pending[:65536])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.pending.clear()
        if self.eof and not self.pending:
            self.stdin.close()

    def watch(self) -> None:
        """Bury the dead, hold the limits, and report the end once."""
        if self.reported:
            return
        self.bury()
        now = time.monotonic()
        if self.code is None and now >= self.look:
            self.look = now + LOOK
            over = self.memory and memory_of(descendants()) > self.memory
            self.out_of_memory = bool(over) or self.count_ooms() > self.ooms
            self.timed_out = now >= self.until
            if self.out_of_memory or self.timed_out:
                self.kill()
        if self.code is None:
            return
        self.reported = True
        self.out_of_memory = self.out_of_memory or self.count_ooms() > self.ooms
        self.kill()
        for kind, stream in self.streams.items():  # what it wrote last is still in the pipes
            for _ in range(64):
                if stream.closed or not self.read(kind):
                    break
        for kind, tail in self.tails.items():
            if self.dropped[kind]:
                self.frame(b"d", kind + str(self.dropped[kind]).encode())
            if tail:
                self.frame(kind, bytes(tail))
        end = {"code": self.code, "memory": self.out_of_memory, "timed_out": self.timed_out}
        self.frame(b"x", json.dumps(end).encode())

    def bury(self) -> None:
        """Take the exit codes of the program and of what has been left to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child.pid:
                code = os.waitstatus_to_exitcode(status)
                self.child.returncode = code
                self.code = code if code >= 0 else 128 - code

    def kill(self) -> None:
        """Kill all that there is of the program. First stop it, so that it cannot go on forking."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            known: set[int] = set()
            for _ in range(50):
                new = descendants() - known
                if not new:
                    break
                known |= new
                for pid in new:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
        until = time.monotonic() + 5
        while self.code is None and time.monotonic() < until:
            self.bury()
            time.sleep(0.001)
        self.bury()

    def kill_recent(self, seconds: float) -> None:
        """Kill what the program, or what it left to us, has started in so many seconds."""
        since = uptime() - seconds - 0.02
        for pid in descendants() - {self.child.pid}:
            with contextlib.suppress(OSError, ValueError):
                if started(pid) >= since:
                    os.kill(pid, signal.SIGKILL)

    def stream(self) -> None:
        """Exchange frames over stdin and stdout until all has been said."""
        frames = bytearray()
        os.set_blocking(0, False)
        os.set_blocking(1, False)

        def hear() -> None:
            chunk = os.read(0, 65536)
            if not chunk:
                self.over = True
            frames.extend(chunk)
            self.take(frames)

        def say() -> None:
            del self.outgoing[: os.write(1, self.outgoing[:65536])]

        with contextlib.suppress(BrokenPipeError):
            while not self.over and (not self.reported or self.outgoing):
                with selectors.DefaultSelector() as ready:
                    self.register(ready)
                    if len(self.pending) < KEPT:
                        ready.register(0, selectors.EVENT_READ, hear)
                    if self.outgoing:
                        ready.register(1, selectors.EVENT_WRITE, say)
                    for key, _ in ready.select(self.patience()):
                        key.data()
                self.watch()
        self.kill()

    def answer(self, server: socket.socket, idle: float) -> None:
        """Exchange frames with whoever connects to `server`, until nobody does."""
        asked, waiting, until = time.monotonic(), None, 0.0
        frames = bytearray()
        while not self.over and time.monotonic() - asked < idle:
            with selectors.DefaultSelector() as ready:
                self.register(ready)
                ready.register(server, selectors.EVENT_READ)
                now = time.monotonic()
                patience = self.patience()
                if waiting is not None:
                    patience = min(patience, max(0.0, until - now))
                for key, _ in ready.select(patience):
                    if key.data is not None:
                        key.data()
                        continue
                    asked = time.monotonic()
                    if waiting is not None:  # who asks anew does not wait for the last answer
                        waiting.close()
                    waiting = server.accept()[0]
                    request = heard(waiting)
                    frames += base64.b64decode(request.get("frames", ""))
                    self.take(frames)
                    self.over = self.over or request.get("quit", False)
                    until = asked + request.get("wait", 0.0)
            self.watch()
            if waiting is not None and (
                self.outgoing or self.over or self.reported or time.monotonic() >= until
            ):
                with contextlib.suppress(OSError):
                    text = {"frames": base64.b64encode(self.outgoing).decode()}
                    text["pending"] = str(len(self.pending))
                    waiting.sendall(json.dumps(text).encode())
                    self.outgoing.clear()
                waiting.close()
                waiting = None
                self.over = self.over or self.reported
        self.kill()


def path_of_image() -> str:
    """Where programs are in this sandbox: the one thing that a command takes over from it."""
    with open("/proc/self/environ", "rb") as file:
        for line in file.read().split(b"\0"):
            if line.startswith(b"PATH="):
                return os.fsdecode(line[5:])
    return os.defpath


def heard(asking: socket.socket) -> dict[str, Any]:
    asking.settimeout(5)
    text = b""
    with contextlib.suppress(OSError):
        while not text.endswith(b"\n") and (chunk := asking.recv(1 << 16)):
            text += chunk
    return cast("dict[str, Any]", json.loads(text)) if text.endswith(b"\n") else {}


def limit(limits: dict[str, list[int]]) -> None:
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # this is the program now: it may open its own files
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # when memory is short the program goes, not its agent
    for name, (soft, hard) in limits.items():
        most = resource.getrlimit(KINDS[name])[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(KINDS[name], (soft, hard))


def ooms() -> int:
    """How many processes of this control group the kernel has killed for memory."""
    for path in OOMS:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    return 0


def descendants() -> set[int]:
    """The processes below this one that have not ended, by the parents that /proc names."""
    below: dict[int, list[tuple[int, bool]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                below.setdefault(int(parent), []).append((int(name), state not in "ZX"))
    found, left = set(), [os.getpid()]
    while left:
        for pid, alive in below.get(left.pop(), []):
            left.append(pid)
            if alive:
                found.add(pid)
    return found


def uptime() -> float:
    """Seconds since the machine was started, as /proc counts them for processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def started(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def memory_of(pids: set[int]) -> int:
    """Bytes that these have to themselves: resident, and not of a file."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/statm") as file:
            resident, shared = file.read().split()[1:3]
            total += (int(resident) - int(shared)) * resource.getpagesize()
    return total


def program_of(order: dict[str, Any]) -> Agent | bytes:
    """The agent with its program started, or the frames that say why not."""
    if order["cwd"] and not os.path.isdir(order["cwd"]):
        return framed(b"x", json.dumps({"no_folder": order["cwd"]}).encode())
    try:
        return Agent(order)
    except OSError as error:
        said = f"{order['argv'][0]}: {error.strerror}\n".encode()
        end = {"code": 127 if isinstance(error, FileNotFoundError) else 126}
        return framed(b"e", said) + framed(b"x", json.dumps(end).encode())


def framed(kind: bytes, content: bytes) -> bytes:
    return HEADER.pack(kind, len(content)) + content


def stream(order: dict[str, Any]) -> None:
    agent = program_of(order)
    if isinstance(agent, bytes):
        os.write(1, agent)
    else:
        agent.stream()


def start(folder: str, order: dict[str, Any]) -> None:
    os.makedirs(folder, mode=0o700)
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # a socket's name is short, a folder's need not be
    server.bind("socket")
    os.chdir(here)
    server.listen()
    report, told = os.pipe()
    if os.fork():
        os.close(told)
        with os.fdopen(report) as file:
            sys.stdout.write(file.read())
        return
    os.close(report)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    agent = program_of(order)
    if isinstance(agent, bytes):
        os.write(told, base64.b64encode(agent))
    else:
        os.close(told)
        agent.answer(server, order["idle"])
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "stream":
        stream(json.loads(sys.argv[2]))
    else:
        start(sys.argv[2], json.loads(sys.argv[3]))
