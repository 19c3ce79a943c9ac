"""A sandbox that lives on, as `Bubblewrap` makes them: the keeper does the work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import _cgroups
from rolecraft.sandboxes._cgroups import Group, Place
from rolecraft.sandboxes._command_groups import CommandGroups, Counted
from rolecraft.sandboxes._gate import Gate
from rolecraft.sandboxes._keeper_client import Keeper, KeeperError, KeptProcess, pipes
from rolecraft.sandboxes._keeper_files import REASONS, KeptFiles
from rolecraft.sandboxes._keeper_process import NO_FOLDER
from rolecraft.sandboxes._keeper_proxy import PORT, Proxy, forward, listen
from rolecraft.sandboxes._keeper_streams import read_all, write_all
from rolecraft.sandboxes._lasting import LastingSandbox
from rolecraft.sandboxes._output import HeadAndTail
from rolecraft.sandboxes._shell import to_the_end
from rolecraft.sandboxes._unused import in_use
from rolecraft.sandboxes.base import KILLED, Execution, SandboxLimits, as_bytes, checked
from rolecraft.sandboxes.bubblewrap import FOLDER
from rolecraft.sandboxes.live import (
    AllowList,
    SandboxFileError,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    check_port,
)

MOST_OPEN_FILES = 1024
"""Files that a process of a sandbox can have open, as in most shells."""
OOM_TICK = 0.2
"""Seconds between two looks at what the kernel has killed."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class View:
    """What sandboxes of one provider and one kind have in common."""

    number: int
    """The keeper's, for the read-only system that they see."""
    env: Mapping[str, str]
    seccomp: str
    """The filter of system calls, in base64."""
    places: Sequence[Place]
    """Where groups with limits can be made."""


async def create(
    keeper: Keeper,
    view: View,
    spec: SandboxSpec,
    begin: int | None,
    *,
    fresh: bool = False,
    copied: str | Path | None = None,
) -> KeptSandbox:
    """A sandbox whose work folder begins as `begin`, a number that the keeper holds.

    A `fresh` one gets the spec's files, and a copy of the folder `copied`, if any.
    """
    limits = spec.limits
    group = _cgroups.create(
        memory_bytes=limits.memory_bytes, processes=limits.processes, places=view.places
    )
    if "memory" in spec.requires and (group is None or "memory" not in group.held):
        if group is not None:
            group.remove()
        raise SandboxRefused("`Bubblewrap`", ["memory"], "The control group could not be made.")
    number = next(keeper.numbers)
    box = KeptSandbox(keeper, number, view, spec, group)
    async with beginning(box, group) as doors:
        await keeper.ask(
            "create",
            doors,
            number=number,
            view=view.number,
            begin=begin,
            folder=FOLDER,
            disk=limits.disk_bytes,
            network=spec.network == "full",
        )
        if isinstance(spec.network, AllowList):
            await box.let_out(spec.network)
        if copied is not None:
            await box.upload(copied, ".")
        if fresh:
            for name, content in checked(["true"], spec.files).items():
                await box.write(name, content)
    return box


@contextlib.asynccontextmanager
async def beginning(box: KeptSandbox, group: Group | None) -> AsyncIterator[list[int]]:
    """Around what fills a new sandbox: one that cannot be filled is closed.

    Gives the descriptors by which the keeper puts processes into `group`. What the system refuses
    becomes a `SandboxError`.
    """
    doors: list[int] = []
    try:
        doors += group.doors() if group is not None else []
        yield doors
    except BaseException as error:
        await to_the_end(box.close())
        if isinstance(error, OSError):
            raise SandboxError(f"The sandbox could not be made: {error}.") from error
        raise
    finally:
        for door in doors:
            os.close(door)
    box.unused.close_after(box, box.spec.ttl_seconds)


class KeptSnapshot:
    """See `Snapshot`. Closed or not, it goes with its keeper."""

    def __init__(self, keeper: Keeper, number: int, view: View, spec: SandboxSpec) -> None:
        self.id = secrets.token_hex(8)
        self._keeper, self._number, self._view, self._spec = keeper, number, view, spec
        self._closed = False

    async def create(self) -> KeptSandbox:
        """See `Snapshot.create`."""
        if self._closed:
            raise SandboxLost(f"Snapshot {self.id} is closed.")
        return await create(self._keeper, self._view, self._spec, self._number)

    async def close(self) -> None:
        """See `Snapshot.close`."""
        if not self._closed:
            self._closed = True
            self._keeper.tell("drop", number=self._number)


class KeptSandbox(LastingSandbox, KeptFiles):
    """See `LiveSandbox`. Made by `Bubblewrap.create`."""

    provider = "Bubblewrap"

    def __init__(
        self,
        keeper: Keeper,
        number: int,
        view: View,
        spec: SandboxSpec,
        group: Group | None,
        folder: str = FOLDER,
    ) -> None:
        super().__init__()
        self.id, self.spec, self.folder = secrets.token_hex(8), spec, folder
        self._keeper, self._number, self._view, self._group = keeper, number, view, group
        self._servers: dict[int, asyncio.Server] = {}
        self._env: dict[str, str] = {}
        self._groups = CommandGroups(group)
        self._gate = Gate()

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] = {},
        limits: SandboxLimits | None = None,
        seconds: float | None = None,
        transfer: bool = False,
    ) -> KeptProcess:
        """See `Starter.start`. `limits` are the spec's unless given; at `seconds` it is killed.

        A `transfer` is an archive on its way in or out: see `_keeper_process.Command`.
        """
        return (await self._start(argv, cwd, env, limits, seconds, transfer=transfer))[0]

    async def _start(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits | None,
        seconds: float | None,
        *,
        transfer: bool = False,
    ) -> tuple[KeptProcess, Counted]:
        """See `start`; and where the kernel counts what it kills of the command for memory."""
        self._check_open()
        keeper, limits = self._keeper, limits or self.spec.limits
        counted = self._groups.take()
        try:
            ours, theirs = pipes()
        except BaseException:
            counted.close()
            self._groups.give_back(counted)
            raise
        number = next(keeper.numbers)
        ended = keeper.ending(number)
        ended.add_done_callback(lambda _: self._groups.give_back(counted))
        process = KeptProcess(keeper, number, ours, ended, counted.kills)
        held = self._group is not None and "memory" in self._group.held
        apart = limits.memory_bytes < self.spec.limits.memory_bytes
        try:
            await keeper.ask(
                "start",
                [*theirs, *counted.doors],
                number=number,
                box=self._number,
                argv=list(argv),
                cwd=str(PurePosixPath(self.folder, cwd)),
                env={**self._view.env, **self._env, **self.spec.env, **env},
                limits=_kernel_limits(limits) if not transfer else [],
                transfer=transfer,
                seconds=seconds,
                memory=limits.memory_bytes if apart or not held else None,
                apart=apart,
                seccomp=self._view.seccomp,
            )
        except BaseException as error:
            process.kill()
            if isinstance(error, KeeperError):
                ended.cancel()  # it will never be told: there is no command
            for fd in ours:
                os.close(fd)
            self._check_open()
            if isinstance(error, KeeperError) and error.errno in REASONS:
                raise SandboxFileError(cwd, "there is no such folder") from error
            raise
        finally:
            for fd in theirs:
                os.close(fd)
            counted.close()
        return process, counted

    @in_use
    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """See `LiveSandbox.write`. A snapshot has it whole or not at all, and so with transfers."""
        async with self._gate.inside():
            await super().write(path, content, executable=executable)

    @in_use
    async def upload(self, source: str | Path, path: str) -> None:
        """See `LiveSandbox.upload`."""
        async with self._gate.inside():
            await super().upload(source, path)

    @in_use
    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """See `LiveSandbox.read`."""
        return await super().read(path, max_bytes=max_bytes)

    @in_use
    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """See `LiveSandbox.download`."""
        await super().download(path, target, max_bytes=max_bytes)

    @in_use
    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> Execution:
        """See `LiveSandbox.run`."""
        for name, content in checked(command, files).items():
            await self.write(name, content)
        limits = limits or self.spec.limits
        loop = asyncio.get_running_loop()
        began = loop.time()
        process, counted = await self._start(command, cwd, env, limits, limits.seconds)
        out, err = HeadAndTail(limits.output_bytes), HeadAndTail(limits.output_bytes)
        try:
            reading = [read_all(process.stdout, out), read_all(process.stderr, err)]
            writing = asyncio.ensure_future(write_all(process.stdin, as_bytes(stdin)))
            watching = asyncio.ensure_future(_end_if_killed_for_memory(process, counted))
            try:
                await asyncio.gather(*reading)
                end = await process.ending()
            finally:
                writing.cancel()
                watching.cancel()
        except BaseException:
            process.kill()
            with contextlib.suppress(SandboxLost):
                await asyncio.shield(process.ending())
            raise
        finally:
            os.close(process.stdout)
            os.close(process.stderr)
        self._check_open()
        if end.failed is not None:
            if end.failed.startswith(NO_FOLDER):
                raise SandboxFileError(cwd, end.failed.removeprefix(NO_FOLDER))
            raise SandboxError(f"`{command[0]}` could not be started: {end.failed}.")
        memory = end.why == "memory" or counted.killed()
        timed_out = end.why == "timeout" or end.code == 128 + signal.SIGXCPU
        return Execution(
            exit_code=KILLED if memory else end.code,
            stdout=out.text,
            stderr=err.text,
            timed_out=timed_out,
            stdout_truncated=out.truncated,
            stderr_truncated=err.truncated,
            killed_for_memory=memory and not timed_out,
            seconds=loop.time() - began,
        )

    async def endpoint(self, port: int) -> str:
        """See `Ports`. The first call for a port makes the way in, on a free port of this host."""
        self._check_open()
        check_port(self.spec, port)
        if self.spec.network == "full":
            return f"127.0.0.1:{port}"

        async def connect() -> socket.socket:
            there = await self._socket()
            try:
                loop = asyncio.get_running_loop()
                await loop.sock_connect(there, ("127.0.0.1", port))
            except BaseException:
                there.close()
                raise
            return there

        if port not in self._servers:
            self._servers[port] = await forward(connect)
        host, number = self._servers[port].sockets[0].getsockname()
        return f"{host}:{number}"

    async def let_out(self, network: AllowList) -> None:
        """Make the hosts of an allow-list reachable, by a proxy that is named in `env`."""
        self._servers[0] = await listen(await self._socket(), Proxy(network.hosts))
        proxy = f"http://127.0.0.1:{PORT}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")
        own = {"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"}
        self._env = dict.fromkeys(names, proxy) | own

    async def _socket(self) -> socket.socket:
        """A socket of this process in the sandbox's own network."""
        fds = await self._keeper.ask("socket", box=self._number)
        made = socket.socket(fileno=fds[0])
        made.setblocking(False)
        return made

    @in_use
    async def snapshot(self) -> KeptSnapshot:
        """See `LiveSandbox.snapshot`."""
        self._check_open()
        await self._end_shells()
        number = next(self._keeper.numbers)
        async with self._gate.alone():
            self._check_open()
            try:
                await self._keeper.ask("snapshot", number=number, of=self._number)
            except BaseException:
                self._keeper.tell("drop", number=number)
                raise
        return KeptSnapshot(self._keeper, number, self._view, self.spec)

    async def _close(self) -> None:
        for server in self._servers.values():
            server.close()
        await self._end_shells()
        with contextlib.suppress(SandboxLost):
            await self._keeper.ask("close", number=self._number)
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)

    def __repr__(self) -> str:
        return f"<sandbox {self.id} of {self.provider}{', closed' if self._closing else ''}>"


async def _end_if_killed_for_memory(process: KeptProcess, counted: Counted) -> None:
    """End the command once the kernel has killed a process of it for memory.

    Else what waits for the one that was killed would wait to the end of its time.
    """
    while True:
        await asyncio.sleep(OOM_TICK)
        if counted.killed():
            process.kill()
            return


def _kernel_limits(limits: SandboxLimits) -> list[tuple[int, int]]:
    """What the kernel holds each process to, by the numbers of `resource`."""
    return [
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, 4 * limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, max(1, limits.processes - 1)),  # its init is one more
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, min(MOST_OPEN_FILES, *resource.getrlimit(resource.RLIMIT_NOFILE))),
    ]
