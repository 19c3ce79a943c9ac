"""What a sandbox holds does not fill this machine, nor hold it up, when it is taken out."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.sandboxes import (
    Bubblewrap,
    LocalProcess,
    SandboxFileError,
    SandboxLimits,
    SandboxSpec,
    _keeper_files,
)
from rolecraft.sandboxes._agent_link import FILES
from rolecraft.sandboxes._download import bounded
from rolecraft.sandboxes._landlock import version
from rolecraft.sandboxes._local_files import free_of
from rolecraft.sandboxes._transfer import TooLarge, most_of_archive, pack, unpack
from rolecraft.sandboxes.landlock import Landlock
from rolecraft.sandboxes.live import SandboxProvider

MIB = 2**20


@pytest.fixture(params=["local", "bubblewrap", "landlock"])
def provider(request: pytest.FixtureRequest, needs_program: Callable[..., None]) -> SandboxProvider:
    if request.param == "local":
        return LocalProcess()
    if request.param == "bubblewrap":
        needs_program("bwrap", package="bubblewrap")
        return Bubblewrap()
    if version() < 1:
        pytest.skip("this kernel has no Landlock")
    return Landlock()


async def test_a_limit_that_is_not_above_0_is_a_usage_error(
    provider: SandboxProvider, tmp_path: Path
) -> None:
    async with await provider.create(SandboxSpec(files={"f": "content"})) as sandbox:
        for wrong in (0, -1, -2, -9):
            with pytest.raises(UsageError, match=f"max_bytes={wrong}"):
                await sandbox.read("f", max_bytes=wrong)
            with pytest.raises(UsageError, match=f"max_bytes={wrong}"):
                await sandbox.download("f", tmp_path / "f", max_bytes=wrong)
        assert await sandbox.read("f", max_bytes=7) == b"content"
    assert not os.listdir(tmp_path)


async def test_a_download_is_bounded_by_max_bytes(
    provider: SandboxProvider, tmp_path: Path
) -> None:
    files = {"d/a": "x" * 6000, "d/b": "x" * 6000}
    async with await provider.create(SandboxSpec(files=files)) as sandbox:
        with pytest.raises(SandboxFileError, match=r"`d` in the sandbox: .*11999.*max_bytes"):
            await sandbox.download("d", tmp_path / "little", max_bytes=11_999)
        await sandbox.download("d", tmp_path / "all", max_bytes=12_000)
    assert (tmp_path / "all/b").stat().st_size == 6000


async def test_sparse_files_are_no_way_to_fill_the_disk(
    provider: SandboxProvider, tmp_path: Path
) -> None:
    """60 files of 16 MiB that take no room in a sandbox of 64 MB were 961 MB here."""
    limits = SandboxLimits(disk_bytes=4 * MIB)
    async with await provider.create(SandboxSpec(limits=limits)) as sandbox:
        await sandbox.run(["sh", "-c", "mkdir d e; truncate -s 3M d/1 d/2 d/3 d/4 d/5"])
        await sandbox.download("d", tmp_path / "fits")
        assert (tmp_path / "fits/5").stat().st_size == 3 * MIB
        assert (tmp_path / "fits/5").read_bytes() == bytes(3 * MIB)
        room = sum(path.stat().st_blocks * 512 for path in (tmp_path / "fits").iterdir())
        assert room < MIB, "what is sparse stays so"
        await sandbox.run(["sh", "-c", "truncate -s 3M d/6"])
        with pytest.raises(SandboxFileError, match=f"more than {16 * MIB} bytes"):
            await sandbox.download("d", tmp_path / "more")


def test_zeros_in_a_file_and_at_its_end_come_out(tmp_path: Path) -> None:
    content = b"a" * 70_000 + bytes(300_000) + b"b" * 10 + bytes(200_000)
    (tmp_path / "f").write_bytes(content)
    unpack(pack(tmp_path / "f"), tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content


def test_headers_without_end_are_larger_than_is_allowed(tmp_path: Path) -> None:
    """Files that are empty, so that `max_bytes` alone would never be reached."""

    def endless() -> Iterator[bytes]:
        yield tarfile.TarInfo(".").tobuf()
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "x" * 900_000}
        header = info.tobuf(tarfile.PAX_FORMAT)
        for _ in range(100):
            yield header
        raise AssertionError("it goes on for ever")

    with pytest.raises(TooLarge, match="too many"):
        unpack(endless(), tmp_path / "target", max_bytes=1000)


def test_what_comes_from_a_sandbox_elsewhere_is_bounded_before_it_is_on_disk() -> None:
    got = bytearray()
    take = bounded("f", got.extend, 1000)
    take(b"x" * 1000)
    with pytest.raises(SandboxFileError, match="1000 bytes"):
        take(b"x")
    assert len(got) == 1000
    take = bounded("f", got.extend, 1000, archive=True)
    take(bytes(most_of_archive(1000)))
    with pytest.raises(SandboxFileError, match="1000 bytes"):
        take(b"x")


def _swapping(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`folder/f` is a file when its kind is looked at, and a pipe when it is opened."""
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        status = real(path)
        if path.name == "f":
            path.unlink()
            os.mkfifo(path)
        return status

    monkeypatch.setattr(Path, "lstat", lstat)


def test_a_file_that_becomes_a_pipe_is_left_out_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("x")
    (source / "g").write_text("y")
    _swapping(source, monkeypatch)
    unpack(pack(source), tmp_path / "target")
    assert os.listdir(tmp_path / "target") == ["g"]


def test_the_agents_archive_leaves_out_a_file_that_becomes_a_pipe(tmp_path: Path) -> None:
    """The same for sandboxes elsewhere, in which `_agent_files.py` packs."""
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    for name in ("f", "g", "d/h"):
        (source / name).write_text(name)
    os.link(source / "g", source / "hard")
    os.symlink("g", source / "link")
    swap = """
import os, tarfile
real = tarfile.TarFile.gettarinfo
def gettarinfo(self, name, *words):
    info = real(self, name, *words)
    if name.endswith("/f"): os.unlink(name); os.mkfifo(name)
    return info
tarfile.TarFile.gettarinfo = gettarinfo
"""
    words = [sys.executable, "-I", "-S", "-c", swap + FILES.replace("from __future__", "#"), "pack"]
    done = subprocess.run([*words, source, "."], capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        assert sorted(archive.getnames()) == [".", "./d", "./d/h", "./g", "./hard", "./link"]
    unpack([done.stdout], tmp_path / "target")
    assert (tmp_path / "target/hard").read_text() == "g"


async def test_a_transfer_that_does_not_end_is_ended(
    needs_program: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs beside it has stopped it: the keeper kills it at its deadline."""
    needs_program("bwrap", package="bubblewrap")
    monkeypatch.setattr(_keeper_files, "TRANSFER_SECONDS", 1.0)
    async with await Bubblewrap().create() as sandbox:
        await sandbox.run(["sh", "-c", "mkdir d; truncate -s 9M d/1 d/2"])
        monkeypatch.setattr(_keeper_files, "take_out", _takes_nothing(tmp_path / "go"))
        with pytest.raises(SandboxFileError, match="longer than 1 s"):
            await asyncio.wait_for(sandbox.download("d", tmp_path / "d"), 60)


def _takes_nothing(go: Path) -> Callable[..., None]:
    """What reads one piece of an archive and then waits until the other end is gone."""
    import time

    def take_out(path: str, pieces: Iterator[bytes], target: Path, most: int) -> None:
        next(pieces)
        time.sleep(2)
        for _ in pieces:
            pass

    return take_out


async def test_a_cancelled_download_leaves_no_exception_that_nobody_looked_at(
    needs_program: Callable[..., None], tmp_path: Path
) -> None:
    needs_program("bwrap", package="bubblewrap")
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
    async with await Bubblewrap().create() as sandbox:
        await sandbox.run(["sh", "-c", "mkdir d; for i in 1 2 3 4; do truncate -s 16M d/$i; done"])
        for number in range(3):
            target = tmp_path / str(number)
            loading = asyncio.create_task(sandbox.download("d", target))
            while not target.exists():  # noqa: ASYNC110 (a file has no event)
                await asyncio.sleep(0.001)
            loading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loading
        assert (await sandbox.run(["echo", "on"])).stdout == "on\n"
    gc.collect()
    await asyncio.sleep(0)
    assert not said


def test_a_folder_is_deleted_without_its_links_goals_being_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o750)
    folder = tmp_path / "folder"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "a/b/link").symlink_to(outside)
    (folder / "link").symlink_to(outside)
    for name in ("a/b/c", "a/b", "a"):
        (folder / name).chmod(0)
    folder.chmod(0)
    free_of(folder)
    assert not folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o750
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        free_of(tmp_path / "link")
    assert outside.stat().st_mode & 0o777 == 0o750


async def test_a_file_of_proc_is_read_though_the_system_gives_it_in_small_pieces_only(
    needs_program: Callable[..., None],
) -> None:
    """To be asked for 16 MiB of one at once is an `OSError` of no memory."""
    needs_program("bwrap", package="bubblewrap")
    async with await Bubblewrap().create() as sandbox:
        assert await sandbox.read("/proc/sys/kernel/ostype") == b"Linux\n"
