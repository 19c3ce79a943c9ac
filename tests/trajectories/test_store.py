"""The index of many trajectories: what it finds, and that it never disagrees with the journals.

Everything here runs on SQLite and on a real PostgreSQL server; what only one of them has is in
`test_store_places.py`.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import StoreError, TraceError, UnknownName, UsageError
from rolecraft.messages import Message
from rolecraft.trajectories import (
    Event,
    FailureFinding,
    Journal,
    Recorder,
    Signal,
    Store,
    Trajectory,
    Usage,
    append_findings,
    header,
    load,
    save,
    signal_event,
    store,
)
from rolecraft.trajectories._tables import INDEX_VERSION

LOOP = FailureFinding("repetition.steps", "present", (1,), "Ann", "again", 0.9, "detector")
CLEAN = FailureFinding("verification.absent", "absent", source="judge")


@pytest.fixture
def index(places: Any) -> Iterator[Store]:
    with Store(places.new()) as made:
        yield made


def record(path: Path, *events: Event, name: str = "run") -> Path:
    with Journal(path, header(name, task="greet")) as journal:
        recorder = Recorder(journal, first=journal.next_seq)
        for event in events:
            recorder.add(event)
    return path


def said(text: str, role: str = "Ann") -> Event:
    return Event("message", role=role, content=text)


def stop(reason: str) -> Event:
    return Event("stop", data={"reason": reason})


def measured(name: str, value: float, role: str = "") -> Event:
    return signal_event(Signal(name, value, role=role, unit="tests", step=0))


def rows(index: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the tables, with paths in place of keys."""
    with index._engine.connect() as connection:
        found = {}
        for table in ("events", "signals", "findings"):
            joined = (
                f"SELECT t.path, x.* FROM {table} x JOIN trajectories t ON t.key = x.trajectory"
            )
            everything = connection.exec_driver_sql(joined)
            found[table] = sorted((path, *rest) for path, _, *rest in everything)
        everything = connection.exec_driver_sql("SELECT * FROM trajectories")
        found["trajectories"] = sorted(tuple(rest) for _key, *rest in everything)
        return found


def assert_equals_rebuild(index: Store, places: Any, folder: Path) -> None:
    with Store(places.new()) as other:
        other.rebuild(folder)
        assert rows(index) == rows(other)


# --- asking ----------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path, index: Store) -> Path:
    folder = tmp_path / "runs"
    record(
        folder / "a.jsonl",
        said("hello"),
        Event("model_call", role="Ann", usage=Usage(10, 5, 0.25)),
        measured("tests.passed", 3),
        measured("luck", math.nan),
        stop("finished"),
        name="alpha",
    )
    record(
        folder / "b.jsonl",
        said("hi", "Bob"),
        measured("tests.passed", 1, "Bob"),
        measured("tests.passed", math.inf),
        stop("rounds"),
        name="beta",
    )
    record(folder / "deep" / "c.jsonl", said("cut off"), name="beta")
    index.index(folder)
    return folder


def test_trajectories_are_found_by_role_stop_reason_and_signal(runs: Path, index: Store) -> None:
    def names(**where: Any) -> list[str]:
        return [Path(found.path).name for found in index.trajectories(**where)]

    assert names() == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert names(role="Ann") == ["a.jsonl", "c.jsonl"]
    assert names(role="Ann", stop_reason="finished") == ["a.jsonl"]
    assert names(stop_reason="error") == []
    assert names(signal="tests.passed") == ["a.jsonl", "b.jsonl"]
    assert names(signal="tests.passed", at_least=2) == ["a.jsonl", "b.jsonl"]
    assert names(signal="tests.passed", at_least=2, at_most=5) == ["a.jsonl"]
    assert names(signal="luck") == ["a.jsonl"]
    assert names(signal="luck", at_least=-math.inf) == [], "NaN is not at least anything"
    with pytest.raises(UsageError, match="need `signal=`"):
        index.trajectories(at_least=2)


def test_a_trajectory_is_summed_up_without_reading_its_events(runs: Path, index: Store) -> None:
    found = index.trajectories(role="Ann")[0]
    assert found.path == str(runs / "a.jsonl")
    assert (found.id, found.about) == ("alpha", {"task": "greet"})
    assert (found.events, found.stop_reason, found.problems) == (5, "finished", [])
    assert found.usage == Usage(10, 5, 0.25, 1)
    assert index.trajectories()[2].stop_reason is None


def test_events_are_found_by_kind_role_and_trajectory(runs: Path, index: Store) -> None:
    def found(**where: Any) -> list[tuple[str, int]]:
        return [(Path(path).name, event.seq) for path, event in index.events(**where)]

    assert len(found()) == 10
    assert found(kind="stop") == [("a.jsonl", 4), ("b.jsonl", 3)]
    assert found(kind="message", role="Ann") == [("a.jsonl", 0), ("c.jsonl", 0)]
    assert found(trajectory=runs / "b.jsonl", kind="message") == [("b.jsonl", 0)]
    assert found(trajectory="beta", kind="message") == [("b.jsonl", 0), ("c.jsonl", 0)]
    assert found(trajectory="gamma") == []
    _, event = next(index.events(kind="model_call"))
    assert event == load(runs / "a.jsonl").events[1]
    with pytest.raises(UnknownName, match=r"'massage' is not known\. Did you mean 'message'"):
        next(index.events(kind="massage"))


def test_signals_come_back_whole(runs: Path, index: Store) -> None:
    found = [(Path(path).name, signal) for path, signal in index.signals(name="tests.passed")]
    assert found == [
        ("a.jsonl", Signal("tests.passed", 3.0, "tests", step=0)),
        ("b.jsonl", Signal("tests.passed", 1.0, "tests", role="Bob", step=0)),
        ("b.jsonl", Signal("tests.passed", math.inf, "tests", step=0)),
    ]
    assert [s.value for _, s in index.signals(role="Bob", trajectory="beta")] == [1.0]
    assert math.isnan(next(index.signals(name="luck"))[1].value)


def test_findings_are_kept_beside_the_journal_and_found_by_what_they_say(
    runs: Path, index: Store
) -> None:
    index.add_findings(runs / "a.jsonl", [LOOP, CLEAN])
    index.add_findings(runs / "b.jsonl", [LOOP])
    append_findings(runs / "b.jsonl", [CLEAN])  # by another program
    index.index(runs)

    def found(**where: Any) -> list[tuple[str, FailureFinding]]:
        return [(Path(path).name, finding) for path, finding in index.findings(**where)]

    assert found() == [("a.jsonl", LOOP), ("a.jsonl", CLEAN), ("b.jsonl", LOOP), ("b.jsonl", CLEAN)]
    assert found(mode="repetition.steps", verdict="present", role="Ann", source="detector") == [
        ("a.jsonl", LOOP),
        ("b.jsonl", LOOP),
    ]
    assert found(verdict="absent", trajectory="alpha") == [("a.jsonl", CLEAN)]
    with pytest.raises(TraceError, match="no such file"):
        index.add_findings(runs / "none.jsonl", [LOOP])
    assert not (runs / "none.findings.jsonl").exists()


def test_a_caller_may_write_while_it_reads(
    runs: Path, index: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH", 1)
    for path, event in index.events(kind="message"):
        index.add_findings(path, [FailureFinding("x", "unknown", (event.seq,))])
    assert len(list(index.findings(mode="x"))) == 3


# --- filling ---------------------------------------------------------------------------------


def test_only_what_is_new_is_read(tmp_path: Path, index: Store) -> None:
    path = record(tmp_path / "runs" / "a.jsonl", said("one"), said("two"))
    assert index.index(path) == 2
    assert index.index(path) == 0
    record(path, said("three"))
    assert index.index(path) == 1
    assert [event.content for _, event in index.events()] == ["one", "two", "three"]


def test_a_line_that_is_being_written_is_left_for_the_next_time(
    tmp_path: Path, places: Any
) -> None:
    path = record(tmp_path / "a.jsonl", said("one"), said("two"))
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1  # of the last line
    for cut in [*range(start, len(whole) - 2, 9), *range(len(whole) - 2, len(whole) + 1)]:
        path.write_bytes(whole[:start])
        with Store(places.new()) as fresh:
            assert fresh.index(path) == 1
            path.write_bytes(whole[:cut])
            seen = fresh.index(path)
            assert seen == (cut >= len(whole) - 1), "whole as soon as only its line end is missing"
            path.write_bytes(whole)
            assert fresh.index(path) == 1 - seen
            record(path, said("three"))
            assert fresh.index(path) == 1
            assert [e.content for _, e in fresh.events()] == ["one", "two", "three"]
            assert fresh.trajectories()[0].problems == []


@pytest.mark.parametrize(
    "again",
    [["other"], ["other", "other"], ["other", "other", "other", "x" * 9_000], []],
    ids=["shorter", "equal length", "longer", "empty"],
)
def test_a_journal_that_was_written_anew_is_read_anew(
    tmp_path: Path, places: Any, index: Store, again: list[str]
) -> None:
    """Same path, same header: only what stands in the file tells."""
    path = record(tmp_path / "runs" / "a.jsonl", said("first"), said("first"), measured("s", 1))
    index.index(path)
    path.unlink()
    record(path, *map(said, again))
    assert index.index(path) == len(again)
    assert [event.content for _, event in index.events()] == again
    assert list(index.signals()) == []
    assert_equals_rebuild(index, places, tmp_path / "runs")


def test_problems_of_a_journal_are_known_with_their_lines(tmp_path: Path, index: Store) -> None:
    path = record(tmp_path / "a.jsonl", said("one"))
    with path.open("ab") as file:
        file.write(
            b'?\n{"seq":0,"kind":"stop"}\n{"seq":4,"kind":"stop"}\n{"seq":2,"kind":"stop"}\n'
        )
    index.index(path)
    with path.open("ab") as file:
        file.write(b'{"seq":3,"kind":"stop"}\n{"seq":2,"kind":"stop"}\n')
    index.index(path)
    run = load(path)
    assert index.trajectories()[0].problems == run.problems
    assert [p.split(":")[1] for p in run.problems] == ["3", "4", "5", "6", "7", "8"]
    assert [event.seq for _, event in index.events()] == [e.seq for e in run.events] == [0, 2, 3, 4]


def test_one_unreadable_file_of_a_folder_does_not_keep_the_others_out(
    tmp_path: Path, index: Store
) -> None:
    folder = tmp_path / "runs"
    record(folder / "a.jsonl", said("a"))
    (folder / "b.jsonl").write_text("dear diary")
    (folder / "c.jsonl").touch()
    record(folder / "d.jsonl", said("d"))
    with pytest.raises(TraceError, match=r"b\.jsonl.*and 1 more files"):
        index.index(folder)
    assert [event.content for _, event in index.events()] == ["a", "d"]
    (folder / "a.jsonl").write_text("dear diary")
    with pytest.raises(TraceError, match=r"a\.jsonl"):
        index.index(folder / "a.jsonl")
    assert [event.content for _, event in index.events()] == ["d"], "what is unreadable is unknown"


def test_many_small_journals_are_indexed_in_few_transactions(
    tmp_path: Path, places: Any, index: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit waits for the disk."""
    monkeypatch.setattr(store, "BATCH", 10)
    counts = [3, 4, 10, 25, 0, 1, 9, 2]
    for number, count in enumerate(counts):
        record(tmp_path / "runs" / f"{number}.jsonl", *[said("x")] * count)
    commits = []
    sqlalchemy.event.listen(index._engine, "commit", commits.append)
    assert index.index(tmp_path / "runs") == sum(counts)
    assert len(commits) <= sum(counts) / 10 + 3
    assert_equals_rebuild(index, places, tmp_path / "runs")


def test_journals_that_are_gone_are_forgotten_with_their_folder_only(
    tmp_path: Path, index: Store
) -> None:
    here, there = tmp_path / "runs", tmp_path / "runs2"
    for name in ("a", "b"):
        record(here / f"{name}.jsonl", said(name), measured("s", 1))
    record(there / "c.jsonl", said("c"))
    index.index(here)
    index.index(there)
    (here / "b.jsonl").unlink()
    assert index.index(here) == 0
    assert [event.content for _, event in index.events(kind="message")] == ["a", "c"]
    assert len(list(index.signals())) == 1
    assert index.rebuild(here) == 2
    assert [event.content for _, event in index.events(kind="message")] == ["a", "c"]
    (here / "a.jsonl").unlink()
    with pytest.raises(TraceError, match=r"no \*\.jsonl file"):
        index.index(here)
    assert [event.content for _, event in index.events(kind="message")] == ["c"]


texts = st.text(st.characters(), max_size=8)
steps = st.lists(
    st.one_of(
        st.builds(lambda role, text: said(text, role), texts, texts),
        st.builds(measured, texts, st.floats(), texts),
        st.builds(stop, texts),
        st.builds(lambda usd: Event("error", usage=Usage(1, 2, usd)), st.floats(0, 9) | st.none()),
        st.sampled_from([LOOP, CLEAN]),
        st.just("index"),
        st.binary(max_size=5),
    ),
    max_size=12,
)  # fmt: skip


@given(steps, texts)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_however_it_was_filled_the_index_equals_one_built_anew(
    tmp_path: Path, places: Any, monkeypatch: pytest.MonkeyPatch, steps: list[Any], name: str
) -> None:
    """Recording, labelling, broken lines and indexing in any order, in batches of two."""
    monkeypatch.setattr(store, "BATCH", 2)
    folder = tmp_path / "runs"
    path = folder / "a.jsonl"
    for old in (path, folder / "a.findings.jsonl"):
        old.unlink(missing_ok=True)
    with Store(places.new()) as index:
        record(path, name=name)
        for step in steps:
            if isinstance(step, Event):
                record(path, step, name=name)
            elif isinstance(step, FailureFinding):
                index.add_findings(path, [step])
            elif isinstance(step, bytes):
                with path.open("ab") as file:
                    file.write(step.replace(b"\n", b"") + b"\n")
            else:
                index.index(path)
        index.index(path)
        run = load(path)
        [known] = index.trajectories()
        assert (known.id, known.about, known.events) == (run.id, run.about, len(run.events))
        assert known.problems == run.problems
        assert repr([event for _, event in index.events()]) == repr(run.events)
        assert repr([signal for _, signal in index.signals()]) == repr(run.signals)
        for role in run.roles:
            assert repr([e for _, e in index.events(role=role)]) == repr(
                [e for e in run.events if e.role == role]
            )
        assert_equals_rebuild(index, places, folder)


def test_several_threads_may_fill_and_ask_at_once(tmp_path: Path, index: Store) -> None:
    paths = [record(tmp_path / f"{n}.jsonl", *map(said, "abcdefgh")) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(lambda: len(list(index.events()))) for _ in range(8)]
        assert list(pool.map(index.index, paths)) == [8] * 8
        assert all(future.result() % 8 == 0 for future in asked), "a batch is seen whole or not"
    assert len(list(index.events())) == 64


def test_several_processes_may_fill_one_index(tmp_path: Path, places: Any) -> None:
    """Also a new one: only one of them makes its tables."""
    folder = tmp_path / "runs"
    for number in range(6):
        record(folder / f"{number}.jsonl", *map(said, "abcdefgh"))
    program = """
import sys
from rolecraft.trajectories import Store
Store(sys.argv[1]).index(sys.argv[2])
"""
    command = [sys.executable, "-c", program, str(place := places.new()), str(folder)]
    together = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate()[1] for process in together] == [b""] * 3
    with Store(place) as index:
        assert len(list(index.events())) == 48
        assert_equals_rebuild(index, places, folder)


# --- databases -------------------------------------------------------------------------------


def test_names_that_databases_refuse_are_found_all_the_same(tmp_path: Path, index: Store) -> None:
    """NUL and halves of characters are legal in Python and JSON, not in SQL."""
    odd = "a\0b\ud800"
    path = record(tmp_path / "o.jsonl", said(odd, odd), measured(odd, 1, odd), stop(odd), name=odd)
    index.index(path)
    assert [t.id for t in index.trajectories(role=odd, stop_reason=odd, signal=odd)] == [odd]
    assert [event.content for _, event in index.events(role=odd, kind="message")] == [odd]
    assert [signal.name for _, signal in index.signals(name=odd)] == [odd]


def test_names_of_any_length_are_found(tmp_path: Path, index: Store) -> None:
    """PostgreSQL has nothing of more than 2,700 bytes in an index."""
    rng = random.Random(7)
    long = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(5_000))
    other = long[:-1] + "x"
    path = record(
        tmp_path / "l.jsonl", said("a", long), measured(long, 1, long), stop(long), name=long
    )
    record(tmp_path / "m.jsonl", said("b", other), measured(other, 2, other), name=other)
    index.index(tmp_path)
    assert [t.id for t in index.trajectories(role=long, stop_reason=long, signal=long)] == [long]
    assert [e.content for _, e in index.events(role=long, kind="message", trajectory=long)] == ["a"]
    assert [signal.name for _, signal in index.signals(name=other)] == [other]
    append_findings(path, [FailureFinding(long, "present", (0,), long, source=long)])
    index.index(tmp_path)
    assert [f.mode for _, f in index.findings(mode=long, role=long, source=long)] == [long]


def test_trajectories_come_in_the_order_of_the_characters_of_their_paths(
    tmp_path: Path, index: Store
) -> None:
    for name in ("a", "B", "_c", "é", "Z", "漢", "a b", "ab"):
        record(tmp_path / "runs" / f"{name}.jsonl", said(name))
    index.index(tmp_path / "runs")
    paths = [found.path for found in index.trajectories()]
    assert paths == sorted(paths)
    assert [path for path, _ in index.events()] == paths


def test_an_index_of_another_version_is_refused_and_left_as_it_is(places: Any) -> None:
    place = places.new()
    with Store(place) as index, index._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE findings")
        connection.exec_driver_sql("UPDATE rolecraft_index SET version = 99")
    with pytest.raises(StoreError, match=rf"version 99, this Rolecraft has {INDEX_VERSION}\. \w"):
        Store(place)
    with index._engine.connect() as connection:
        assert not sqlalchemy.inspect(connection).has_table("findings")
    index.close()


def test_a_saved_trajectory_is_indexed_like_a_journal(tmp_path: Path, index: Store) -> None:
    run = Trajectory("saved")
    Recorder(run).add_message(Message("hello", sent_from="Ann"))
    index.index(save(run, tmp_path / "saved.jsonl"))
    assert [event for _, event in index.events(trajectory="saved")] == run.events
    assert (
        json.loads(run.save(tmp_path / "x.jsonl").read_text().splitlines()[0])["trajectory"]
        == "saved"
    )
