"""The journal: a run's record on disk, whatever happens to the process that writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.errors import JournalError, TraceError, UsageError
from rolecraft.messages import Message
from rolecraft.trajectories import Event, Journal, Recorder, header, load
from rolecraft.trajectories.events import SCHEMA_VERSION


def record(path: Path, *texts: str) -> Journal:
    """Record messages; returns the closed journal."""
    with Journal(path, header("run-7", task="greet")) as journal:
        recorder = Recorder(journal, first=journal.next_seq)
        for text in texts:
            recorder.add_message(Message(text, sent_from="A", role="A"))
    return journal


def contents(path: Path) -> list[str]:
    run = load(path)
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert run.problems == []
    return [event.content for event in run.events]


def test_the_first_line_is_the_header_and_every_other_line_one_event(tmp_path: Path) -> None:
    record(tmp_path / "new" / "run.jsonl", "hello", "bye")
    lines = (tmp_path / "new" / "run.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"schema_version": SCHEMA_VERSION, "trajectory": "run-7", "task": "greet"},
        {"seq": 0, "kind": "message", "time": 0, "role": "A", "to": ["<all>"], "content": "hello",
         "data": {"id": "", "cause_by": ""}},
        {"seq": 1, "kind": "message", "time": 0, "role": "A", "to": ["<all>"], "content": "bye",
         "data": {"id": "", "cause_by": ""}},
    ]  # fmt: skip


def test_an_event_is_on_disk_as_soon_as_it_is_recorded(tmp_path: Path) -> None:
    with Journal(tmp_path / "run.jsonl", fsync=True) as journal:
        recorder = Recorder(journal)
        for count in range(1, 4):
            recorder.add(Event("thought"))
            assert len(load(journal.path).events) == count


def test_a_turn_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing of another process or an interruption comes between its events."""
    sizes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(len(data)) or real(fd, data))
    with Journal(tmp_path / "run.jsonl") as journal:
        turn = Recorder(journal).turn()
        for _ in range(5):
            turn.add(Event("thought"))
        sizes.clear()
        turn.commit()
    assert len(sizes) == 1


def test_without_a_header_the_trajectory_is_named_after_the_file(tmp_path: Path) -> None:
    Journal(tmp_path / "monday.jsonl").close()
    assert load(tmp_path / "monday.jsonl").id == "monday"


def test_an_existing_journal_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(path, "one", "two")
    with Journal(path) as journal:
        assert journal.next_seq == 2
        assert journal.header == header("run-7", task="greet"), "the file keeps its own header"
        assert journal.repaired == ""
    record(path, "three")
    assert contents(path) == ["one", "two", "three"]


@pytest.mark.parametrize("text", ["plain", "café 漢字 \ud800 \n \0"])
def test_a_journal_cut_at_any_byte_is_continued_without_losing_a_whole_line(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "run.jsonl"
    record(path, "one", text, "three")
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        # A line that only lacks its line end is whole: nothing of it is missing.
        kept = max(0, (whole[:cut] + b"\n" * (whole[cut : cut + 1] == b"\n")).count(b"\n") - 1)
        journal = record(path, "again")
        assert contents(path) == [*["one", text, "three"][:kept], "again"], f"cut at {cut}"
        torn = cut > 0 and whole[cut - 1 : cut] != b"\n" and whole[cut : cut + 1] != b"\n"
        assert bool(journal.repaired) == torn, f"cut at {cut}"
        if torn:
            dropped = len(whole[:cut].rsplit(b"\n", 1)[-1])
            assert journal.repaired == (
                f"`{path}`: the last line was cut off; its {dropped} bytes were removed"
            )


def test_numbering_goes_on_after_the_last_line_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(path, "one", "two")
    with path.open("ab") as file:
        file.write(b'{"broken"}\n\0\0\0\n')
    with Journal(path) as journal:
        assert journal.next_seq == 2


def test_events_out_of_sequence_are_refused(tmp_path: Path) -> None:
    """A recorder that starts at 0 on a continued journal would number events twice."""
    path = tmp_path / "run.jsonl"
    record(path, "one")
    with Journal(path) as journal, pytest.raises(UsageError, match=r"first=journal\.next_seq"):
        Recorder(journal).add(Event("thought"))
    assert contents(path) == ["one"]


def test_another_trajectory_is_not_written_into_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(path, "one")
    with pytest.raises(JournalError, match="it holds trajectory 'run-7', not 'run-8'"):
        Journal(path, header("run-8"))
    record(path, "two")  # the refusal left no lock behind


def test_a_bad_header_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`schema_version` is None"):
        Journal(tmp_path / "run.jsonl", {"task": "greet"})
    assert not (tmp_path / "run.jsonl").exists()
    with pytest.raises(UsageError, match=r"cannot hold \['schema_version', 'trajectory'\]"):
        header("run-7", trajectory="run-8", schema_version=2)


@pytest.mark.parametrize(
    "content",
    [b"dear diary", b"dear diary\nit rains\n", b"\x89PNG\r\n", b'{"seq":0,"kind":"stop"}\n', b"\0"],
)
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """Repairing it would delete somebody's text."""
    path = tmp_path / "diary"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="cannot be continued as a journal"):
        Journal(path)
    assert path.read_bytes() == content


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    content = b'{"schema_version":99,"trajectory":"x"}\n{"seq":0,"kind":"dream"}\n{"seq"'
    path.write_bytes(content)
    with pytest.raises(TraceError, match="schema version 99; this Rolecraft reads up to 2"):
        Journal(path)
    assert path.read_bytes() == content


def test_two_processes_cannot_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = """
import sys
from rolecraft.trajectories import Event, Journal, Recorder
try:
    journal = Journal(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
else:
    Recorder(journal, first=journal.next_seq).add(Event("thought", content="second"))
    print("wrote")
"""

    def second() -> str:
        command = [sys.executable, "-c", program, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with Journal(path) as journal:
        Recorder(journal).add(Event("thought", content="first"))
        answer = second()
        assert answer.startswith(f"JournalError `{path}`: another process")
        assert answer.endswith("or record to another file.\n")
        with pytest.raises(JournalError, match="another part of this one"):
            Journal(path)
    assert second() == "wrote\n"
    assert contents(path) == ["first", "second"]


def test_a_journal_that_is_thrown_away_gives_its_file_free(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    del journal
    Journal(tmp_path / "run.jsonl").close()


def test_writing_after_close_is_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed; open it again"):
        Recorder(journal).add(Event("thought"))


def test_a_full_disk_is_an_error_that_names_the_file_and_costs_nothing_finished(
    tmp_path: Path,
) -> None:
    """A real limit on the size of files: the kernel writes a part of the line, then refuses."""
    path = tmp_path / "run.jsonl"
    program = """
import resource, signal, sys
from rolecraft.errors import JournalError
from rolecraft.trajectories import Event, Journal, Recorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
journal = Journal(sys.argv[1])
recorder = Recorder(journal)
try:
    while True:
        recorder.add(Event("thought", content="x" * 700))
except JournalError as error:
    print(error)
try:
    recorder.add(Event("thought"))
except JournalError as error:
    print(error)
print(journal.next_seq)
"""
    command = [sys.executable, "-c", program, str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0].startswith(f"`{path}`: ")
    assert "bytes could not be written: File too large. Everything before is safe" in out[0]
    assert out[1] == f"`{path}`: the journal is closed; open it again to go on."
    assert contents(path) == ["x" * 700] * int(out[2])
    assert int(out[2]) == 6
    with Journal(path) as journal:
        assert (journal.next_seq, journal.repaired) == (6, "")


def test_a_place_where_no_file_can_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"run\.jsonl`: cannot be opened"):
        Journal(tmp_path / "file" / "run.jsonl")
    with pytest.raises(JournalError, match="Is a directory"):
        Journal(tmp_path)
