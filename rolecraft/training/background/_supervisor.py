"""The process that stands over a run in the background: it starts it, waits, and notes its end.

    python -I -S _supervisor.py SPECIFICATION        (JSON; see `main`)

Without it nobody could say how a detached run ended: only a parent is told. It is small, does
nothing while the run goes on, and the run does not need it.

This file is also the supervisor's program, so it imports nothing of Rolecraft.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MARK = "ROLECRAFT_RUN"
"""Variable in the environment of a run in the background and of all that it starts."""
RECORD = "run.json"
"""The PID file of a run, in its output folder: what runs there, since when, and how it ended."""


def identify(pid: int) -> dict[str, Any] | None:
    """What tells a process from every other one: `pid`, `started`, `boot`, `host`.

    `started` is the system's own mark of when it began (Linux: clock ticks since boot, field 22 of
    /proc/PID/stat), `boot` the id of this boot, where the system has one. None for a process that
    is not there, or has ended and is only waited for.
    """
    started = _started(pid)
    if started is None:
        return None
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"pid": pid, "started": started, "boot": boot, "host": socket.gethostname()}


def _started(pid: int) -> str | None:
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return None
        # The second field is the program's name, which may have blanks and brackets in it.
        fields = stat[stat.rindex(b")") + 2 :].split()
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    line = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    state, _, began = line.strip().partition(" ")
    return None if not state or state.startswith("Z") else " ".join(began.split())


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small file, whole or not at all."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def main(record: dict[str, Any]) -> int:
    """Start `record["command"]`, keep `run.json` in `record["output"]` true, and wait for its end.

    Standard output is the run's log.
    """
    path = Path(record["output"], RECORD)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the run inherits that
    # Before the run is there, so that the run can see who stands over it.
    record["supervisor"] = identify(os.getpid())
    write_json(path, record)
    # A log that is written when a buffer is full says nothing for hours.
    variables = os.environ | {MARK: record["mark"], "PYTHONUNBUFFERED": "1"}
    try:
        process = subprocess.Popen(record["command"], stdin=subprocess.DEVNULL, env=variables)
    except OSError as error:
        say(f"`{record['command'][0]}` cannot be run: {error.strerror or error}.")
        write_json(path, record | {"ended": {"at": now(), "exit_code": 127}})
        return 127
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    record["process"] = identify(process.pid) or {"pid": process.pid, "started": "", "boot": ""}
    try:
        write_json(path, record)
    except OSError:
        process.kill()  # a run that nobody knows of could not be stopped
        raise
    code = process.wait()
    say(f"The run {in_words(code)}.")
    # The folder may have gone, or be another run's by now.
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text("utf-8")).get("mark") == record["mark"]:
            write_json(path, record | {"ended": {"at": now(), "exit_code": code}})
    return code if code >= 0 else 128 - code


def in_words(code: int) -> str:
    """How something ended, by its exit code; negative for the signal that killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def say(text: str) -> None:
    """One line in the log."""
    print(f"[rolecraft {now()}] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
