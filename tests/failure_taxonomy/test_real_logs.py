"""All 126 real Who&When logs: nothing lost, nothing made up, no label seen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rolecraft.failure_taxonomy import MODES, Report, annotate_many, read
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import windows


@pytest.fixture
def logs(data_dir: Path) -> list[Path]:
    found = sorted((data_dir / "who_and_when" / "Algorithm-Generated").glob("*.json"))
    assert len(found) == 126
    return found


def shown_to_judge(path: Path) -> str:
    parts = windows(TraceView.of(read(path)), size=300_000, overlap=20_000)
    return "\n".join(part.text("") for part in parts)


def test_every_turn_and_speaker_is_accounted_for(logs: list[Path]) -> None:
    turns = 0
    for path in logs:
        history = json.loads(path.read_text())["history"]
        trajectory = read(path)
        assert not trajectory.problems
        assert [event.seq for event in trajectory.events] == list(range(len(history)))
        assert [event.content for event in trajectory.events] == [t["content"] for t in history]
        assert [event.role for event in trajectory.events] == [t["name"] for t in history]
        assert trajectory.roles == list(dict.fromkeys(t["name"] for t in history))
        turns += len(history)
    assert turns == 1099


def test_every_report_of_an_execution_is_tied_to_the_code(logs: list[Path]) -> None:
    """236 of 303 terminal turns report an execution; the others say that there was no code."""
    events = [event for path in logs for event in read(path).events]
    terminal = [event for event in events if event.role == "Computer_terminal"]
    results = [event for event in terminal if event.kind == "tool_result"]
    assert (len(terminal), len(results)) == (303, 236)
    assert all(event.cause == event.seq - 1 and event.data["arguments"] for event in results)
    assert sum(event.data["ok"] for event in results) == 146


async def test_all_logs_are_annotated_with_evidence_that_holds(
    logs: list[Path], data_dir: Path
) -> None:
    reports = []
    async for report in annotate_many(data_dir / "who_and_when"):
        assert isinstance(report, Report)
        reports.append(report)
    assert len(reports) == 126
    for report in reports:
        assert report.format == "who_and_when"
        assert {finding.mode for finding in report.findings} == set(MODES)
        assert re.search(r"of the 14 modes (was|were) judged", report.summary())
        events = {event.seq: event for event in read(report.trace).events}
        for finding in report.present:
            assert finding.events
            assert set(finding.events) <= events.keys()
            quoted = any(finding.quote in quotable(events[seq]) for seq in finding.events)
            assert (finding.quote and quoted) or MODES[finding.mode].absence


def test_no_label_is_in_what_a_judge_sees(logs: list[Path]) -> None:
    for path in logs:
        document = json.loads(path.read_text())
        shown = shown_to_judge(path)
        assert document["mistake_reason"] not in shown
        assert all(turn["content"] in shown for turn in document["history"])
        frame = shown
        for turn in document["history"]:
            frame = frame.replace(turn["content"], "", 1)
        assert "ground_truth" not in frame
        assert "mistake_" not in frame


def test_what_a_judge_sees_does_not_depend_on_the_labels(logs: list[Path], tmp_path: Path) -> None:
    """Many a right answer, such as 8, also stands in the turns, so each is replaced by a word."""
    labels = ("ground_truth", "mistake_agent", "mistake_step", "mistake_reason", "is_correct")
    for path in logs:
        document = json.loads(path.read_text())
        present = {label: "SECRET-LABEL" for label in labels if label in document}
        assert "ground_truth" in present
        other = tmp_path / path.name
        other.write_text(json.dumps({**document, **present}))
        assert shown_to_judge(other) == shown_to_judge(path)
        assert "SECRET-LABEL" not in shown_to_judge(other)
