"""When the disk is full, may not be written, or holds what a newer Rolecraft wrote.

The rule for all of them: what was finished stays readable, the error names the file and the way
out, and when the fault is mended the same file goes on.

The disks are real: small or read-only file systems of a process of its own, inside bubblewrap.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Role, Team, UserRequirement
from rolecraft.actions import idempotency_key
from rolecraft.errors import JournalError, LongTermMemoryError, StoreError, TraceError
from rolecraft.roles import Remembered, SqliteMemory
from rolecraft.trajectories import (
    Event,
    FailureFinding,
    Journal,
    Recorder,
    Store,
    Trajectory,
    append_findings,
    header,
    load,
    load_findings,
    read_events,
    save,
)
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.events import SCHEMA_VERSION

ROOM = 256 * 1024
"""Bytes of the small disk."""

CALL = """
import pathlib, runpy, sys
runpy.run_path(sys.argv[1])[sys.argv[2]](pathlib.Path(sys.argv[3]))
"""

InItsFolder = Callable[..., None]


@pytest.fixture(scope="session")
def bwrap(needs_program: Any) -> list[str]:
    """The command before a command to run it with mounts of its own."""
    command = [str(needs_program("bwrap", package="bubblewrap")), "--bind", "/", "/"]
    command += ["--dev-bind", "/dev", "/dev"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"bubblewrap may not mount here: {tried.stderr.strip()}")
    return command


def run_this(function: Callable[[Path], None], folder: Path, *wrapped: str) -> None:
    """Call a function of this file with `folder`, in another process."""
    command = [sys.executable, "-c", CALL, __file__, function.__name__, str(folder)]
    done = subprocess.run([*wrapped, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def on_small_disk(bwrap: list[str], tmp_path: Path) -> InItsFolder:
    return lambda function: run_this(
        function, tmp_path, *bwrap, "--size", str(ROOM), "--tmpfs", str(tmp_path)
    )


@pytest.fixture
def on_read_only_disk(bwrap: list[str], tmp_path: Path) -> InItsFolder:
    return lambda function: run_this(
        function, tmp_path, *bwrap, "--ro-bind", str(tmp_path), str(tmp_path)
    )


def fill(folder: Path, *, leave: int = 0) -> Path:
    """Fill the disk with a file; deleting it makes room."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            file.truncate(max(0, file.tell() // 4096 * 4096 - leave))
    return filler


def said(number: int) -> Event:
    return Event("message", role="Ann", content=f"{number} " + "x" * 700)


def contents(path: Path) -> list[str]:
    run = load(path)
    assert run.problems == []
    return [event.content.split()[0] for event in run.of("message")]


# --- full ------------------------------------------------------------------------------------


def full_journal(folder: Path) -> None:
    path = folder / "run.jsonl"
    journal = Journal(path, header("run"))
    filler = fill(folder, leave=8192)
    recorder, finished, problem = Recorder(journal), 0, ""
    while not problem:
        try:
            recorder.add(said(finished))
            finished += 1
        except JournalError as error:
            problem = str(error)
    assert problem.startswith(f"`{path}`: ")
    assert "No space left on device. Everything before is safe; the file is closed." in problem
    assert problem.endswith("Make room, or record to another disk.")
    assert finished > 5
    assert contents(path) == list(map(str, range(finished)))
    filler.unlink()
    with Journal(path) as again:
        assert (again.next_seq, again.repaired) == (finished, "")
        Recorder(again, first=finished).add(said(finished))
    assert contents(path) == list(map(str, range(finished + 1)))


def test_a_full_disk_costs_the_event_being_recorded_and_no_other(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_journal)


def full_from_the_start(folder: Path) -> None:
    filler = fill(folder)
    with pytest.raises(JournalError, match="No space left on device"):
        Journal(folder / "run.jsonl")
    filler.unlink()
    with Journal(folder / "run.jsonl") as journal:
        assert journal.next_seq == 0


def test_a_journal_that_could_not_be_begun_is_begun_when_there_is_room(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_from_the_start)


def full_saving(folder: Path) -> None:
    path = folder / "run.jsonl"
    save(Trajectory("run", events=[Event("stop", seq=0)]), path)
    append_findings(path, [FailureFinding("a.b", "absent")])
    filler = fill(folder)
    large = Trajectory("run", events=[said(0)])
    large.events[0].seq = 0
    for place in (path, folder):
        with pytest.raises(JournalError, match=r"cannot be saved: No space left on device"):
            save(large, place)
    with pytest.raises(JournalError, match=r"findings\.jsonl`: .*No space left on device"):
        append_findings(path, [FailureFinding("c.d", "present", (0,), quote="x" * 5000)])
    assert [event.kind for event in load(path).events] == ["stop"]
    assert [finding.mode for finding in load_findings(path)] == ["a.b"]
    assert sorted(os.listdir(folder)) == ["filler", "run.findings.jsonl", "run.jsonl"]
    filler.unlink()
    assert contents(save(large, path)) == ["0"]


def test_a_full_disk_leaves_the_file_and_the_labels_that_were_there(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_saving)


def full_index(folder: Path) -> None:
    runs = folder / "runs"
    for name in "ab":
        with Journal(runs / f"{name}.jsonl", header(name)) as journal:
            recorder = Recorder(journal)
            for number in range(20):
                recorder.add(said(number))
    with Store(folder / "index.db") as index:
        index.index(runs / "a.jsonl")
        filler = fill(folder)
        with pytest.raises(StoreError, match=r"index\.db.*full.*can be deleted"):
            index.index(runs)
        assert len(list(index.events())) == 20, "what was indexed is still found"
        filler.unlink()
        assert index.index(runs) == 20


def test_an_index_on_a_full_disk_answers_and_goes_on_when_there_is_room(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_index)


def full_memory(folder: Path) -> None:
    async def use() -> None:
        async with SqliteMemory(folder / "memory.db") as memory:
            await memory.add([Remembered("tea at four")])
            filler = fill(folder)
            more = [Remembered(f"coffee {number} " + "x" * 2000) for number in range(100)]
            with pytest.raises(LongTermMemoryError, match=r"memory\.db.*full"):
                await memory.add(more)
            assert await memory.search("coffee") == [], "all of them or none"
            assert await memory.search("tea") == [Remembered("tea at four")]
            filler.unlink()
            await memory.add([Remembered("wine at eight")])
            assert await memory.search("wine") == [Remembered("wine at eight")]

    asyncio.run(use())


def test_a_memory_on_a_full_disk_remembers_and_goes_on_when_there_is_room(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_memory)


class Count(Action):
    """Has an effect on another disk, and says something long."""

    async def run(self, history: Any) -> str:
        with (self.role.effects / "effects").open("a") as file:
            file.write(f"{idempotency_key()}\n")
        await asyncio.sleep(0)
        return f"{len(history)} " + "x" * 300


class Counter(Role):
    effects: Path
    actions = [Count]
    watch = [Count, UserRequirement]


def counters(effects: Path, **options: Any) -> Team:
    return Team([Counter(name=name, effects=effects) for name in ("Ann", "Bob", "Cy")], **options)


async def problem_of(team: Team) -> str:
    try:
        await team.run("count", rounds=3)
    except JournalError as error:
        return str(error)
    return ""


def full_team(folder: Path) -> None:
    """Whichever write it is that finds the disk full."""
    whole = folder / "whole.jsonl"
    elsewhere = Path(tempfile.mkdtemp(dir=folder.parent))
    asyncio.run(counters(elsewhere, journal=whole).run("count", rounds=3))
    done = (elsewhere / "effects").read_text().split()
    assert len(done) == len(set(done)) == 9
    seen = set()
    for leave in range(4096, 40960, 4096):
        for before in range(0, 4096, 1024):  # a disk has room by the page, a file by the byte
            path = folder / f"{leave}-{before}" / "run.jsonl"
            (elsewhere / "effects").unlink()
            path.parent.mkdir()
            filler = fill(folder, leave=leave)
            team = counters(elsewhere, journal=path, about={"pad": "x" * before})
            if problem := asyncio.run(problem_of(team)):
                assert "No space left on device" in problem
                seen.add(problem.split("`")[1].removeprefix(str(path)))
            team.env.close()
            filler.unlink()
            if path.exists() and path.stat().st_size:
                assert load(path).problems == []
                again = counters(elsewhere)
                asyncio.run(again.recover(path))
                again.env.close()
                run = load(path)
                assert run.problems == []
                assert run.stop_reason == "rounds"
                said = [event.content for event in run.of("message")]
                assert said == [event.content for event in load(whole).of("message")]
                effects = (elsewhere / "effects").read_text().split()
                assert set(effects) == set(done)
                assert len(effects) - len(done) <= 3, "at most what was in flight is done again"
            shutil.rmtree(path.parent)
    assert seen == {"", ".pending"}, "both files of a record were the one that found it full"


def test_a_team_whose_disk_is_full_ends_with_an_error_and_goes_on_when_there_is_room(
    on_small_disk: InItsFolder,
) -> None:
    on_small_disk(full_team)


# --- read-only -------------------------------------------------------------------------------


def read_only(folder: Path) -> None:
    runs = folder / "runs"
    for path in (runs / "a.jsonl", runs / "new.jsonl", runs / "new" / "a.jsonl"):
        with pytest.raises(JournalError, match=r"Read-only file system\. .*that can be written to"):
            Journal(path)
    run = load(runs / "a.jsonl")
    assert contents(runs / "a.jsonl") == ["0"]
    with pytest.raises(JournalError, match="cannot be saved: Read-only file system"):
        run.save(runs)
    with pytest.raises(JournalError, match="Read-only file system"):
        append_findings(runs / "a.jsonl", [FailureFinding("c.d", "absent")])
    assert len(load_findings(runs / "a.jsonl")) == 1
    with Store(folder / "index.db") as index:
        assert [event.role for _, event in index.events()] == ["Ann"]
        with pytest.raises(StoreError, match=r"readonly database.*can be deleted"):
            index.rebuild(runs)
    with pytest.raises(StoreError, match=r"new\.db"):
        Store(folder / "new.db")
    with Store(":memory:") as index:
        assert index.index(runs) == 1, "what is only read can be indexed elsewhere"


def test_from_a_disk_that_may_only_be_read_everything_is_read(
    on_read_only_disk: InItsFolder, tmp_path: Path
) -> None:
    with Journal(tmp_path / "runs" / "a.jsonl", header("run")) as journal:
        Recorder(journal).add(said(0))
    append_findings(journal.path, [FailureFinding("a.b", "absent")])
    with Store(tmp_path / "index.db") as index:
        index.index(tmp_path / "runs")
    on_read_only_disk(read_only)


# --- newer -----------------------------------------------------------------------------------

NEWER = b'{"schema_version":%d,"trajectory":"x"}\n{"seq":0,"kind":"dream"}\n{"seq"' % (
    SCHEMA_VERSION + 1
)
WAY_OUT = rf"version {SCHEMA_VERSION + 1}; .*up to {SCHEMA_VERSION}\. .*git pull && pip install \."


def test_a_journal_of_a_newer_version_is_refused_by_all_that_reads_or_writes_it(
    tmp_path: Path,
) -> None:
    newer = tmp_path / "runs" / "newer.jsonl"
    with Journal(tmp_path / "runs" / "ours.jsonl", header("ours")) as journal:
        Recorder(journal).add(said(0))
    newer.write_bytes(NEWER)
    for use in (
        lambda: load(newer),
        lambda: list(read_events(newer)),
        lambda: Journal(newer),
        lambda: asyncio.run(counters(tmp_path, journal=newer, id="x").run("go")),
        lambda: asyncio.run(counters(tmp_path).recover(newer)),
    ):
        with pytest.raises(TraceError, match=WAY_OUT):
            use()
    with Store(tmp_path / "index.db") as index:
        with pytest.raises(TraceError, match=WAY_OUT):
            index.index(tmp_path / "runs")
        assert [found.id for found in index.trajectories()] == ["ours"], "the others are indexed"
        newer.write_bytes(NEWER.replace(b"%d" % (SCHEMA_VERSION + 1), b"%d" % SCHEMA_VERSION))
        index.index(tmp_path / "runs")
        assert len(index.trajectories()) == 2
    newer.write_bytes(NEWER)
    assert newer.read_bytes() == NEWER


def test_a_broken_line_of_a_round_under_way_is_not_passed_over(tmp_path: Path) -> None:
    """It may be the end of an action, which would be done a second time."""
    path = tmp_path / "run.jsonl"
    team = counters(tmp_path, journal=path)
    asyncio.run(team.run("count", rounds=2))
    team.env.close()
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:-3]) + b"\n")
    (tmp_path / "run.jsonl.pending").write_bytes(b'{"of":0}\n{"of"')
    with pytest.raises(TraceError, match=r"pending`: line 1 is broken: .*delete the file"):
        asyncio.run(counters(tmp_path).recover(path))
    (tmp_path / "run.jsonl.pending").unlink()
    assert asyncio.run(counters(tmp_path).recover(path)).stop == "rounds"


# --- two processes ---------------------------------------------------------------------------


def test_a_run_that_goes_on_cannot_be_recovered_by_a_second_process(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    team = counters(tmp_path, journal=path)
    asyncio.run(team.run("count", rounds=2))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another process"):
        asyncio.run(counters(tmp_path).recover(path))
    assert path.read_bytes() == before
    team.env.close()
    asyncio.run(counters(tmp_path).recover(path, rounds=1))


def test_a_file_that_was_closed_writes_into_no_other(tmp_path: Path) -> None:
    """The number of its descriptor may be that of the next file that somebody opens."""
    file = AppendFile(tmp_path / "a")
    file.close()
    with (tmp_path / "b").open("wb") as other:
        assert other.fileno() == file.fd
        for use in (lambda: file.append(b"x"), lambda: file.truncate(0)):
            with pytest.raises(JournalError, match="the file is closed; open it again"):
                use()
        other.write(b"y")
    assert (tmp_path / "b").read_bytes() == b"y"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_cannot_write_what_its_parent_opened(tmp_path: Path) -> None:
    """It shares the file and the lock, so nothing else would refuse it."""
    run_this(forked, tmp_path)


def forked(folder: Path) -> None:
    with Journal(folder / "run.jsonl") as journal:
        recorder = Recorder(journal)
        recorder.add(said(0))
        child = os.fork()
        if not child:
            status = 1
            try:
                recorder.add(said(1))
            except JournalError as error:
                status = 0 if "forked from" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        recorder.add(said(1))
    assert contents(journal.path) == ["0", "1"]
