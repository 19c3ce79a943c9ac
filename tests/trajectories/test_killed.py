"""Killing the process at random points of a recorded run never corrupts journal or store.

A real process records turns into a journal and indexes them into a store, over and over. It is
killed (SIGKILL) when the journal has reached a random size, and another one goes on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rolecraft.trajectories import Journal, Store, load

# Imports once, then forks one writer for each line that it reads, and says when it has died.
PROGRAM = """
import os, sys
from rolecraft.trajectories import Event, Journal, Recorder, Signal, Store, header, signal_event

def text_of(seq):
    return f"{seq} 漢字\\n" * (seq * 7 % 40)

def write_until_killed(journal_path, store_path, done):
    journal = Journal(journal_path, header("killed"))
    recorder = Recorder(journal, first=journal.next_seq)
    store = Store(store_path)
    while True:
        turn = recorder.turn()
        for seq in range(recorder.next, recorder.next + 1 + recorder.next % 9):
            cause = seq - 1 if seq else None
            turn.add(Event("message", role="A", content=text_of(seq), cause=cause))
        turn.add(signal_event(Signal("count", float(recorder.next), role="A")))
        turn.commit()
        os.write(done, b"%20d" % recorder.next)  # from here on these events must never be lost
        store.index(journal_path)

if __name__ == "__main__":
    journal_path, store_path, done_path = sys.argv[1:]
    for _ in sys.stdin:
        done = os.open(done_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        child = os.fork()
        if not child:
            write_until_killed(journal_path, store_path, done)
        os.close(done)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)
"""


def text_of(seq: int) -> str:
    return f"{seq} 漢字\n" * (seq * 7 % 40)


def dump(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything a store holds, with paths in place of its internal keys."""
    with store._engine.connect() as database:
        if database.dialect.name == "sqlite":
            assert database.exec_driver_sql("PRAGMA integrity_check").scalars().all() == ["ok"]
        tables = {}
        for table in ("events", "signals", "findings"):
            order = "path, number" if table == "findings" else "path, seq"
            rows = database.exec_driver_sql(
                f"SELECT t.path, x.* FROM {table} x JOIN trajectories t ON t.key = x.trajectory "
                f"ORDER BY {order}"
            )
            tables[table] = [(path, *rest) for path, _, *rest in rows]
        rows = database.exec_driver_sql("SELECT * FROM trajectories ORDER BY path")
        tables["trajectories"] = [tuple(rest) for _, *rest in rows]
        return tables


@contextmanager
def nursery(*paths: Path | str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        yield process


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "places", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
def test_32_kills_at_random_points_lose_nothing_finished_and_corrupt_nothing(
    tmp_path: Path, places: Any
) -> None:
    rng = random.Random(7)
    journal, store, done = tmp_path / "run.jsonl", places.new(), tmp_path / "done"
    known = 0
    with nursery(journal, store, done) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for kill in range(32):
            target = size(journal) + rng.randrange(5_000)
            process.stdin.write("go\n")
            process.stdin.flush()
            child = int(process.stdout.readline() or process.stderr.read())
            while size(journal) <= target:
                assert process.poll() is None, process.stderr.read()
                time.sleep(rng.random() / 1000)
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "dead\n"

            run = load(journal)
            assert len(run.problems) <= 1
            assert all("cut off after" in problem for problem in run.problems)
            assert [event.seq for event in run.events] == list(range(len(run.events)))
            assert all(e.content == text_of(e.seq) for e in run.of("message")), f"kill {kill}"
            finished = int(done.read_bytes()[-20:] or 0) if done.exists() else 0
            assert len(run.events) >= finished >= known, "finished work was lost"
            known = finished

            with Store(store) as index, Store(places.new()) as fresh:
                index.index(journal)
                fresh.rebuild(tmp_path)
                indexed = dump(index)
                assert indexed == dump(fresh), f"kill {kill}"
            assert len(indexed["events"]) == len(run.events)
        process.stdin.close()
    assert known > 200, "the writers had time to do something"


def test_a_kill_within_a_write_costs_the_line_being_written(tmp_path: Path) -> None:
    """A line of 32 MB takes the kernel long enough to be killed half-way through it."""
    program = """
import sys
from rolecraft.trajectories import Event, Journal, Recorder, header
journal = Journal(sys.argv[1], header("large"))
recorder = Recorder(journal, first=journal.next_seq)
while True:
    recorder.add(Event("thought", content="x" * 2**25))
"""
    path = tmp_path / "run.jsonl"
    for _ in range(10):
        path.unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", program, str(path)]) as process:
            while size(path) % 2**25 < 2**20:  # until it is well within a line
                assert process.poll() is None
            process.kill()
        lines = path.read_bytes().split(b"\n")
        run = load(path)
        assert len(run.events) == len(lines) - 2
        torn = lines[-1]
        assert run.problems == [f"{path}:{len(lines)}: cut off after {len(torn)} bytes"] * bool(
            torn
        )
        with Journal(path) as journal:
            assert journal.next_seq == len(run.events)
            assert bool(journal.repaired) == bool(torn)
        if torn:
            return
    pytest.skip("ten kills, and this system finished the write every time")
