"""`kill -9` in the middle of an evaluation costs the calls under way and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from killed_runs import check_calls, killed_and_finished, start
from team_of_sums import journals

CALLS = 5 * 2 * 3 + 5 * 2 * 3
"""The team's three calls a run, and three runs of the agent for each of the team's."""


def figures(folder: Path) -> dict[str, Any]:
    """The results without wall times, which no two runs share."""
    line: dict[str, Any] = json.loads((folder / "evaluation.json").read_text())
    for row in line["rows"]:
        del row["per_attempt"]["seconds"], row["per_attempt"]["timed"]
    return line


def test_after_kills_in_both_phases_the_figures_are_those_of_an_uninterrupted_evaluation(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "whole"
    assert start("evaluation", whole, tmp_path / "log of the whole", 0).stdout == "True\n"
    assert len((tmp_path / "log of the whole").read_text().splitlines()) == CALLS

    folder, log = tmp_path / "killed", tmp_path / "log"
    kills = (17, 20, 9)  # the last one while the agent plays for equal cost
    assert killed_and_finished("evaluation", folder, log, kills) == len(journals(whole)) == 10 + 30
    check_calls(log, CALLS, kills=3)
    assert figures(folder) == figures(whole)
