"""`Landlock`: walls for machines on which user namespaces are switched off. Weaker than Bubblewrap.

No daemon, no program to install and no right is needed: each command restricts itself, and all that
it starts, before it begins. It can open the work folder, a folder for temporary files (`TMPDIR`),
the system's programs and libraries, and what the spec names, and nothing else of the host. It has
no socket but connected pairs, no shared memory of the host's, and a filter of system calls.

What Landlock cannot hold, so that a spec which requires it is refused:

- `processes`: that a process exists can be seen by its number (nothing more, and no signal gets
  through from version 6 on).
- `disk`: the work folder is a folder of the host's. Each file has a largest size.
- `files`, for an ordinary user: nothing outside can be read or written, but mode, owner and times
  of this user's own files can be changed. Under root, commands run as `nobody`, who has none.
- `memory` and `count` where no control group can be made.
- `survivors` before version 6 (Linux 6.12).

And even where `files` is held, whether a path of the host exists and how large it is can be asked,
and a file that everybody may write can be given the present time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import _cgroups, _landlock
from rolecraft.sandboxes._cgroups import Group
from rolecraft.sandboxes._keeper import NOBODY
from rolecraft.sandboxes._keeper_client import Keeper, KeeperError
from rolecraft.sandboxes._keeper_live import KeptSandbox, View, beginning
from rolecraft.sandboxes._local_files import copy_tree, free_of
from rolecraft.sandboxes._seccomp import ARCHITECTURES, filter_bytes, rules
from rolecraft.sandboxes._shell import to_the_end
from rolecraft.sandboxes._unused import in_use
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, checked
from rolecraft.sandboxes.bubblewrap import _python
from rolecraft.sandboxes.live import (
    AllowList,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    Wall,
    check_readable,
    check_walls,
)

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version"),
    *("/proc/filesystems", "/proc/sys/kernel/ngroups_max", "/sys/devices/system/cpu"),
)
"""What every command can read."""
FOR_THE_NETWORK = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols"),
    *("/etc/ssl", "/etc/ca-certificates", "/etc/gai.conf", "/run/systemd/resolve"),
)
"""What names and certificates need."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class _Keeper(Keeper):
    program = "_landlock_keeper"


class Landlock:
    """Commands that the kernel's Landlock and a filter of system calls hold. See above for what.

    `readable` are folders of the host that commands may also read, at the same path. `version`
    makes as if the kernel knew no more than that version of Landlock, for tests. Raises
    `SandboxError` if the kernel knows none; it never runs without walls.
    """

    def __init__(self, *, readable: Iterable[str | Path] = (), version: int | None = None) -> None:
        self.readable = tuple(Path(path) for path in readable)
        known = _landlock.version()
        self.version = known if version is None else min(version, known)
        self._keeper: Keeper | None = None

    @property
    def walls(self) -> frozenset[Wall]:
        """What it holds on this machine, as this user. See `SandboxProvider.walls`."""
        walls: set[Wall] = {"network"}
        held = {each for place in _cgroups.find_places() for each in place.controllers}
        if self.version >= 3 and os.geteuid() == 0:
            walls.add("files")
        if self.version >= 6:
            walls.add("survivors")
        if "memory" in held:
            walls.add("memory")
        if "pids" in held:
            walls.add("count")
        return frozenset(walls)

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`."""
        checked(command, files)
        async with await self.create(SandboxSpec(files=files, limits=limits)) as sandbox:
            done = await sandbox.run(command, stdin=stdin)
        # The folder has another name at every run, which must not be all that differs.
        return replace(
            done,
            stdout=done.stdout.replace(f"{sandbox.folder}/", ""),
            stderr=done.stderr.replace(f"{sandbox.folder}/", ""),
        )

    async def create(self, spec: SandboxSpec | None = None) -> LandlockSandbox:
        """See `SandboxProvider.create`. `base` is copied."""
        spec = spec or SandboxSpec()
        check_walls(
            "`Landlock`", spec, self.walls, "`Bubblewrap` holds it, where user namespaces are on."
        )
        if spec.image is not None or spec.root is not None:
            raise SandboxRefused("`Landlock`", ["image" if spec.image else "root"])
        if isinstance(spec.network, AllowList):
            raise SandboxRefused("`Landlock`", [f"network={spec.network!r}"])
        if spec.ports:
            raise SandboxRefused("`Landlock`", [f"ports={spec.ports!r}"])
        return await self._create(spec, spec.base)

    async def _create(self, spec: SandboxSpec, base: str | Path | None) -> LandlockSandbox:
        """A sandbox that begins with a copy of `base`, which a spec need not name."""
        check_readable((*self.readable, *spec.readable))
        if reason := why_not(self.version):
            raise SandboxError(f"There is no sandbox for code that a model wrote. {reason}")
        if self._keeper is None or not self._keeper.usable():
            self._keeper = _Keeper()
        keeper = self._keeper
        await asyncio.shield(keeper.ready)
        limits, places = spec.limits, _cgroups.find_places()
        outer = _new_folder()
        python, *home = _python()
        path = ":".join(dict.fromkeys([python, "/usr/local/bin", "/usr/bin", "/bin"]))
        env = {"PATH": path, "LANG": "C.UTF-8", "HOME": f"{outer}/work", "TMPDIR": f"{outer}/tmp"}
        full = spec.network == "full"
        readable = map(str, (*self.readable, *spec.readable))
        group = _cgroups.create(
            memory_bytes=limits.memory_bytes, processes=limits.processes, places=places
        )
        refused = rules(sockets="internet" if full else "none", namespaces=False)
        seccomp = base64.b64encode(filter_bytes(refused)).decode()
        view = View(0, env, seccomp, places)
        box = LandlockSandbox(self, keeper, view, spec, group, outer)
        async with beginning(box, group) as doors:
            try:
                await keeper.ask(
                    "create",
                    doors,
                    number=box.number,
                    folder=str(outer),
                    empty=base is None,
                    counted=group is not None and "pids" in group.held,
                    rules={
                        "read": [*SYSTEM, *home, *readable, *(FOR_THE_NETWORK if full else ())],
                        "write": [f"{outer}/work", f"{outer}/tmp"],
                        "devices": DEVICES,
                        "tcp": full,
                        "version": self.version,
                    },
                )
            except KeeperError as error:
                if error.errno != errno.EACCES:
                    raise
                raise SandboxError(
                    f"`Landlock` cannot make a folder in `{outer.parent}`: its commands' user may "
                    f"not. Set TMPDIR to a folder for everybody, such as /tmp."
                ) from error
            if base is not None:
                await to_the_end(asyncio.to_thread(_copy, Path(base), outer / "work"))
            for name, content in checked(["true"], spec.files).items():
                await box.write(name, content)
        return box

    def __repr__(self) -> str:
        return f"Landlock(readable={[str(path) for path in self.readable]})"


class LandlockSandbox(KeptSandbox):
    """See `LiveSandbox`. Made by `Landlock.create`; its folder is one of the host's."""

    provider = "Landlock"

    def __init__(
        self,
        maker: Landlock,
        keeper: Keeper,
        view: View,
        spec: SandboxSpec,
        group: Group | None,
        outer: Path,
    ) -> None:
        self.number = next(keeper.numbers)
        super().__init__(keeper, self.number, view, spec, group, str(outer / "work"))
        self._maker, self._outer = maker, outer

    @in_use
    async def snapshot(self) -> LandlockSnapshot:  # type: ignore[override]
        """See `LiveSandbox.snapshot`. Here it is a copy."""
        async with self._gate.alone():
            await self._stop()
            snapshot = LandlockSnapshot(self._maker, self._keeper, self.spec)
            try:
                await self._keeper.ask("hold", number=snapshot.number, folder=str(snapshot.kept))
                copy = asyncio.to_thread(_copy, Path(self.folder), snapshot.kept / "work")
                await to_the_end(copy)
            except BaseException:
                await to_the_end(snapshot.close())
                raise
            return snapshot

    @in_use
    async def fork(self) -> LandlockSandbox:
        """See `LiveSandbox.fork`. Here it is a copy."""
        async with self._gate.alone():
            await self._stop()
            return await self._maker._create(replace(self.spec, files={}), self.folder)

    async def _close(self) -> None:
        await super()._close()
        await to_the_end(asyncio.to_thread(free_of, self._outer))

    async def _stop(self) -> None:
        """End what runs, so that the folder stays as it is while it is copied."""
        self._check_open()
        await self._end_shells()
        await self._keeper.ask("stop", number=self.number)


class LandlockSnapshot:
    """See `Snapshot`. Closed or not, it goes with its keeper."""

    def __init__(self, maker: Landlock, keeper: Keeper, spec: SandboxSpec) -> None:
        self.id, self.number, self.kept = secrets.token_hex(8), next(keeper.numbers), _new_folder()
        self._maker, self._keeper, self._spec = maker, keeper, spec
        self._closed = False

    async def create(self) -> LandlockSandbox:
        """See `Snapshot.create`. Here it is a copy."""
        if self._closed:
            raise SandboxLost(f"Snapshot {self.id} is closed.")
        return await self._maker._create(replace(self._spec, files={}), self.kept / "work")

    async def close(self) -> None:
        """See `Snapshot.close`."""
        if not self._closed:
            self._closed = True
            await to_the_end(asyncio.to_thread(free_of, self.kept))
            self._keeper.tell("drop", number=self.number)


def why_not(version: int | None = None) -> str:
    """Why `Landlock` cannot be had here, as a sentence; empty if it can."""
    if (_landlock.version() if version is None else version) < 1:
        return (
            "This kernel has no Landlock: that takes Linux 5.13 or newer, and `landlock` among the "
            "names in /sys/kernel/security/lsm (boot option `lsm=landlock,...`)."
        )
    if (machine := os.uname().machine) not in ARCHITECTURES:
        names = ", ".join(ARCHITECTURES)
        return f"Its filter of system calls is for {names}, and this machine is {machine!r}."
    return ""


def _new_folder() -> Path:
    """A name for one; the keeper makes it."""
    return Path(tempfile.gettempdir(), f"rolecraft-{secrets.token_hex(8)}")


def _copy(source: Path, target: Path) -> None:
    """Copy a folder; it belongs to the user that commands run as."""
    try:
        copy_tree(source, target)
    except (OSError, RecursionError) as error:  # a command may have made what nobody can copy
        raise SandboxError(f"`{source}` cannot be copied: {error}") from error
    if os.geteuid() == 0:
        os.lchown(target, NOBODY, NOBODY)
        for folder, folders, names in os.walk(target):
            for name in (*folders, *names):
                with contextlib.suppress(FileNotFoundError):
                    os.lchown(os.path.join(folder, name), NOBODY, NOBODY)
