"""The processes of a distributed run on one machine: all of them, or none.

They get what `torchrun` would give them (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT), which torch.distributed and accelerate read. The port is a free one that
nobody else is given while the run lasts. When one process fails the others are ended, and none
outlives the process that started them, however that one ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from rolecraft.errors import UsageError
from rolecraft.models.process_guard import Guard
from rolecraft.training.background.stop_signals import STOPPED, StopSignals

LOOPBACK = "127.0.0.1"
LAUNCHED = "ROLECRAFT_LAUNCHED"
"""Variable in the environment of the processes that `launch` starts, and of no others."""
_LOOK_EVERY = 0.05


def free_port() -> int:
    """A TCP port of this machine that nobody listens on just now. See `reserved_port`."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A free port that nobody who asks for a free one is given while the block lasts.

    It is bound and not listened on, and may be shared, so that a server which sets SO_REUSEADDR, as
    torch's store does, can listen on it. Only Linux shares it so; elsewhere it is let go at once.
    """
    if sys.platform != "linux":
        yield free_port()
        return
    with socket.socket() as holder:
        holder.bind((LOOPBACK, 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


def launch(argv: Sequence[str], processes: int, *, grace_seconds: float = 30.0) -> int:
    """Start a program so many times as one distributed run, and wait for its end.

    SIGTERM and Ctrl+C are passed on, and the run then ends as its processes do. When one ends with
    another code than 0 the others are told to stop, and killed after `grace_seconds`.

    Returns 0 if all ended with it, else the exit code of the first that did not; 128 and the
    signal's number if a signal killed it. Raises `UsageError` for less than one process.
    """
    if processes < 1:
        raise UsageError(f"A run has at least one process, not {processes}.")
    with reserved_port() as port, StopSignals() as stop, contextlib.ExitStack() as at_end:
        workers: list[subprocess.Popen[bytes]] = []
        at_end.callback(_kill, workers)
        for rank in range(processes):
            variables = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "LOCAL_WORLD_SIZE": str(processes),
                "MASTER_ADDR": LOOPBACK,
                "MASTER_PORT": str(port),
                LAUNCHED: "1",
            }
            workers.append(
                subprocess.Popen(argv, env=os.environ | variables, start_new_session=True)
            )
        # Ends them when this process ends in any way, kill -9 too.
        at_end.callback(Guard(worker.pid for worker in workers).close)
        return _wait([worker.pid for worker in workers], stop, grace_seconds)


def _wait(workers: Sequence[int], stop: StopSignals, grace: float) -> int:
    """Wait for all of them. The exit code of the whole."""
    first = 0
    told = False
    until = math.inf
    while True:
        codes = [_code(pid) for pid in workers]
        failed = [code for code in codes if code]
        if stop.asked and not told:
            told = True
            _send(workers, stop.signal or signal.SIGTERM)
        if failed and until == math.inf:
            first = failed[0]
            until = time.monotonic() + grace
            if not told:
                told = True
                _send(workers, signal.SIGTERM)
        if None not in codes:
            break
        if time.monotonic() > until:
            return first
        time.sleep(_LOOK_EVERY)
    if stop.asked and all(code in (0, *STOPPED) for code in codes):
        return stop.exit_code
    return first


def _code(pid: int) -> int | None:
    """The exit code of a child that has ended, 128 and the number for a signal; None before.

    It is left to be waited for: until then nobody else is given its number.
    """
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status + (0 if found.si_code == os.CLD_EXITED else 128)


def _send(workers: Sequence[int], number: int) -> None:
    for pid in workers:
        os.kill(pid, number)  # one that has ended was not waited for yet, and takes no harm


def _kill(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Whole groups, with what the workers started; and wait for them."""
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
