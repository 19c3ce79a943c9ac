"""A run that is told to stop before its first step stops between phases, and says what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.training.sft.run import SFTResult, fine_tune
from rolecraft.training.sft.settings import SETTINGS, SFTSettings


@pytest.fixture
def settings_of_files(base: Path, tmp_path: Path) -> SFTSettings:
    rows = [{"data": [f"Q: {number}?", f"A: {number % 3}"]} for number in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return SFTSettings(
        model=str(base),
        data=(str(tmp_path / "rows.jsonl"),),
        output=tmp_path / "out",
        roles=("planner", "executor"),
        rank=4,
        eval_share=0.0,
        max_steps=1,
    )


def stopped_when_asked(settings: SFTSettings, time: int, listener: Any) -> tuple[SFTResult, int]:
    """What came of it, and how often it asked."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= time

    return fine_tune(settings, stop=stop, listener=listener), asked


def test_a_stop_takes_effect_between_the_phases_and_says_what_is_there(
    settings_of_files: SFTSettings, heard: Any
) -> None:
    """In order: after the data of each role was checked, after the base was found, after the data
    was prepared, after the model was loaded, after the only step."""
    output = settings_of_files.output
    prepared = (
        "Stopped before the first step of `planner`; nothing to resume from but prepared data."
    )
    early = (
        "Stopped before the first step of `planner`, and before the data was prepared; nothing to "
        "resume from."
    )
    for time, told in enumerate((early, early, early, prepared, prepared), start=1):
        result, asked = stopped_when_asked(settings_of_files, time, heard)
        assert (asked, result.finished) == (time, False)
        assert [one.role for one in result.trained] == ["planner"]
        assert result.how_it_stopped() == told
        assert not (output / "planner/checkpoints").exists()
        assert (output / SETTINGS).exists() == (time > 3)

    result, _ = stopped_when_asked(settings_of_files, 7, heard)
    assert [(one.role, one.summary is None) for one in result.trained] == [
        ("planner", False),
        ("executor", True),
    ]
    assert "the first step of `executor`" in result.how_it_stopped()
    assert fine_tune(settings_of_files, resume=True).finished


def test_a_run_with_a_checkpoint_says_of_which_step(base: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"data": ["Q: a?", "A: b"]}) + "\n")
    settings = SFTSettings(
        model=str(base), data=(str(tmp_path / "rows.jsonl"),), output=tmp_path / "out", max_steps=9
    )
    asked = iter(range(100))
    result = fine_tune(settings, stop=lambda: next(asked) >= 6)
    assert result.how_it_stopped() == "Stopped, with a checkpoint that has 3 steps done."
