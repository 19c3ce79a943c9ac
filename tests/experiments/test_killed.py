"""`kill -9` in the middle of an experiment costs the calls under way and nothing else."""

from __future__ import annotations

from pathlib import Path

from killed_runs import check_calls, killed_and_finished


def test_after_three_kills_the_experiment_is_whole_and_no_finished_run_was_played_again(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    assert killed_and_finished("experiment", tmp_path / "runs", log, (17, 5, 20)) == 36
    check_calls(log, 12 + 12 + 36, kills=3)
