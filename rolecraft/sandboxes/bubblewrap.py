"""`Bubblewrap`: the default sandbox on Linux. No daemon, no network, no image.

Every sandbox gets namespaces of its own (user, mount, network, IPC, host name), a read-only `/usr`
and nothing else of the host's files, a work folder in memory that is gone with it, a cleared
environment, no capability and a filter of system calls. It needs no process: a *keeper*, one helper
process a provider, holds its namespaces and its files, which are layers in the keeper's memory.
Each command, and each shell, is started in there with a process namespace of its own, so that all
that it starts ends with it. The keeper ends with Rolecraft, also by a kill -9, and all of it with
the keeper.

Under root, the keeper and all sandboxes are the user `nobody`'s: limits on processes do not bind
root.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import _cgroups
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, checked
from rolecraft.sandboxes.live import EVERY_WALL, LiveSandbox, SandboxSpec, Wall, check_walls

if TYPE_CHECKING:
    from rolecraft.sandboxes._keeper_provider import Kept

FOLDER = "/box"
"""The work folder, as the command sees it; also its home."""
NEEDS = (
    "`bwrap` needs user namespaces; where they are forbidden, run Rolecraft where they are "
    "allowed, or choose another provider: `Landlock()`, or, without walls, `LocalProcess()`."
)


class Bubblewrap:
    """Commands in namespaces of their own, made by `bwrap` 0.8 or newer.

    `readable` are folders of the host that commands may also read, at the same path. Raises
    `SandboxError` if `bwrap` is not installed or not allowed here; it never runs without walls.
    """

    def __init__(self, *, readable: Iterable[str | Path] = ()) -> None:
        self.readable = tuple(Path(path) for path in readable)
        self._kept: dict[asyncio.AbstractEventLoop, Kept] = {}

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`. Files are written below `/box`, `/tmp` and `/dev/shm` only.

        The first run takes longer, for it starts the keeper: keep the object for many runs.
        """
        checked(command, files)
        async with await self.create(SandboxSpec(files=files, limits=limits)) as sandbox:
            return await sandbox.run(command, stdin=stdin)

    @property
    def walls(self) -> frozenset[Wall]:
        """See `SandboxProvider.walls`. The network's is for sandboxes without a network.

        `memory` wants a control group, for which an ordinary user needs a delegated one (systemd's
        `Delegate=yes`). Without, memory is looked at every 20 ms and what is above its limit is
        killed: that stops accidents, but neither what grows in between nor files in memory and
        pipes, which no process has. `count` is held without one, too: the kernel counts the
        processes of a sandbox's user (`RLIMIT_NPROC`), and that is in no other sandbox.
        """
        if any("memory" in place.controllers for place in _cgroups.find_places()):
            return EVERY_WALL
        return EVERY_WALL - {"memory"}

    async def create(self, spec: SandboxSpec | None = None) -> LiveSandbox:
        """See `SandboxProvider.create`.

        The first one in an event loop starts a keeper, a process that owns all sandboxes of this
        provider in this loop. It ends with this object, with Rolecraft, and once the loop is closed
        and this object is used in another. `base` is read as it is while the sandbox lives: do not
        change it. What a sandbox writes into its work folder since it began, was forked or made a
        snapshot takes `disk_bytes` at most; `/tmp` and `/dev/shm` together have as much again, and
        no fork has what is in them. As in a container, a folder that came with `base` can be moved
        but not by a plain rename (`EXDEV`): `mv` copies it.
        """
        spec = spec or SandboxSpec()
        if spec.requires:
            check_walls("`Bubblewrap`", spec, self.walls, _hint())
        return await self._kept_here().create(spec)

    def _kept_here(self) -> Kept:
        """What the loop that runs now has. No thread sets another's, so there is no lock."""
        from rolecraft.sandboxes._keeper_provider import Kept

        for loop in list(self._kept):
            if loop.is_closed():
                self._kept.pop(loop, None)
        return self._kept.setdefault(asyncio.get_running_loop(), Kept(self.readable))

    def __repr__(self) -> str:
        return f"Bubblewrap(readable={[str(path) for path in self.readable]})"


def _hint() -> str:
    """Why `memory` is not held, if so."""
    return f"It wants a control group, and {reason}." if (reason := _cgroups.reason()) else ""


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SandboxError(
            f"`{name}` is not installed, so there is no sandbox for code that a model wrote. "
            f"Install it (Debian, Ubuntu: `apt install {package}`), or choose another provider: "
            f"`Landlock()`, or, without walls, `LocalProcess()`."
        )
    return path


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
