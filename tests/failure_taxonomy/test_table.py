"""Labels as one wide table: a row a trace and annotator, a column a mode."""

from __future__ import annotations

import csv
from pathlib import Path

from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.failure_taxonomy.table import wide_table, write_table
from rolecraft.trajectories import FailureFinding

ROWS = [
    Labels(
        trace="runs/1.jsonl",
        annotator="ada",
        findings=(
            FailureFinding("reset", "present"),
            FailureFinding("reset", "present"),
            FailureFinding("repetition", "absent"),
            FailureFinding("derailment", "unknown"),
        ),
        decisive=Blame("planner", 0),
        outcome=False,
    ),
    Labels(trace="=1+2", annotator="@bob", decisive=Blame("-cmd", None), outcome=True),
]


def test_a_cell_is_1_0_or_empty() -> None:
    header, (ada, bob) = wide_table(ROWS)
    assert header == [
        "trace", "annotator", *MODES, "decisive_role", "decisive_step", "done",
    ]  # fmt: skip
    said = dict(zip(header, ada, strict=True))
    assert (said["reset"], said["repetition"], said["derailment"], said["task_spec"]) == (
        "1",
        "0",
        "",
        "",
    )
    assert (said["decisive_role"], said["decisive_step"], said["done"]) == ("planner", "0", "0")
    assert bob[2:] == [""] * len(MODES) + ["-cmd", "", "1"]


def test_the_file_is_csv_in_which_nothing_is_a_formula(tmp_path: Path) -> None:
    path = write_table(ROWS, tmp_path / "labels.csv")
    with path.open(newline="", encoding="utf-8") as file:
        ada, bob = csv.DictReader(file)
    assert (ada["trace"], ada["reset"]) == ("runs/1.jsonl", "1")
    assert (bob["trace"], bob["annotator"], bob["decisive_role"]) == ("'=1+2", "'@bob", "'-cmd")
