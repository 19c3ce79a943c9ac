"""What each request does with the provider.

Invariant: a path of a request is one inside a sandbox; of this machine a client names nothing but
what the operator allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeVar

from rolecraft.sandboxes._download import download_limit
from rolecraft.sandboxes._output import listening
from rolecraft.sandboxes._remote_wire import (
    Done,
    Endpoint,
    LineBody,
    Made,
    Nothing,
    RunBody,
    ShellBody,
    SpecBody,
)
from rolecraft.sandboxes._transfer import pack
from rolecraft.sandboxes.base import DEFAULT_LIMITS
from rolecraft.sandboxes.live import (
    LiveSandbox,
    Ports,
    SandboxLost,
    SandboxProvider,
    SandboxRefused,
    SandboxSpec,
)
from rolecraft.sandboxes.server.allowed import check_limits, check_some, check_spec, check_words
from rolecraft.sandboxes.server.answers import Answer, answer
from rolecraft.sandboxes.server.bases import Bases, unpack_bounded
from rolecraft.sandboxes.server.jobs import Job, Told
from rolecraft.sandboxes.server.leases import Held, Lease, Places
from rolecraft.sandboxes.server.settings import ServerSettings

Out = TypeVar("Out")
GivenBack = list[Callable[[], None]]
_IN_THREAD = 64 * 1024
"""Characters of output from which on an answer is made apart from the event loop."""


class Workshop:
    """The provider, and what is done with it for clients."""

    def __init__(self, provider: SandboxProvider, settings: ServerSettings) -> None:
        self.provider, self._settings = provider, settings
        self.commands = Places("commands", settings.max_commands)
        self.sandboxes = Places("sandboxes", settings.max_sandboxes)
        self.bases = Bases(most_bytes=settings.max_bases, most_unpacked=settings.max_upload)

    async def create(self, lease: Lease, body: SpecBody, job: Job) -> Made:
        check_spec(body, self._settings)
        given_back = self._place_and_base(body.base)
        base = None if body.base is None else str(self.bases.path(body.base))
        made = await _or_all(self._create(body, base), given_back)
        held = Held(made, given_back, body.base, body.ttl_seconds)
        return await _enter(lease, lease.sandboxes, held, job, folder=made.folder)

    async def _create(self, body: SpecBody, base: str | None) -> LiveSandbox:
        return await self.provider.create(body.spec(base))

    async def create_from(self, lease: Lease, name: str, job: Job) -> Made:
        held = lease.snapshots.get(name)
        if held is None:
            raise SandboxLost("The server has no such snapshot of this client: it was closed.")
        snapshot: Any = held.made
        return await self._another(lease, snapshot.create, held, job)

    async def fork(self, lease: Lease, name: str, job: Job) -> Made:
        held, sandbox = lease.sandbox(name)
        with held.in_use():
            made = await self._another(lease, sandbox.fork, held, job)
        held.shells.clear()
        return made

    async def _another(
        self, lease: Lease, make: Callable[[], Awaitable[LiveSandbox]], of: Held, job: Job
    ) -> Made:
        """A sandbox that begins as `of` is."""
        given_back = self._place_and_base(of.base)
        made = await _or_all(make(), given_back)
        held = Held(made, given_back, of.base, made.spec.ttl_seconds)
        return await _enter(lease, lease.sandboxes, held, job, folder=made.folder)

    async def snapshot(self, lease: Lease, name: str, job: Job) -> Made:
        held, sandbox = lease.sandbox(name)
        given_back = self._place_and_base(held.base)
        with held.in_use():
            made = await _or_all(sandbox.snapshot(), given_back)
        held.shells.clear()
        return await _enter(lease, lease.snapshots, Held(made, given_back, held.base), job)

    def _place_and_base(self, base: str | None) -> GivenBack:
        """A place for another sandbox or snapshot, and the folder that it stands on."""
        given_back = [self.sandboxes.take()]
        if base is not None:
            try:
                given_back.append(self.bases.hold(base))
            except BaseException:
                given_back[0]()
                raise
        return given_back

    async def run(self, lease: Lease, name: str, body: RunBody, job: Job) -> Answer:
        held, sandbox = lease.sandbox(name)
        limits = sandbox.spec.limits if body.limits is None else body.limits.limits()
        check_limits(limits, self._settings)
        check_words(body.command, body.env, body.files, body.cwd)
        with held.in_use(), self._told(job, limits.output_bytes):
            execution = await sandbox.run(
                body.command,
                files=body.files,
                stdin=body.stdin,
                limits=None if body.limits is None else limits,
                cwd=body.cwd,
                env=body.env,
            )
        return await self._answer(Done(execution=execution))

    async def run_alone(self, body: RunBody) -> Answer:
        """One command in a fresh folder."""
        limits = DEFAULT_LIMITS if body.limits is None else body.limits.limits()
        check_limits(limits, self._settings)
        check_words(body.command, {}, body.files)
        with_files: dict[str, Any] = {"files": body.files, "stdin": body.stdin}
        run = getattr(self.provider, "run", None)
        give_back = self.sandboxes.take()
        try:
            if run is not None:
                execution = await run(body.command, **with_files, limits=limits)
            else:
                async with await self.provider.create(SandboxSpec(limits=limits)) as sandbox:
                    execution = await sandbox.run(body.command, **with_files)
        finally:
            give_back()
        return await self._answer(Done(execution=execution))

    async def _answer(self, done: Done) -> Answer:
        """What came of a command, in JSON. Raises `SandboxRefused` if that is too much."""
        texts = done.execution.stdout, done.execution.stderr
        most = self._settings.max_answer

        def make() -> Answer:
            if sum(map(_bytes_in_json, texts)) > most:
                raise SandboxRefused(
                    "The sandbox server",
                    ["output_bytes"],
                    f"The command was run, and what it printed is more than the {most} bytes of an "
                    f"answer (`--max-answer`). Ask for a smaller `output_bytes`, or have it print "
                    f"to a file.",
                )
            return answer(done)

        small = sum(map(len, texts)) < _IN_THREAD
        return make() if small else await asyncio.to_thread(make)

    def _told(self, job: Job, most: int) -> AbstractContextManager[None]:
        """Meanwhile the job says what is printed, if anybody wants to hear it."""
        if not job.followed:
            return nullcontext()
        return listening(Told(job, most, self._settings.max_answer))

    async def open_shell(self, lease: Lease, name: str, body: ShellBody, job: Job) -> Made:
        held, sandbox = lease.sandbox(name)
        check_words((), body.env, cwd=body.cwd)
        with held.in_use():
            shell = await sandbox.shell(cwd=body.cwd, env=body.env)
        number = f"{len(held.shells)}-{os.urandom(6).hex()}"
        held.shells[number] = shell
        job.undo = lambda: self.close_shell(lease, name, number)
        return Made(id=number)

    async def run_line(
        self, lease: Lease, name: str, number: str, body: LineBody, job: Job
    ) -> Answer:
        held, shell = lease.shell(name, number)
        wishes = {"seconds": body.seconds, "output_bytes": body.output_bytes}
        check_some(wishes, self._settings)
        most = body.output_bytes or lease.sandbox(name)[1].spec.limits.output_bytes
        with held.in_use(), self._told(job, most):
            execution = await shell.run(
                body.line, seconds=body.seconds, output_bytes=body.output_bytes
            )
        return await self._answer(Done(execution=execution, alive=shell.alive))

    async def interrupt(self, lease: Lease, name: str, number: str) -> Nothing:
        held, shell = lease.shell(name, number)
        with held.in_use():
            await shell.interrupt()
        return Nothing()

    async def close_shell(self, lease: Lease, name: str, number: str) -> None:
        """Close a shell; nothing if there is none."""
        held = lease.sandboxes.get(name)
        shell = None if held is None else held.shells.pop(number, None)
        if shell is not None:
            await shell.close()

    async def read(self, lease: Lease, name: str, path: str, most: int) -> bytes:
        held, sandbox = lease.sandbox(name)
        with held.in_use():
            return await sandbox.read(path, max_bytes=min(most, self._settings.max_body))

    async def write(
        self, lease: Lease, name: str, path: str, content: bytes, executable: bool
    ) -> Nothing:
        held, sandbox = lease.sandbox(name)
        with held.in_use():
            await sandbox.write(path, content, executable=executable)
        return Nothing()

    async def upload(self, lease: Lease, name: str, path: str, archive: IO[bytes]) -> Nothing:
        held, sandbox = lease.sandbox(name)
        scratch, most = self.bases.scratch(), self._settings.max_upload
        try:
            with held.in_use():
                await asyncio.to_thread(unpack_bounded, archive, scratch / "content", most)
                await sandbox.upload(scratch / "content", path)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return Nothing()

    async def download(
        self, lease: Lease, name: str, path: str, max_bytes: int | None
    ) -> tuple[Path, Iterator[bytes]]:
        """A folder, which whoever gets it deletes, and an archive of what is in it."""
        held, sandbox = lease.sandbox(name)
        most = min(download_limit(max_bytes, sandbox.spec.limits), self._settings.max_upload)
        scratch = self.bases.scratch()
        try:
            with held.in_use():
                await sandbox.download(path, scratch / "content", max_bytes=most)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
            raise
        return scratch, pack(scratch / "content")

    async def endpoint(self, lease: Lease, name: str, port: int) -> Endpoint:
        held, sandbox = lease.sandbox(name)
        if not isinstance(sandbox, Ports):
            raise SandboxRefused(
                repr(self.provider), ["ports"], "The provider of this server has no ports."
            )
        with held.in_use():
            return Endpoint(address=await sandbox.endpoint(port))


def _bytes_in_json(text: str) -> int:
    """Its size as `encoded` writes it, with memory for one piece of it."""
    pieces = (text[at : at + _IN_THREAD] for at in range(0, len(text), _IN_THREAD))
    return sum(len(json.dumps(piece)) - 2 for piece in pieces)


async def _enter(
    lease: Lease, where: dict[str, Held], held: Held, job: Job, *, folder: str = ""
) -> Made:
    try:
        name = lease.keep(held, where)
    except BaseException:
        await held.close()
        raise
    job.undo = lambda: lease.close_one(name)
    return Made(id=name, folder=folder)


async def _or_all(make: Awaitable[Out], given_back: GivenBack) -> Out:
    """What it makes; if it cannot be made, all is given back."""
    try:
        return await make
    except BaseException:
        for give_back in given_back:
            give_back()
        raise
