"""One process under watch: its time, its memory, its output, and its end.

A thread of its own watches each process, so the limits hold also while the event loop is busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from rolecraft.sandboxes._keeper_memory import resident_bytes
from rolecraft.sandboxes._output import HeadAndTail
from rolecraft.sandboxes.base import KILLED, Execution, SandboxLimits

TICK = 0.02
"""Seconds between two looks at memory, and until a cancelled run is noticed."""
PIPE_READS = 16
"""More than empty a pipe, of which somebody that got away might hold the other end and go on."""


async def run_watched(
    argv: Sequence[str],
    *,
    stdin: bytes,
    limits: SandboxLimits,
    env: Mapping[str, str],
    cwd: str | Path | None = None,
) -> Execution:
    """Run `argv` and kill its whole process group at its end, a limit, or cancellation.

    Raises `OSError` if it cannot be started.
    """
    stop = threading.Event()
    done: Future[Execution] = Future()

    def work() -> None:
        try:
            done.set_result(_watch(argv, stdin, limits, env, cwd, stop))
        except BaseException as error:
            done.set_exception(error)

    # In the caller's context, for whoever listens.
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name="rolecraft-sandbox", daemon=True).start()
    waiting = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([waiting])
        waiting.exception()  # seen: what matters now is the cancellation
        raise


def kernel_limits(prlimit: str, limits: SandboxLimits) -> list[str]:
    """The program `prlimit` and its options, to stand in front of a command."""
    return [
        prlimit,
        f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 1}",  # SIGXCPU, then SIGKILL
        f"--as={4 * limits.memory_bytes}",
        f"--fsize={limits.file_bytes}",
        "--core=0",
    ]


def _watch(
    argv: Sequence[str],
    stdin: bytes,
    limits: SandboxLimits,
    env: Mapping[str, str],
    cwd: str | Path | None,
    stop: threading.Event,
) -> Execution:
    started = time.monotonic()
    timed_out = killed_for_memory = False
    out, err = HeadAndTail(limits.output_bytes), HeadAndTail(limits.output_bytes)
    with (
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        ) as process,
        selectors.DefaultSelector() as waiting,
        _exit_of(process, waiting),
    ):
        try:
            streams = _connect(waiting, process, out, err, stdin)
            look = started
            while process.poll() is None:
                now = time.monotonic()
                timed_out = now - started >= limits.seconds
                if now >= look:
                    look = now + TICK
                    killed_for_memory = resident_bytes(process.pid) > limits.memory_bytes
                if timed_out or killed_for_memory or stop.is_set():
                    break
                left = limits.seconds - (now - started)
                for key, _ in waiting.select(max(0.0, min(look - now, left))):
                    if key.data is not None:
                        key.data()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream, kept in streams:  # what it wrote last is still in the pipes
            for _ in range(PIPE_READS):
                if not (chunk := _read(stream)):
                    break
                kept.add(chunk)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Execution(
        exit_code=KILLED if timed_out or killed_for_memory else code,
        stdout=out.text,
        stderr=err.text,
        timed_out=timed_out or code == 128 + signal.SIGXCPU,
        stdout_truncated=out.truncated,
        stderr_truncated=err.truncated,
        killed_for_memory=killed_for_memory,
        seconds=time.monotonic() - started,
    )


def _connect(
    waiting: selectors.BaseSelector,
    process: subprocess.Popen[bytes],
    out: HeadAndTail,
    err: HeadAndTail,
    stdin: bytes,
) -> list[tuple[IO[bytes], HeadAndTail]]:
    """Have output read as it comes and input written as it is taken."""
    assert process.stdout is not None
    assert process.stderr is not None
    streams = [(process.stdout, out), (process.stderr, err)]
    for stream, kept in streams:
        os.set_blocking(stream.fileno(), False)
        waiting.register(stream, selectors.EVENT_READ, _reader(waiting, stream, kept))
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
        waiting.register(
            process.stdin, selectors.EVENT_WRITE, _writer(waiting, process.stdin, stdin)
        )
    return streams


def _reader(
    waiting: selectors.BaseSelector, stream: IO[bytes], head: HeadAndTail
) -> Callable[[], None]:
    def read() -> None:
        chunk = _read(stream)
        if chunk:
            head.add(chunk)
        elif chunk == b"":
            waiting.unregister(stream)

    return read


def _read(stream: IO[bytes]) -> bytes | None:
    """What is there now; empty at the end, None while there is nothing."""
    try:
        return os.read(stream.fileno(), 65536)
    except BlockingIOError:
        return None


def _writer(waiting: selectors.BaseSelector, stream: IO[bytes], data: bytes) -> Callable[[], None]:
    left = memoryview(data)

    def write() -> None:
        nonlocal left
        try:
            left = left[os.write(stream.fileno(), left[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            left = left[:0]  # it does not want to read on
        if not left:
            waiting.unregister(stream)
            stream.close()

    return write


@contextlib.contextmanager
def _exit_of(process: subprocess.Popen[bytes], waiting: selectors.BaseSelector) -> Iterator[None]:
    """Have `waiting` wake up at the process's exit, where the system can tell."""
    if not hasattr(os, "pidfd_open"):
        yield
        return
    fd = os.pidfd_open(process.pid)
    try:
        waiting.register(fd, selectors.EVENT_READ, None)
        yield
    finally:
        os.close(fd)
