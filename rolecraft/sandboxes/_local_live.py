"""A live sandbox of plain processes: a temporary folder, and no wall around it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import uuid
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes._download import check_max_bytes, download_limit, take_out
from rolecraft.sandboxes._lasting import LastingSandbox
from rolecraft.sandboxes._local_files import copy_tree, free_of, place, read_file, write_file
from rolecraft.sandboxes._local_started import LocalStarted, kill_all_of, limited
from rolecraft.sandboxes._process import Started
from rolecraft.sandboxes._shell import to_the_end
from rolecraft.sandboxes._transfer import pack, unpack
from rolecraft.sandboxes._unused import in_use
from rolecraft.sandboxes._watched import run_watched
from rolecraft.sandboxes.base import Execution, SandboxLimits, as_bytes, checked
from rolecraft.sandboxes.live import (
    LiveSandbox,
    SandboxFileError,
    SandboxLost,
    SandboxSpec,
    check_port,
)


async def create(
    spec: SandboxSpec, base: str | Path | None, files: Mapping[str, str | bytes] = {}
) -> LocalSandbox:
    """A sandbox whose work folder begins as a copy of `base`, if any, with `files`."""
    contents = checked(["true"], files)
    outer = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="rolecraft-"))

    def fill() -> None:
        (outer / "tmp").mkdir()
        if base is None:
            (outer / "work").mkdir()
        else:
            copy_tree(Path(base), outer / "work")
        for name, content in contents.items():
            write_file(outer / "work", name, content)

    try:
        await to_the_end(asyncio.to_thread(fill))
    except BaseException:
        await to_the_end(asyncio.to_thread(free_of, outer))
        raise
    return LocalSandbox(spec, outer)


class LocalSandbox(LastingSandbox):
    """See `LiveSandbox` and `LocalProcess.create`."""

    def __init__(self, spec: SandboxSpec, outer: Path) -> None:
        super().__init__()
        self.id = uuid.uuid4().hex
        self.spec = spec
        self.folder = str(outer / "work")
        self._outer = outer
        self._root = outer / "work"
        self._forgotten = weakref.finalize(self, _end, outer)
        self.unused.close_after(self, spec.ttl_seconds)

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
        self._check_open()
        limits = limits or self.spec.limits
        contents = checked(command, files)

        def fill() -> Path:
            for name, content in contents.items():
                write_file(self._root, name, content)
            return self._place_of_work(cwd)

        where = await asyncio.to_thread(fill)
        self._check_open()
        try:
            done = await run_watched(
                [*limited(limits, cpu=True), *command],
                stdin=as_bytes(stdin),
                limits=limits,
                env=self._env(env),
                cwd=where,
            )
        except OSError as error:
            self._check_open()
            raise SandboxError(f"`{error.filename}` cannot be run: {error.strerror}.") from error
        self._check_open()
        return done

    async def start(
        self, argv: Sequence[str], *, cwd: str = "", env: Mapping[str, str] = {}
    ) -> Started:
        """See `Starter`."""
        self._check_open()
        where = self._place_of_work(cwd)
        return LocalStarted(
            [*limited(self.spec.limits, cpu=False), *argv], cwd=where, env=self._env(env)
        )

    @in_use
    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """See `LiveSandbox.read`."""
        self._check_open()
        check_max_bytes("read", max_bytes)
        return await asyncio.to_thread(read_file, self._root, path, max_bytes)

    @in_use
    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """See `LiveSandbox.write`."""
        self._check_open()
        data = as_bytes(content)
        await asyncio.to_thread(write_file, self._root, path, data, executable=executable)

    @in_use
    async def upload(self, source: str | Path, path: str) -> None:
        """See `LiveSandbox.upload`."""
        self._check_open()
        await asyncio.to_thread(self._upload, Path(source), path)

    @in_use
    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """See `LiveSandbox.download`."""
        self._check_open()
        most = download_limit(max_bytes, self.spec.limits)
        await asyncio.to_thread(self._download, path, Path(target), most)

    @in_use
    async def snapshot(self) -> LocalSnapshot:
        """See `LiveSandbox.snapshot`. Here it is a copy."""
        self._check_open()
        await self._end_shells()
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="rolecraft-"))
        copy = asyncio.to_thread(copy_tree, self._root, folder / "work")
        try:
            await to_the_end(copy)
        except BaseException:
            await to_the_end(asyncio.to_thread(free_of, folder))
            raise
        return LocalSnapshot(self.spec, folder)

    @in_use
    async def fork(self) -> LiveSandbox:
        """See `LiveSandbox.fork`. Here it is a copy."""
        self._check_open()
        await self._end_shells()
        return await create(self.spec, self._root)

    async def endpoint(self, port: int) -> str:
        """See `Ports`."""
        self._check_open()
        check_port(self.spec, port)
        return f"127.0.0.1:{port}"

    def __repr__(self) -> str:
        return f"<LocalSandbox {self.folder}{' (closed)' if self._closing else ''}>"

    async def _close(self) -> None:
        await self._end_shells()
        await asyncio.to_thread(self._forgotten)

    def _upload(self, source: Path, path: str) -> None:
        if not source.exists():
            raise UsageError(f"`upload({str(source)!r})`: there is no such file or folder.")
        unpack(pack(source), place(self._root, path), links_out=True)

    def _download(self, path: str, target: Path, most: int) -> None:
        source = place(self._root, path)
        if not source.exists():
            raise SandboxFileError(path, "there is no such file or folder")
        take_out(path, pack(source), target, most)

    def _place_of_work(self, cwd: str) -> Path:
        where = place(self._root, cwd or ".")
        if not where.is_dir():
            raise SandboxFileError(cwd, "there is no such folder")
        return where

    def _env(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.base_prefix, 'bin')}:{os.defpath}",
            "HOME": self.folder,
            "TMPDIR": str(self._outer / "tmp"),
            "LANG": "C.UTF-8",
            **self.spec.env,
            **more,
        }


@dataclass(eq=False)
class LocalSnapshot:
    """See `Snapshot`."""

    spec: SandboxSpec
    folder: Path

    def __post_init__(self) -> None:
        self.id = uuid.uuid4().hex
        self._forgotten = weakref.finalize(self, free_of, self.folder)

    async def create(self) -> LiveSandbox:
        """See `Snapshot.create`. Here it is a copy."""
        if not self._forgotten.alive:
            raise SandboxLost("The snapshot was closed.")
        return await create(self.spec, self.folder / "work")

    async def close(self) -> None:
        """See `Snapshot.close`."""
        await to_the_end(asyncio.to_thread(self._forgotten))


def _end(outer: Path) -> None:
    kill_all_of(outer)
    free_of(outer)
