"""Findings beside the journal."""

from __future__ import annotations

from pathlib import Path

from rolecraft.trajectories import FailureFinding, append_findings, load_findings

LOOP = FailureFinding("repetition.steps", "present", (3, 4), "A", "again", 0.9, "detector")
CLEAN = FailureFinding("verification.absent", "absent", source="judge")


def test_findings_are_appended_and_come_back_in_order(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    assert load_findings(journal) == []
    assert append_findings(journal, [LOOP]) == tmp_path / "run.findings.jsonl"
    append_findings(journal, [CLEAN, LOOP])
    append_findings(journal, [])
    assert load_findings(journal) == [LOOP, CLEAN, LOOP]


def test_a_broken_line_is_named_and_a_cut_off_one_never_swallows_the_next(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    path = append_findings(journal, [LOOP])
    with path.open("ab") as file:
        file.write(b'{"mode":"x","verdict":"maybe"}\n{"mode":"y","colour":1}\n{"mode":"x","verd')
    problems: list[str] = []
    assert load_findings(journal, problems=problems) == [LOOP]
    assert [problem.split(": ")[0] for problem in problems] == [f"{path}:{n}" for n in (2, 3, 4)]
    assert "'maybe'" in problems[0]
    assert "unknown keys ['colour']" in problems[1]
    append_findings(journal, [CLEAN])
    assert load_findings(journal) == [LOOP, CLEAN]
