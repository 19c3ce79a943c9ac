"""Edits: what was accepted is on the disk, and neither a crash nor a second writer loses a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rolecraft.errors import JournalError
from rolecraft.viewer.labelling import Conflict
from rolecraft.viewer.labelling.edits import Edit, EditLog


def note(value: str, **other: object) -> Edit:
    return Edit(by="Ann", trace="t", field="note", value=value, **other)


def values(path: Path) -> list[str]:
    return [edit.value for edit in EditLog(path).of("t")]


def test_an_edit_is_one_line_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ann.jsonl"
    EditLog(path).add(note("über <b>\n\udc80", name="runs/a.jsonl"))
    (line,) = path.read_text("ascii").splitlines()
    assert json.loads(line)["name"] == "runs/a.jsonl"
    (edit,) = EditLog(path).of("t")
    assert (edit.value, edit.rev, edit.round) == ("über <b>\n\udc80", 1, 1)
    assert edit.at


def test_an_edit_of_what_was_seen_holds(tmp_path: Path) -> None:
    log = EditLog(tmp_path / "a.jsonl")
    first = log.add(note("one"), base=0)
    assert log.add(note("two"), base=first.rev).value == "two"


def test_an_edit_of_what_was_changed_meanwhile_is_kept_and_said_and_does_not_hold(
    tmp_path: Path,
) -> None:
    log = EditLog(tmp_path / "a.jsonl")
    log.add(note("one"), base=0)
    with pytest.raises(Conflict, match="was changed in the meantime") as caught:
        log.add(note("two"), base=0)
    assert caught.value.now.value == "one"
    assert values(log.path) == ["one"]
    assert '"two"' in log.path.read_text()
    assert log.add(note("two"), base=caught.value.now.rev).value == "two"


def test_two_who_write_the_same_do_not_disagree(tmp_path: Path) -> None:
    log = EditLog(tmp_path / "a.jsonl")
    first = log.add(note("one"), base=0)
    assert log.add(note("one"), base=0).rev == first.rev


def test_one_window_does_not_contradict_itself(tmp_path: Path) -> None:
    """An answer was lost on the way, or the window was closed while one was under way."""
    log = EditLog(tmp_path / "a.jsonl")
    log.add(note("one", tab="x", turn=1), base=0)
    assert log.add(note("two", tab="x", turn=2), base=0).value == "two"
    with pytest.raises(Conflict):
        log.add(note("three", tab="y", turn=1), base=0)


def test_an_edit_that_was_overtaken_on_the_way_does_not_undo_the_later_one(tmp_path: Path) -> None:
    log = EditLog(tmp_path / "a.jsonl")
    log.add(note("later", tab="x", turn=2), base=0)
    assert log.add(note("earlier", tab="x", turn=1), base=0).value == "later"
    assert values(log.path) == ["later"]


def test_another_process_on_the_same_file_is_seen(tmp_path: Path) -> None:
    here, there = EditLog(tmp_path / "a.jsonl"), EditLog(tmp_path / "a.jsonl")
    first = here.add(note("one"), base=0)
    assert [edit.value for edit in there.of("t")] == ["one"]
    there.add(note("two"), base=first.rev)
    with pytest.raises(Conflict):
        here.add(note("three"), base=first.rev)


def test_of_many_writers_at_once_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def write(who: int) -> None:
        log = EditLog(path)
        for number in range(25):
            log.add(note(f"{who}:{number}"))

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values(path)) == sorted(f"{w}:{n}" for w in range(4) for n in range(25))


def test_a_writer_that_is_killed_loses_no_edit_that_it_said_to_have(tmp_path: Path) -> None:
    code = """
import itertools, sys
from pathlib import Path
from rolecraft.viewer.labelling.edits import Edit, EditLog
log = EditLog(Path(sys.argv[1]))
for number in itertools.count():
    log.add(Edit(by="Ann", trace="t", field="note", value=number))
    print(number, flush=True)
"""
    path = tmp_path / "a.jsonl"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        while int(said.readline()) < 20:
            pass
        os.kill(process.pid, signal.SIGKILL)
        last = max([20, *map(int, said.read().split())])
    process.wait()
    found = values(path)
    assert found[: last + 1] == list(range(last + 1))


def test_a_line_that_was_cut_off_is_dropped_by_the_next_edit_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    EditLog(path).add(note("one"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"by": "Ann", "trace')
    log = EditLog(path)
    assert [edit.value for edit in log.of("t")] == ["one"]
    log.add(note("two"))
    assert path.read_bytes().startswith(whole)
    assert values(path) == ["one", "two"]


def test_a_line_that_is_no_edit_is_named_and_the_others_count(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    EditLog(path).add(note("one"))
    with path.open("a") as file:
        file.write("[1]\n\n{}\nnot json\n")
    log = EditLog(path)
    log.add(note("two"))
    assert [edit.value for edit in log.of("t")] == ["one", "two"]
    assert [problem.split(":")[1] for problem in log.problems] == ["2", "4", "5"]
    assert log.of("t")[1].rev == 6


def test_a_folder_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="file"):
        EditLog(tmp_path / "file" / "a.jsonl").add(note("one"))
