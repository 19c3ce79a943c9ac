"""Trajectories as files: what is broken is named, and the rest survives."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from rolecraft.errors import JournalError, TraceError, UsageError
from rolecraft.trajectories import (
    Event,
    Journal,
    Recorder,
    Trajectory,
    load,
    read_events,
    save,
    trace_files,
)

HEADER = b'{"schema_version":1,"trajectory":"t"}\n'


def thought(seq: int) -> bytes:
    return b'{"seq":%d,"kind":"thought","content":"%d"}\n' % (seq, seq)


def seqs(run: Trajectory) -> list[int]:
    return [event.seq for event in run.events]


def written(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


# --- broken files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"seq":1,"kind"\n', "not JSON: Expecting ':' delimiter at column 16"),
        (b"\0\0\0\n", "not JSON: Expecting value at column 1"),
        (b"caf\xe9\n", "not UTF-8 at byte 3"),
        (b"[1, 2]\n", "expected a JSON object, got list"),
        (b'{"seq":1}\n', "`kind` is None"),
        (b'{"kind":"thought"}\n', "`seq` is None"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (HEADER, "a second header line"),
        (b'{"seq":0,"kind":"thought"}\n', "`seq` 0 was there before: the first one counts"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_a_broken_line_is_named_and_the_others_survive(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, thought(0), line, thought(1), thought(2))
    run = load(path)
    assert [event.content for event in run.events] == ["0", "1", "2"]
    assert len(run.problems) == 1
    assert run.problems[0].startswith(f"{path}:3: {reason}")


def test_a_broken_line_that_was_an_event_leaves_its_number_free(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, thought(0), b"?\n", b"?\n", thought(3))
    run = load(path)
    assert seqs(run) == [0, 3]
    assert len(run.problems) == 2, "the gap is explained by the broken lines"


def test_missing_and_misplaced_numbers_are_problems_and_the_events_survive(tmp_path: Path) -> None:
    lines = [thought(seq) for seq in (0, 5, 2, 2, 3, 6)]
    path = written(tmp_path / "t.jsonl", HEADER, *lines)
    run = load(path)
    assert seqs(run) == [0, 2, 3, 5, 6], "in order, each once"
    assert run.problems == [
        f"{path}:3: `seq` is 5 after 0: 4 missing",
        f"{path}:4: `seq` 2 comes after 5: out of order",
        f"{path}:5: `seq` 2 was there before: the first one counts",
        f"{path}:6: `seq` 3 comes after 5: out of order",
    ]


def test_unknown_keys_are_named_and_the_event_survives(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, b'{"seq":0,"kind":"stop","lable":1}\n')
    run = load(path)
    assert seqs(run) == [0]
    assert run.problems == [f"{path}:2: unknown keys ['lable'] were left out"]


def test_a_file_cut_at_any_byte_loads_all_its_whole_lines(tmp_path: Path) -> None:
    events = [
        Event("message", role="A", content=text, to=("B",), seq=seq)
        for seq, text in enumerate(["one", "café 漢字 \ud800", "x\n\0", ""])
    ]
    path = save(Trajectory("t", {"task": "cut"}, events), tmp_path / "whole.jsonl")
    whole = path.read_bytes()
    cut_off = tmp_path / "cut.jsonl"
    for cut in range(len(whole) + 1):
        cut_off.write_bytes(whole[:cut])
        complete = (whole[:cut] + b"\n" * (whole[cut : cut + 1] == b"\n")).count(b"\n")
        if complete == 0:
            with pytest.raises(TraceError, match="empty" if cut == 0 else "cut off"):
                load(cut_off)
            continue
        run = load(cut_off)
        assert (run.id, run.about) == ("t", {"task": "cut"})
        assert run.events == events[: complete - 1], f"cut at {cut}"
        torn = whole[cut - 1 : cut] != b"\n" and whole[cut : cut + 1] not in (b"\n", b"")
        rest = len(whole[:cut].rsplit(b"\n", 1)[-1])
        expected = [f"{cut_off}:{complete + 1}: cut off after {rest} bytes"]
        assert run.problems == expected * torn, f"cut at {cut}"


def test_a_file_without_a_header_is_read_and_named_after_itself(tmp_path: Path) -> None:
    run = load(written(tmp_path / "monday.jsonl", thought(0), thought(1)))
    assert (run.id, seqs(run)) == ("monday", [0, 1])
    assert run.problems == [
        f"{tmp_path}/monday.jsonl:1: no header line comes before the first event"
    ]


def test_a_broken_header_costs_the_header_alone(tmp_path: Path) -> None:
    run = load(written(tmp_path / "t.jsonl", b'{"schema_version":1,"traj\n', thought(0)))
    assert seqs(run) == [0]
    assert len(run.problems) == 1


def test_what_editors_do_to_a_file_is_no_problem(tmp_path: Path) -> None:
    """A byte order mark, Windows line ends, empty lines, no line end at the end."""
    lines = b"\xef\xbb\xbf" + HEADER + thought(0) + b"\n" + thought(1).rstrip()
    run = load(written(tmp_path / "t.jsonl", lines.replace(b"\n", b"\r\n")))
    assert (run.id, seqs(run), run.problems) == ("t", [0, 1], [])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"dear diary,\nit rains.\n", r"not one of its 2 lines can be read; the first is line 1:"),
        (b'{"task": 1}\n', r"not one of its 1 lines can be read"),
        (
            b'{"schema_version":3,"trajectory":"t"}\n',
            "schema version 3; this Rolecraft reads up to 2",
        ),
    ],
)
def test_a_file_without_one_good_line_is_an_error(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = written(tmp_path / "t.jsonl", content)
    with pytest.raises(TraceError, match=reason) as caught:
        load(path)
    assert caught.value.path == str(path)
    with pytest.raises(TraceError, match=reason):
        list(read_events(path, problems=[]))


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(TraceError, match="cannot be opened: File name too long"):
        load(tmp_path / ("x" * 300))


def test_a_header_alone_is_a_run_in_which_nothing_happened_yet(tmp_path: Path) -> None:
    assert load(written(tmp_path / "t.jsonl", HEADER)).events == []


# --- streaming -------------------------------------------------------------------------------


def test_streaming_gives_the_same_events_and_problems(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, thought(0), b"?\n", thought(2), b'{"seq":3')
    problems: list[str] = []
    run = load(path)
    assert list(read_events(path, problems=problems)) == run.events
    assert problems == run.problems
    assert len(problems) == 2


def test_streaming_stops_at_a_problem_that_nobody_asked_to_collect(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, thought(0), b"?\n", thought(2))
    stream = read_events(path)
    assert next(stream).seq == 0
    with pytest.raises(TraceError, match="line 3: not JSON"):
        next(stream)


def test_streaming_needs_no_memory_for_what_was_read(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", HEADER, *map(thought, range(20_000)))
    stream = read_events(path)
    next(stream)
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream) == 19_999
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300_000


# --- saving ----------------------------------------------------------------------------------


def run_of(name: str, count: int = 1) -> Trajectory:
    run = Trajectory(name)
    recorder = Recorder(run)
    for number in range(count):
        recorder.add(Event("thought", content=str(number)))
    return run


def test_saving_to_a_folder_picks_a_free_readable_name(tmp_path: Path) -> None:
    run = run_of("repair: task 12/a")
    folder = f"{tmp_path}/runs/"  # the slash says that it is one
    names = [run.save(folder).name for _ in range(3)]
    assert names == [
        "repair-task-12-a.jsonl",
        "repair-task-12-a-2.jsonl",
        "repair-task-12-a-3.jsonl",
    ]
    assert Trajectory.load(f"{folder}{names[2]}") == run
    assert run_of("../../etc").save(tmp_path).name == "etc.jsonl"
    assert run_of("\ud800 ☂").save(tmp_path).name == "trajectory.jsonl"
    assert run_of("漢" * 200).save(tmp_path).name == "漢" * 33 + ".jsonl"
    assert sorted(p.suffix for p in tmp_path.rglob("*.*")) == [".jsonl"] * 6, "no temporary files"


def test_saving_to_a_file_replaces_it_whole(tmp_path: Path) -> None:
    path = save(run_of("t", 5), tmp_path / "deep" / "t.jsonl", fsync=True)
    save(run_of("t", 2), path)
    assert len(load(path).events) == 2
    assert os.listdir(path.parent) == ["t.jsonl"]


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = save(run_of("t", 5), tmp_path / "t.jsonl")
    bad = run_of("t", 2)
    bad.events[1].seq = 0
    with pytest.raises(UsageError, match=r"`events\[1\]` of trajectory 't' has seq 0 after 0"):
        save(bad, path)
    with pytest.raises(UsageError, match="has seq -1"):
        save(Trajectory(events=[Event("stop")]), path)
    with pytest.raises(JournalError, match=r"below\.jsonl`: cannot be saved"):
        save(bad := run_of("t"), path / "below.jsonl")
    assert len(load(path).events) == 5
    assert os.listdir(tmp_path) == ["t.jsonl"]
    assert bad.problems == []


def test_a_running_journal_is_not_replaced(tmp_path: Path) -> None:
    """Its recorder would go on writing to a file without a name."""
    with Journal(tmp_path / "t.jsonl") as journal:
        Recorder(journal).add(Event("thought"))
        with pytest.raises(JournalError, match="a running journal writes this file"):
            save(run_of("t", 5), journal.path)
    assert len(load(tmp_path / "t.jsonl").events) == 1


# --- folders ---------------------------------------------------------------------------------


def test_the_journals_of_a_folder_are_listed_in_counting_order(tmp_path: Path) -> None:
    for name in ["run-10.jsonl", "run-2.jsonl", "b/run-1.jsonl", "run-2.findings.jsonl", ".x.jsonl",
                 ".git/y.jsonl", "notes.txt", "log.json"]:  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def names(*suffixes: str) -> list[str]:
        found = trace_files(tmp_path, suffixes=suffixes or (".jsonl",))
        return [str(path.relative_to(tmp_path)) for path in found]

    assert names() == ["b/run-1.jsonl", "run-2.jsonl", "run-10.jsonl"]
    assert names(".json", ".txt") == ["log.json", "notes.txt"]
    assert trace_files(tmp_path / "notes.txt") == [tmp_path / "notes.txt"]
    with pytest.raises(TraceError, match=r"no \*\.csv file is in it"):
        names(".csv")
    with pytest.raises(TraceError, match="no such file or folder"):
        trace_files(tmp_path / "none")
