"""`Bubblewrap`: the default sandbox on Linux. No daemon, no network, no image.

Every run gets namespaces of its own (user, mount, process, network, IPC, host name), a read-only
`/usr` and nothing else of the host's files, a work folder in memory that is gone with the run, a
cleared environment and no capability. Its processes are children of one that dies with this
process, so nothing survives, not even a kill -9 of Rolecraft: unless that comes in the few
milliseconds in which `bwrap` sets up, before it has bound its child's life to its own.

Under root, the sandbox is made and run by the user `nobody`: limits on processes do not bind root.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._watched import kernel_limits, run_watched
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, as_bytes, checked

FOLDER = "/box"
"""The work folder, as the command sees it; also its home."""
NOBODY = 65534


class Bubblewrap:
    """Commands in namespaces of their own, made by `bwrap` 0.8 or newer.

    `readable` are folders of the host that commands may also read, at the same path. Raises
    `SandboxError` if `bwrap` is not installed or not allowed here; it never runs without walls.
    """

    def __init__(self, *, readable: Iterable[str | Path] = ()) -> None:
        self.readable = tuple(Path(path) for path in readable)

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`. Files are written below `/box`, `/tmp` and `/dev/shm` only."""
        contents = checked(command, files)
        bwrap = _program("bwrap", "bubblewrap")
        with contextlib.ExitStack() as stack:
            fds = {name: stack.enter_context(_in_memory(data)) for name, data in contents.items()}
            status = stack.enter_context(_in_memory(b""))
            execution = await run_watched(
                [
                    *_as_nobody(),
                    bwrap,
                    *self._walls(fds, status, limits),
                    "--",
                    # Set inside, where processes are counted for this sandbox alone.
                    *kernel_limits(_program("prlimit", "util-linux"), limits),
                    f"--nproc={limits.processes}",
                    "--",
                    *command,
                ],
                stdin=as_bytes(stdin),
                limits=limits,
                env={},
                pass_fds=[*fds.values(), status],
                # It takes a moment to die with its parent, and a session of its own at once.
                apart=lambda: _child(status),
            )
            if not (execution.timed_out or execution.killed_for_memory):
                _check_started(os.pread(status, 65536, 0), execution)
        return execution

    def _walls(self, files: Mapping[str, int], status: int, limits: SandboxLimits) -> list[str]:
        """The options of `bwrap`."""
        size = ["--size", str(limits.disk_bytes)]
        python, *mounts = _python()
        path = ":".join(dict.fromkeys([python, "/usr/local/bin", "/usr/bin", "/bin"]))
        words = [
            *("--unshare-all", "--unshare-user", "--disable-userns"),
            *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
            *("--die-with-parent", "--new-session", "--json-status-fd", str(status)),
            *("--clearenv", "--setenv", "PATH", path, "--setenv", "HOME", FOLDER),
            *("--setenv", "LANG", "C.UTF-8"),
            *_system(),
            *("--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm"),
            *(*size, "--tmpfs", "/tmp", *size, "--tmpfs", FOLDER),
        ]
        for folder in (*mounts, *map(str, self.readable)):
            words += ["--ro-bind", folder, folder]
        for name, fd in files.items():
            words += ["--file", str(fd), f"{FOLDER}/{name}"]
        return [*words, "--chdir", FOLDER, "--remount-ro", "/dev", "--remount-ro", "/"]

    def __repr__(self) -> str:
        return f"Bubblewrap(readable={[str(path) for path in self.readable]})"


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SandboxError(
            f"`{name}` is not installed, so there is no sandbox for code that a model wrote. "
            f"Install it (Debian, Ubuntu: `apt install {package}`), or choose to run such code "
            f"without walls: `sandbox=LocalProcess()`."
        )
    return path


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    setpriv = _program("setpriv", "util-linux")
    return [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def _system() -> list[str]:
    """A read-only `/usr`, and what the root folder has of it under older names."""
    words = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _python() -> list[str]:
    """Where `python3` is found, and the folder it needs: this interpreter's, else the system's."""
    home = Path(sys.base_prefix).resolve()
    if home.is_relative_to("/usr"):
        return [str(home / "bin")]
    if os.geteuid() == 0:  # the sandbox is made by `nobody`, so look with its eyes
        reachable = all(folder.stat().st_mode & 0o001 for folder in (home, *home.parents))
    else:
        reachable = os.access(home, os.X_OK)
    if reachable:
        return [str(home / "bin"), str(home)]
    return ["/usr/bin"]


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    fd = os.memfd_create("rolecraft")
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _child(status: int) -> int | None:
    """The first process in the sandbox, whose end is that of all, once `bwrap` has named it."""
    found = re.search(rb'"child-pid": (\d+)', os.pread(status, 65536, 0))
    return int(found[1]) if found else None


def _check_started(status: bytes, execution: Execution) -> None:
    """Raise if `bwrap` does not say that the command was started and ended."""
    if b'"exit-code"' in status:
        return
    raise SandboxError(
        f"The sandbox could not be made: {execution.stderr.strip() or execution.exit_code!r}. "
        f"`bwrap` needs user namespaces; where they are forbidden, run Rolecraft where they are "
        f"allowed, or choose to run such code without walls: `sandbox=LocalProcess()`."
    )
