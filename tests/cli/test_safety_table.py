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
    report = SafetyReport(
        [
            tried("one", "refuse", 0.5, 0.5),
            tried("one", "pad", 0.5, 0.6),
            tried("one", "pad", 0.5, 0.7),
            tried("two", "refuse", 0.1, None),
            tried("two", "pad", 0.1, 0.1),
            tried("two", "end early", 0.1, 1.0),
        ]
    )
    assert safety_rows(report) == [
        ["end early", "1", "1", "+0.9", "two"],
        ["pad", "1", "2", "+0.2", "one"],
    ]


def test_the_command_ends_with_one_table_of_all_runs(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "def few(signals):\n    return 1 / (1 + signals.get('tests.failed', 0))\n"
    )
    for name, failed in (("one", 2.0), ("two", 5.0)):
        events = [
            Event("message", role="coder", content="def parse(text): ..."),
            signal_event(Signal("tests.failed", failed)),
            Event("stop", data={"reason": "finished"}),
        ]
        for number, event in enumerate(events):
            event.seq = number
        about = {"roles": [{"name": "coder"}]}
        save(Trajectory(name, about, events), tmp_path / f"{name}.jsonl")
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
    assert "two" in first
