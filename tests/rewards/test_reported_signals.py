"""Signals that came after the run count as those of the record, which never changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.rewards import signal
from rolecraft.trajectories import (
    Event,
    Signal,
    Trajectory,
    append_signals,
    load,
    save,
    signal_event,
    trace_files,
)

ANN = Signal("user.satisfied", 0.0, source="person:ann", time=3, step=0, cost=0.5, unit="of 1")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    run = Trajectory("run", {"roles": [{"name": "coder"}]})
    run.write(
        [
            Event("message", role="coder", content="Done.", seq=0),
            replace(signal_event(Signal("user.satisfied", 1.0)), seq=1),
            Event("stop", data={"reason": "idle"}, seq=2),
        ]
    )
    save(run, path)
    return path


def test_a_person_has_the_last_word_and_the_journal_stays_as_it_was(journal: Path) -> None:
    before = journal.read_bytes()
    assert signal("user.satisfied")(load(journal)).value == 1.0
    append_signals(journal, [ANN])
    run = load(journal)
    assert run.reported == [ANN]
    assert signal("user.satisfied")(run).value == 0.0
    assert signal("user.satisfied")(run).grounded
    assert run.copy().signals == run.signals
    assert [each.kind for each in run.events] == ["message", "signal", "stop"]
    assert journal.read_bytes() == before


def test_a_saved_run_keeps_what_was_reported(journal: Path, tmp_path: Path) -> None:
    append_signals(journal, [ANN])
    run = load(journal)
    copy = save(run, tmp_path / "copies" / "run.jsonl")
    assert load(copy).reported == [ANN]
    save(run, journal)
    assert load(journal).reported == [ANN], "once"


def test_what_stands_beside_a_journal_is_no_journal(journal: Path) -> None:
    append_signals(journal, [ANN])
    assert trace_files(journal.parent) == [journal]


def test_a_report_says_by_whom_and_of_which_run(journal: Path) -> None:
    with pytest.raises(UsageError, match="say by whom"):
        append_signals(journal, [Signal("user.satisfied", 1.0)])
    with pytest.raises(UsageError, match="There is no journal"):
        append_signals(journal.with_name("other.jsonl"), [ANN])
    assert load(journal).reported == []
