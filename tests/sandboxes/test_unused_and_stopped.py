"""What ends a sandbox or a line without anybody's asking, and how that is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rolecraft.sandboxes import (
    Bubblewrap,
    Landlock,
    LocalProcess,
    SandboxLimits,
    SandboxLost,
    SandboxSpec,
    landlock,
)
from rolecraft.sandboxes import _keeper_provider as keeper_provider
from rolecraft.sandboxes.base import Execution
from rolecraft.sandboxes.live import SandboxProvider

MIB = 2**20
UNUSED = 0.4
"""Seconds without use after which a sandbox of these tests is closed."""
GREEDY = "python3 -c 'x = b\"a\" * (150 << 20); import time; time.sleep(20)'"


@pytest.fixture
def bubblewrap(needs_program: Callable[..., None]) -> Bubblewrap:
    needs_program("bwrap", package="bubblewrap")
    return Bubblewrap()


@pytest.fixture(params=["bubblewrap", "local"])
def provider(request: pytest.FixtureRequest) -> SandboxProvider:
    if request.param == "local":
        return LocalProcess()
    made: SandboxProvider = request.getfixturevalue("bubblewrap")
    return made


async def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not so within 60 s: {what}"
        await asyncio.sleep(0.02)


async def test_a_sandbox_that_nobody_uses_for_its_ttl_is_closed_and_says_so(
    provider: SandboxProvider,
) -> None:
    sandbox = await provider.create(SandboxSpec(ttl_seconds=UNUSED))
    shell = await sandbox.shell()
    await until(lambda: not shell.alive, "the shell has ended with its sandbox")
    with pytest.raises(SandboxLost, match=r"`ttl_seconds`, 0\.4"):
        await sandbox.run(["true"])
    await sandbox.close()


async def test_a_command_and_a_line_that_take_longer_than_the_ttl_are_use(
    provider: SandboxProvider,
) -> None:
    async with await provider.create(SandboxSpec(ttl_seconds=UNUSED)) as sandbox:
        assert (await sandbox.run(["sleep", str(3 * UNUSED)])).ok
        shell = await sandbox.shell()
        assert (await shell.run(f"sleep {3 * UNUSED}")).ok
        assert (await shell.run("echo still")).stdout == "still\n"


async def test_a_fork_has_the_ttl_of_the_first_one(bubblewrap: Bubblewrap) -> None:
    async with await bubblewrap.create(SandboxSpec(ttl_seconds=UNUSED)) as sandbox:
        shell = await (await sandbox.fork()).shell()
        await until(lambda: not shell.alive, "the fork was closed")


async def test_one_that_was_forgotten_is_closed_after_its_ttl(bubblewrap: Bubblewrap) -> None:
    """Else its files in memory and its control group would be there until the keeper ends."""
    before = set(_descendants(os.getpid()))
    async with await bubblewrap.create() as other:
        assert (await other.run(["true"])).ok
        (keeper,) = (pid for pid in set(_descendants(os.getpid())) - before if _is_leaf(pid))
        alone = _mount_namespaces(keeper)
        await (await bubblewrap.create(SandboxSpec(ttl_seconds=UNUSED))).write("kept", "for ever")
        await until(lambda: _mount_namespaces(keeper) == alone, "the forgotten one is closed")


async def test_one_that_its_user_closed_is_not_said_to_be_unused(
    provider: SandboxProvider,
) -> None:
    sandbox = await provider.create(SandboxSpec(ttl_seconds=UNUSED))
    await sandbox.close()
    await asyncio.sleep(2 * UNUSED)
    with pytest.raises(SandboxLost, match=r"was closed\.$"):
        await sandbox.run(["true"])


async def test_the_time_that_it_takes_to_make_a_sandbox_is_none_of_its_ttl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Landlock` copies the base, and a large one takes a while."""
    if reason := landlock.why_not():
        pytest.skip(reason)
    copied = landlock._copy

    def copy_slowly(source: Path, target: Path) -> None:
        time.sleep(3 * UNUSED)
        copied(source, target)

    monkeypatch.setattr(landlock, "_copy", copy_slowly)
    spec = SandboxSpec(base=tmp_path, ttl_seconds=UNUSED)
    async with await Landlock().create(spec) as sandbox:
        assert (await sandbox.run(["true"])).ok


@pytest.mark.parametrize("groups", [True, False], ids=["counted", "watched"])
async def test_a_line_that_is_killed_for_memory_says_so(
    bubblewrap: Bubblewrap, monkeypatch: pytest.MonkeyPatch, groups: bool
) -> None:
    """A control group kills the program; without one, a watch ends the whole shell."""
    if not groups:
        monkeypatch.setattr(keeper_provider, "find_places", list)
    elif "memory" not in bubblewrap.walls:
        pytest.skip("no control group can be made here")
    spec = SandboxSpec(limits=SandboxLimits(memory_bytes=64 * MIB, seconds=60))
    async with await bubblewrap.create(spec) as sandbox:
        shell = await sandbox.shell()
        done = await shell.run(GREEDY)
        assert (done.killed_for_memory, done.failure) == (True, "memory")
        assert "out of memory" in str(done)
        assert shell.alive is groups
        if groups:  # it is told once, and of nothing else
            assert (await shell.run("(exit 137)")).failure == "killed"


async def test_a_file_that_grows_to_its_limit_is_said_in_words(provider: SandboxProvider) -> None:
    spec = SandboxSpec(limits=SandboxLimits(file_bytes=MIB))
    async with await provider.create(spec) as sandbox:
        shell = await sandbox.shell()
        done = await shell.run("head -c 2M /dev/zero > large")
        assert str(done) == "[exit code 153: a file grew to its limit of size]"
    assert str(Execution(exit_code=3)) == "[exit code 3]"


@pytest.fixture
def folders() -> Iterator[list[str]]:
    """Some that every user can see."""
    with tempfile.TemporaryDirectory(prefix="rolecraft-test-") as place:
        made = [Path(place), *(Path(place, str(number)) for number in range(8))]
        for folder in made:
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        yield [str(folder) for folder in made[1:]]


async def test_views_that_no_sandbox_has_are_let_go(
    bubblewrap: Bubblewrap, monkeypatch: pytest.MonkeyPatch, folders: list[str]
) -> None:
    """Each is a mount namespace of the keeper's: with a folder for each sandbox there is no end."""
    monkeypatch.setattr(keeper_provider, "MOST_VIEWS", 2)
    before = set(_descendants(os.getpid()))
    for folder in folders:
        async with await bubblewrap.create(SandboxSpec(readable=(folder,))) as sandbox:
            assert (await sandbox.run(["test", "-d", folder])).ok
    new = set(_descendants(os.getpid())) - before
    (keeper,) = (pid for pid in new if _is_leaf(pid))
    await until(lambda: _mount_namespaces(keeper) <= 3, "views of the last two or so are left")


async def test_a_readable_folder_that_was_made_anew_is_the_new_one(
    bubblewrap: Bubblewrap, folders: list[str]
) -> None:
    """Such as a venv. A view that is kept has the old one, which is empty by now."""
    seen = []
    for name in ("old", "new"):
        shutil.rmtree(folders[0])
        os.mkdir(folders[0])
        os.chmod(folders[0], 0o755)
        os.mkdir(f"{folders[0]}/{name}")
        async with await bubblewrap.create(SandboxSpec(readable=(folders[0],))) as sandbox:
            seen.append((await sandbox.run(["ls", folders[0]])).stdout)
    assert seen == ["old\n", "new\n"]


def _descendants(pid: int) -> list[int]:
    found = []
    with suppress(OSError):  # it has ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _is_leaf(pid: int) -> bool:
    """Whether it is a process that has started none which still runs, as a keeper at rest."""
    return Path(f"/proc/{pid}/fd").exists() and not _descendants(pid)


def _mount_namespaces(pid: int) -> int:
    """How many of its open files stand for one."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return sum(os.readlink(file).startswith("mnt:") for file in files)
