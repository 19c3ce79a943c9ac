"""Labels: kept as JSON lines, read from there and from data sets that have labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError, UsageError
from rolecraft.failure_taxonomy import MAST_V3, Decisive, Report
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.failure_taxonomy.labels import Blame, Labels, read_labels, write_labels
from rolecraft.trajectories import FailureFinding

LABELS = Labels(
    trace="runs/1.jsonl",
    annotator="ada",
    findings=(
        FailureFinding("reset", "present", events=(3, 1), role="planner", quote="Hello again"),
        FailureFinding("repetition", "absent"),
        FailureFinding("derailment", "unknown", reason="cannot tell"),
    ),
    decisive=Blame("planner", 3),
    outcome=False,
    note="clear",
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_labels(write_labels([LABELS, LABELS], tmp_path / "gold.jsonl")) == [LABELS, LABELS]


def test_a_mode_that_was_not_asked_about_has_no_verdict() -> None:
    assert [LABELS.verdict(mode) for mode in ("reset", "repetition", "derailment")] == [
        "present",
        "absent",
        "unknown",
    ]
    assert LABELS.verdict("task_spec") is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"trace": "a", "findings": [{"mode": "3.2", "verdict": "present"}]}', "3.2"),
        ('{"trace": "a", "findings": [{"mode": "reset", "verdict": "yes"}]}', "'yes'"),
        ('{"trace": "a", "findings": [], "decisive": {"step": "4"}}', "'4'"),
        (
            '{"trace": "a", "findings": [{"mode": "reset", "verdict": "absent", "events": ["1"]}]}',
            "1",
        ),
        (
            '{"trace": "a", "findings": [{"mode": "reset", "verdict": "absent", "confidence": 7}]}',
            "from 0 to 1, not 7",
        ),
        ('{"trace": "a", "findings": [], "outcome": "yes"}', "'yes'"),
        ("{", "line 2"),
        ("[1]", r"an object, not \[1\]"),
        ('{"trace": "a", "findings": [{"mode": "reset", "verdict": "absent", "events": 3}]}', "3"),
        ("[" * 100_000, "line 2"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps(LABELS.to_dict()) + "\n" + line + "\n")
    with pytest.raises(TraceError, match=complaint) as caught:
        read_labels(path)
    assert "line 2" in str(caught.value)


def test_a_line_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    path = write_labels([LABELS], tmp_path / "gold.jsonl")
    path.write_bytes(path.read_bytes() + b'{"trace": "\xff"}\n')
    with pytest.raises(TraceError, match=r"line 2.*0xff"):
        read_labels(path)


def test_labels_of_an_imported_file_name_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    log = {"question": "q", "history": [{"role": "a", "content": "x"}], "mistake_agent": "a"}
    path.write_text(json.dumps({**log, "mistake_step": "0", "mistake_reason": "because"}))
    (imported,) = read_all(path)
    (labels,) = imported.labels
    assert (labels.trace, labels.decisive) == (str(path), Blame("a", 0))
    assert read_labels(path) == [labels]


def test_a_file_without_labels_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"question": "q", "history": [{"role": "a", "content": "x"}]}))
    with pytest.raises(TraceError, match="no labels"):
        read_labels(path)


def test_a_report_is_read_back_as_labels() -> None:
    """What `annotate --json` prints is a line of a labels file: verdicts, and whom it blames."""
    found = FailureFinding("repetition", "present", events=(3, 1), role="coder", confidence=0.9)
    clean = FailureFinding("reset", "absent")
    report = Report(
        trace="runs/1.jsonl",
        format="rolecraft",
        findings=[found, clean],
        decisive=Decisive("repetition", "coder", 3, found),
    )
    labels = Labels.from_dict(json.loads(report.to_json()))
    assert (labels.trace, labels.annotator) == ("runs/1.jsonl", "rolecraft detectors")
    assert labels.findings == (found, clean)
    assert labels.decisive == Blame("coder", 3)
    report.decisive = None
    assert Labels.from_dict(json.loads(report.to_json())).decisive is None


def finding(**row: str) -> dict[str, Any]:
    return {"trace": "a", "findings": [{"verdict": "present", **row}]}


def test_a_code_counts_with_its_system_only() -> None:
    labels = Labels.from_dict(finding(code="3.2", code_system="mad-rounds-2-3"))
    assert [f.mode for f in labels.findings] == ["verification.weak"]
    for wrong, complaint in (
        ({"code": "3.2"}, "code_system"),
        ({"code": "3.2", "code_system": "MAST-14"}, "mast-v3"),
        ({"code": "3.4", "code_system": "mad-round-1"}, "gave up"),
        ({"mode": "reset", "code": "3.2", "code_system": MAST_V3.name}, "not 'reset'"),
    ):
        with pytest.raises((ValueError, UsageError), match=complaint):
            Labels.from_dict(finding(**wrong))


def test_a_folder_is_read_and_what_has_no_labels_is_said(tmp_path: Path) -> None:
    write_labels([LABELS], tmp_path / "gold.jsonl")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(TraceError, match=r"notes\.json"):
        read_labels(tmp_path)
    said: list[TraceError] = []
    assert read_labels(tmp_path, on_error=said.append) == [LABELS]
    assert "notes.json" in str(said[0])
    (tmp_path / "gold.jsonl").unlink()
    with pytest.raises(TraceError, match="no labels"):
        read_labels(tmp_path, on_error=said.append)


def test_what_is_odd_about_the_labels_of_a_data_set_is_said(tmp_path: Path) -> None:
    record = {
        "round": "Round 2",
        "mas_name": "AG2",
        "benchmark_name": "GSM-Plus",
        "trace_id": 1,
        "trace": "ada: one\n\nbob: two\n\nada: three\n",
        "annotations": [{"failure mode": "1.5 Step repetition", "annotator_1": True}],
    }
    path = tmp_path / "mad.json"
    path.write_text(json.dumps([record, {**record, "trace_id": 2}]))
    warnings: list[str] = []
    read_labels(tmp_path, on_warning=warnings.append)
    assert any("word for word" in warning and "#" in warning for warning in warnings), warnings
