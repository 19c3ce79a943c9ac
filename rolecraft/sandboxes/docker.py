"""`Docker`: sandboxes as containers of `docker` or `podman`, made through the program itself.

A container has no network unless asked, no capability, no way to gain rights, and of the host's
files none but those that the spec names. Its process 1 hangs on a pipe of this process, so a
container does not outlive a kill -9; images of snapshots are removed by a janitor process then,
and what a machine's fall has left, by the next start.

It takes more time than `Bubblewrap`, a tenth of a second a command, and a daemon. Take it for
images: one of SWE-bench's, or another distribution than the host's.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from rolecraft.errors import UsageError
from rolecraft.sandboxes._agent_link import PipeLink
from rolecraft.sandboxes._agent_sandbox import AgentProvider, AgentSandbox
from rolecraft.sandboxes._docker_arguments import LABEL, refuse, run_words
from rolecraft.sandboxes._docker_cli import Cli, Program, has_ended, this_process
from rolecraft.sandboxes._docker_container import Container, ContainerLink
from rolecraft.sandboxes.live import (
    SandboxLost,
    SandboxSpec,
    Snapshot,
    Wall,
    check_port,
    check_walls,
)

FOLDER = "/var/box/work"
COMMIT_SECONDS = 600.0


class Docker(AgentProvider):
    """Containers of `image`, or of the image that a spec names. `program` is the one to call.

    The image needs `python3`, 3.9 or newer, and `bash` for shells. Its variables but PATH are
    not taken over: name in `SandboxSpec(env=...)` what commands need.

    `folder` is the work folder; it is made if the image has none. Commands run as `user`, a number:
    the default has no rights in the image but to read, so for an image whose work folder is root's
    (`/testbed` of SWE-bench) take `user=0`, which is root without any capability. `cpus` bounds
    processors. `quota` holds `disk_bytes` by the storage driver, where Docker's can (overlay2 on
    xfs with `pquota`, btrfs, zfs). `pull` is when images are fetched. `options` stand right after
    the program's name (`("--context", "build-host")`), `run_options` before the image of every
    `run` (`("--runtime", "runsc")`).
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        program: Program = "docker",
        folder: str = FOLDER,
        user: int = 1000,
        cpus: float | None = None,
        quota: bool = False,
        pull: Literal["missing", "never", "always"] = "missing",
        start_seconds: float = 120.0,
        options: Sequence[str] = (),
        run_options: Sequence[str] = (),
    ) -> None:
        if program not in ("docker", "podman"):
            raise UsageError(f"`Docker(program={program!r})`: it is `'docker'` or `'podman'`.")
        if quota and program == "podman":
            raise UsageError("`Docker(quota=True)`: podman has no quota for one container.")
        if not folder.startswith("/") or folder == "/":
            raise UsageError(f"`Docker(folder={folder!r})`: give an absolute path, not `/`.")
        self.image, self.folder, self.user = image, folder, user
        self.cpus, self.quota, self.start_seconds = cpus, quota, start_seconds
        self.pull: Literal["missing", "never", "always"] = pull
        self.run_options = tuple(run_options)
        self.cli = Cli(program, tuple(options))
        self._swept: asyncio.Task[None] | None = None

    @property
    def walls(self) -> frozenset[Wall]:
        """See `SandboxProvider.walls`. `disk` only with `quota`."""
        held: set[Wall] = {"files", "network", "processes", "memory", "count", "survivors"}
        return frozenset(held | ({"disk"} if self.quota else set()))

    async def create(self, spec: SandboxSpec | None = None) -> DockerSandbox:
        """See `SandboxProvider.create`. An `AllowList`, a `root` and ports without a network are
        refused. Raises `SandboxError` without the program, its daemon or the image.
        """
        spec = spec or SandboxSpec()
        hint = "`Docker(quota=True)` holds `disk` where the storage driver can."
        check_walls("Docker", spec, self.walls, hint)
        refuse(spec)
        image = spec.image or self.image
        if image is None:
            raise UsageError("`Docker()` needs an image: `Docker('python:3.12')`, or in the spec.")
        await self._sweep()
        return await self.make(spec, Image(self.cli, image))

    async def make(self, spec: SandboxSpec, image: Image, *, fill: bool = True) -> DockerSandbox:
        """A sandbox of an image, filled as the spec says unless it begins as a snapshot."""
        name = f"rolecraft-{uuid.uuid4().hex[:16]}"
        words = run_words(
            spec,
            program=self.cli.program,
            image=image.name,
            name=name,
            owner=this_process(),
            user=f"{self.user}:{self.user}",
            cpus=self.cpus,
            disk=self.quota,
            pull=self.pull if fill else "never",
            options=self.run_options,
        )
        image.users += 1
        try:
            container = await Container.start(
                self.cli, words, name=name, user=self.user, seconds=self.start_seconds
            )
        except BaseException:
            await image.let_go()
            raise
        sandbox = DockerSandbox(spec, DockerPlace(self, container, image), folder=self.folder)
        try:
            if fill:
                await container.make_folder(self.folder)
                await sandbox.begin()
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def _sweep(self) -> None:
        """Once for each provider: remove what processes that have ended have left."""
        if self._swept is None or (self._swept.done() and self._swept.exception()):
            self._swept = asyncio.create_task(sweep(self.cli))
        await asyncio.shield(self._swept)
        janitor(self.cli)

    def __repr__(self) -> str:
        return f"Docker({self.image!r}, program={self.cli.program!r})"


class DockerSandbox(AgentSandbox):
    """See `LiveSandbox` and `Ports`. A container."""

    place: DockerPlace

    async def endpoint(self, port: int) -> str:
        """See `Ports.endpoint`."""
        check_port(self.spec, port)
        container = self.place.container
        answer = await container.cli.call("port", container.name, f"{port}/tcp")
        return answer.splitlines()[0].strip()


class DockerPlace:
    """See `Place`."""

    shared = False

    def __init__(self, provider: Docker, container: Container, image: Image) -> None:
        self.provider, self.container, self.image = provider, container, image
        self._open = True

    async def open(self, order: dict[str, Any]) -> PipeLink:
        """See `Place.open`."""
        if not self.container.alive:
            raise SandboxLost(f"The container {self.container.name} is gone.")
        return await ContainerLink.begin(self.container, order)

    async def keep(self, sandbox: AgentSandbox) -> Snapshot:
        """See `Place.keep`: a layer on top of the image, without a copy of what is below."""
        name = f"localhost/rolecraft-snapshot:{uuid.uuid4().hex[:16]}"
        cli = self.container.cli
        label = f"LABEL {LABEL}={this_process()}"
        words = ("commit", "--change", label, self.container.name, name)
        await cli.call(*words, seconds=COMMIT_SECONDS)
        return DockerSnapshot(self.provider, sandbox.spec, Image(cli, name, ours=True))

    async def close(self) -> None:
        """See `Place.close`."""
        if self._open:
            self._open = False
            await self.container.remove()
            await self.image.let_go()

    def __repr__(self) -> str:
        return self.container.name


class DockerSnapshot:
    """See `Snapshot`. An image."""

    def __init__(self, provider: Docker, spec: SandboxSpec, image: Image) -> None:
        self.id = image.name
        self._provider, self._image = provider, image
        self._spec = replace(spec, base=None, files={})
        image.users += 1
        self._closed = False

    async def create(self) -> DockerSandbox:
        """See `Snapshot.create`."""
        if self._closed:
            raise SandboxLost("The snapshot was closed.")
        return await self._provider.make(self._spec, self._image, fill=False)

    async def close(self) -> None:
        """See `Snapshot.close`. The image goes with the last sandbox that was made of it."""
        if not self._closed:
            self._closed = True
            await self._image.let_go()


class Image:
    """An image, and how many snapshots and containers need it. `ours` is removed with the last."""

    def __init__(self, cli: Cli, name: str, *, ours: bool = False) -> None:
        self.cli, self.name, self.ours = cli, name, ours
        self.users = 0

    async def let_go(self) -> None:
        """One that needed it does no more."""
        self.users -= 1
        if self.ours and self.users == 0:
            await self.cli.ask("rmi", self.name)


async def sweep(cli: Cli) -> None:
    """Remove the containers and images of processes of this machine that have ended.

    Raises `SandboxError` if the program does not answer.
    """
    for kind, remove in ((("ps", "--all"), ("rm", "--force")), (("images",), ("rmi",))):
        found = (await cli.call(*kind, "--quiet", "--filter", f"label={LABEL}")).split()
        for each in dict.fromkeys(found):
            form = f'{{{{index .Config.Labels "{LABEL}"}}}}'
            answer = await cli.ask("inspect", "--format", form, each)
            if answer.code == 0 and has_ended(answer.stdout.strip()):
                await cli.ask(*remove, each)


_janitors: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}


def janitor(cli: Cli) -> None:
    """Have a process wait for the end of this one, to remove what it leaves. Once for each `cli`.

    It has a session of its own, and learns of the end by that of a pipe: a kill -9 tells nobody.
    """
    words = tuple(cli.words())
    if words in _janitors and _janitors[words].poll() is None:
        return
    if not _janitors:
        atexit.register(_end_janitors)
    _janitors[words] = subprocess.Popen(
        [sys.executable, "-m", "rolecraft.sandboxes._docker_janitor", this_process(), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def _end_janitors() -> None:
    for process in _janitors.values():
        assert process.stdin is not None
        process.stdin.close()
    for process in _janitors.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    _janitors.clear()
