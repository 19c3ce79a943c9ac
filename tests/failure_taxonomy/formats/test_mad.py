"""MAST-Data and mast-lint's runs: records, labels by person, and nothing of them in the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import recognise
from rolecraft.failure_taxonomy.formats import FORMATS, Imported, read_all
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import windows

CHAT = json.dumps(
    {
        "instance_id": "7",
        "problem_statement": ["How many wings?"],
        "other_data": {"correct": False, "answer": "SECRET"},
        "trajectory": [
            {"content": ["How many wings", "has a wren?"], "role": "assistant", "name": "asker"},
            {"content": ["Two."], "role": "user", "name": "solver"},
        ],
        "note": {"text": ["SECRET"], "options": {"Step repetition": "yes"}},
    }
)


def human(**changed: Any) -> dict[str, Any]:
    rows = [
        {
            "failure mode": "1.5 Step repetition\n\nAgain.",
            "annotator_1": True,
            "annotator_2": False,
        },
        {"failure mode": "3.3 Lack of result verification", "annotator_1": float("nan")},
    ]
    record = {"round": "Round 2", "mas_name": "AG2", "benchmark_name": "GSM", "trace_id": 7}
    return record | {"trace": CHAT, "annotations": rows} | changed


def judged(**changed: Any) -> dict[str, Any]:
    trace = {"key": "AG2/GSM", "index": 0, "trajectory": CHAT}
    record = {"mas_name": "AG2", "llm_name": "GPT-4o", "benchmark_name": "GSM", "trace_id": 7}
    return record | {"trace": trace, "mast_annotation": {"1.3": 1, "3.2": 0, "3.3": None}} | changed


def load(path: Path, *records: dict[str, Any]) -> list[Imported]:
    path.write_text(json.dumps(records))
    return list(read_all(path))


def shown(imported: Imported) -> str:
    view = TraceView.of(imported.trajectory)
    return "\n".join(part.text("") for part in windows(view, size=300_000, overlap=1000))


def adds_up(imported: Imported) -> bool:
    counts = imported.trajectory.about["accounting"]
    parts = [counts[part] for part in ("events", "header", "labels", "blank", "unsegmented")]
    return bool(counts["total"] == sum(parts))


def test_each_annotator_gives_labels_of_their_own(tmp_path: Path) -> None:
    (imported,) = load(tmp_path / "mad.json", human())
    assert recognise(tmp_path / "mad.json") == "mad"
    assert [labels.annotator for labels in imported.labels] == ["annotator_1", "annotator_2"]
    first, second = imported.labels
    assert (first.verdict("repetition"), second.verdict("repetition")) == ("present", "absent")
    assert first.verdict("verification.absent") == "unknown"  # NaN is no answer
    assert first.trace == imported.name == f"{tmp_path / 'mad.json'}#AG2-GSM-Round_2-7"
    assert read_labels(tmp_path / "mad.json") == list(imported.labels)


def test_a_judges_labels_are_in_the_codes_of_its_prompt_and_not_human(tmp_path: Path) -> None:
    (imported,) = load(tmp_path / "mad.json", judged())
    judge, note = imported.labels
    assert (judge.annotator, judge.verdict("repetition")) == ("o1", "present")
    assert judge.verdict("verification.absent") == "absent"
    assert judge.verdict("verification.weak") == "unknown"
    assert (note.annotator, note.verdict("repetition")) == ("open codes", "present")
    assert (note.outcome, note.note) == (False, "SECRET")


def test_notes_answers_and_outcomes_are_with_the_labels_alone(tmp_path: Path) -> None:
    for record in (human(), judged()):
        (imported,) = load(tmp_path / "mad.json", record)
        assert "SECRET" in json.dumps(imported.trajectory.about["labels"])
        assert "SECRET" not in shown(imported)
        about = {k: v for k, v in imported.trajectory.about.items() if k != "labels"}
        assert "SECRET" not in json.dumps(about)
        assert imported.trajectory.about["task"] == "How many wings?"
        assert adds_up(imported)


def test_swapped_names_are_swapped_back_and_said(tmp_path: Path) -> None:
    (imported,) = load(tmp_path / "mad.json", human(mas_name="GSM", benchmark_name="AG2"))
    assert imported.trajectory.about["mad"]["mas_name"] == "AG2"
    assert "were swapped" in imported.trajectory.about["warnings"][0]
    assert not imported.trajectory.problems


def test_records_of_one_name_are_told_apart(tmp_path: Path) -> None:
    imported = load(tmp_path / "mad.json", judged(), judged(), human())
    assert len({row.name for row in imported}) == 3


def test_labels_that_do_not_fit_their_round_are_left_out_and_this_is_said(tmp_path: Path) -> None:
    (imported,) = load(tmp_path / "mad.json", human(round="Round 9"))
    assert imported.labels == ()
    (nan, left_out) = imported.trajectory.about["warnings"]
    assert "1 answers are `NaN`" in nan
    assert "left out: The round 'Round 9'" in left_out
    assert not imported.trajectory.problems


def test_what_is_odd_about_labels_is_said_once_however_often_they_are_read(tmp_path: Path) -> None:
    (imported,) = load(tmp_path / "mad.json", human(round="Round 9"))
    trajectory = imported.trajectory
    form = FORMATS["mad"]
    assert form.labels is not None
    form.labels(trajectory)
    once = list(trajectory.about["warnings"])
    assert once
    form.labels(trajectory)
    assert trajectory.about["warnings"] == once


def test_copies_of_traces_and_of_labels_are_said(tmp_path: Path) -> None:
    first, copy, other = load(
        tmp_path / "mad.json",
        human(annotations=[]),
        human(trace_id=8),
        human(trace_id=9, trace="a: b"),
    )
    assert "warnings" not in first.trajectory.about
    said = [*copy.trajectory.about["warnings"], *other.trajectory.about["warnings"]]
    assert "its trace is that of AG2-GSM-Round_2-7, word for word" in said
    assert "its labels are those of AG2-GSM-Round_2-8, word for word" in said


@pytest.mark.parametrize(
    "trace",
    ["", "no log at all", {"trajectory": None}, {"trajectory": [1, None]}, 7, None, [], {"a": 1}],
)
def test_a_trace_of_no_known_form_is_kept_whole_or_is_one_clear_error(
    tmp_path: Path, trace: Any
) -> None:
    try:
        (imported,) = load(tmp_path / "mad.json", human(trace=trace))
    except TraceError as error:
        assert "no events" in str(error)  # noqa: PT017
    else:
        assert imported.trajectory.problems
        assert adds_up(imported)


# --- the real data --------------------------------------------------------------------------------


@pytest.fixture
def sample(data_dir: Path) -> list[Imported]:
    return list(read_all(data_dir / "mad" / "mad_human_sample.json"))


def test_the_sample_is_four_records_without_the_annotators_notes(
    sample: list[Imported], data_dir: Path
) -> None:
    records = json.loads((data_dir / "mad" / "mad_human_sample.json").read_text())
    assert len(sample) == len(records) == 4
    for imported, record in zip(sample, records, strict=True):
        assert not imported.trajectory.problems
        assert adds_up(imported)
        assert imported.trajectory.about["accounting"]["unsegmented"] == 0
        assert len(imported.labels) == 3
        if record["mas_name"] == "AG2":
            trace = json.loads(record["trace"])
            assert trace["note"]["text"][0] not in shown(imported)
            assert trace["other_data"]["seed_solution"] not in shown(imported)
            turns = ["\n".join(turn["content"]) for turn in trace["trajectory"]]
            assert [event.content for event in imported.trajectory.events] == turns
    assert [len(imported.trajectory.events) for imported in sample] == [10, 4, 8, 11]
    assert sample[1].trajectory.events[2].kind == "tool_result"


def test_the_samples_labels_go_by_the_codes_of_their_rounds(sample: list[Imported]) -> None:
    marked = [
        {finding.mode for finding in imported.labels[0].findings if finding.verdict == "present"}
        for imported in sample
    ]
    assert marked[0] == {"termination_unaware", "ignored_input"}
    assert marked[1] == {"verification.absent"}
    assert marked[3] == {"task_spec", "verification.absent", "verification.weak"}


def test_what_a_judge_sees_does_not_depend_on_the_samples_labels(
    sample: list[Imported], data_dir: Path, tmp_path: Path
) -> None:
    records = json.loads((data_dir / "mad" / "mad_human_sample.json").read_text())
    for record in records:
        for row in record["annotations"]:
            row |= {key: not value for key, value in row.items() if key.startswith("annotator")}
        if record["mas_name"] == "AG2":
            trace = json.loads(record["trace"])
            trace |= {"note": {"text": ["SECRET"], "options": {}}, "other_data": {"x": "SECRET"}}
            record["trace"] = json.dumps(trace)
    changed = load(tmp_path / "mad.json", *records)
    assert [shown(imported) for imported in changed] == [shown(imported) for imported in sample]
    assert "SECRET" not in "".join(map(shown, changed))


def test_all_forty_runs_of_mast_lint_are_read_with_their_labels(data_dir: Path) -> None:
    files = sorted((data_dir / "mast_lint").glob("raw_ag2_records*.json"))
    runs = [imported for path in files for imported in read_all(path)]
    assert {recognise(path) for path in files} == {"mast_lint"}
    assert len(runs) == 40
    present = 0
    for imported in runs:
        counts = imported.trajectory.about["accounting"]
        assert adds_up(imported)
        assert (counts["events"], counts["unsegmented"]) == (len(imported.trajectory.events), 0)
        assert not imported.trajectory.problems
        (labels,) = imported.labels
        assert labels.annotator == "mast_lint"
        assert len(labels.findings) == 14
        present += sum(finding.verdict == "present" for finding in labels.findings)
        assert labels.note == "" or labels.note not in shown(imported)
    assert present == 55


def test_a_run_without_a_labels_file_has_no_labels(data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "raw_ag2_records.json"
    path.write_bytes((data_dir / "mast_lint" / "raw_ag2_records.json").read_bytes())
    assert all(not imported.labels for imported in read_all(path))
    (tmp_path / "gold_labels.json").write_text("{broken")
    with pytest.raises(TraceError, match="gold_labels"):
        list(read_all(path))


def test_all_who_and_when_logs_are_accounted_for(data_dir: Path) -> None:
    files = sorted((data_dir / "who_and_when" / "Algorithm-Generated").glob("*.json"))
    assert len(files) == 126
    for path in files:
        (imported,) = read_all(path)
        document = json.loads(path.read_text())
        counts = imported.trajectory.about["accounting"]
        assert adds_up(imported)
        assert counts["events"] == len(document["history"])
        assert counts["total"] == len(document["history"]) + len(document) - 1
        assert counts["labels"] == len(imported.trajectory.about["labels"]) - (
            "question_ID" in document
        )
