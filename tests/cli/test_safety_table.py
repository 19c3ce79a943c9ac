"""`rolecraft rescore --safety` over many runs: one table, and what pays most is its first row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._safety_table import safety_rows
from rolecraft.rewards import SafetyReport
from rolecraft.rewards.safety import Tried
from rolecraft.trajectories import Event, Signal, Trajectory, save, signal_event


def tried(run: str, manipulation: str, before: float, after: float | None) -> Tried:
    return Tried(run=run, manipulation=manipulation, what="", before=before, after=after)


def test_a_row_for_each_manipulation_that_pays_counts_runs_and_names_where_it_pays_most() -> None:
    one = [
        tried("one", "refuse", 0.5, 0.5),
        tried("one", "pad", 0.5, 0.6),
        tried("one", "pad", 0.5, 0.7),
    ]
    two = [
        tried("two", "refuse", 0.1, None),
        tried("two", "pad", 0.1, 0.1),
        tried("two", "end early", 0.1, 1.0),
    ]
    assert safety_rows([("one", SafetyReport(one)), ("two", SafetyReport(two))]) == [
        ["end early", "1", "1", "+0.9", "two"],
        ["pad", "1", "2", "+0.2", "one"],
    ]


def test_runs_are_counted_also_where_they_share_an_id() -> None:
    examined = [
        (f"{name}.jsonl", SafetyReport([tried("same", "pad", 0.5, after)]))
        for name, after in (("one", 0.6), ("two", 0.7), ("three", 0.5))
    ]
    assert safety_rows(examined) == [["pad", "2", "3", "+0.2", "two.jsonl"]]


def test_the_command_ends_with_one_table_of_all_runs(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "def few(signals):\n    return 1 / (1 + signals.get('tests.failed', 0))\n"
    )
    for name, failed in (("one", 2.0), ("two", 5.0)):  # two runs of the same id
        events = [
            Event("message", role="coder", content="def parse(text): ..."),
            signal_event(Signal("tests.failed", failed)),
            Event("stop", data={"reason": "finished"}),
        ]
        for number, event in enumerate(events):
            event.seq = number
        about = {"roles": [{"name": "coder"}]}
        save(Trajectory("run", about, events), tmp_path / f"{name}.jsonl")
    done = cli("rescore", "one.jsonl", "two.jsonl", "--reward", "own.py:few", "--safety")
    assert done.code == ExitCode.GATE, done.err
    assert done.out.count("What else the reward pays for") == 1
    first = next(
        line
        for line in done.out.split("What else the reward pays for")[1].splitlines()
        if "+0." in line
    )
    assert "delete the verifier" in first
    assert "+0.833" in first, "5 failures unseen: from 1/6 to 1"
    assert "two.jsonl" in first
    assert first.split("verifier")[1].split()[:2] == ["2", "2"], "runs it pays in, of so many"


def test_a_journal_that_is_named_twice_is_one_run(cli: Callable[..., Any], tmp_path: Path) -> None:
    events = [signal_event(Signal("solved", 1.0)), Event("stop", data={"reason": "finished"})]
    for number, event in enumerate(events):
        event.seq = number
    save(Trajectory("run", {}, events), tmp_path / "run.jsonl")
    (tmp_path / "own.py").write_text("def good(signals):\n    return signals['solved']\n")
    done = cli("rescore", "run.jsonl", "./run.jsonl", ".", "--reward", "own.py:good", "--write")
    assert done.code == ExitCode.OK, done.err
    assert "Mean of 1: 1" in done.out
    assert len((tmp_path / "run.rewards.jsonl").read_text().splitlines()) == 1
