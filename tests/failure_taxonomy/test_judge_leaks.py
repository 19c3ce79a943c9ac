"""Labels and outcomes never reach a judge, whatever a trace comes in, unless the caller says so.

Every importer is given real files in which each field that says how a run went, or who failed, is
replaced by a word that must not turn up in a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecraft.failure_taxonomy import Judge, annotate
from rolecraft.failure_taxonomy.formats import FORMATS, read_all
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.models import FunctionModel
from rolecraft.trajectories import Event, Signal, Trajectory, signal_event

Make = Callable[..., Trajectory]
Says = Callable[..., FunctionModel]

SECRET = "QXSECRETQX"
NAMES = (
    *("ground_truth", "groundtruth", "is_correct", "is_corrected", "mistake_agent"),
    *("mistake_step", "mistake_reason", "mistake_type", "annotations", "annotation", "labels"),
    *("label", "mast_annotation", "mast_labels", "gold", "other_data", "reward", "rewards"),
    *("score", "scores", "outcome", "feedback", "feedback_stats", "evaluation", "failure_mode"),
    *("failure_modes", "root_cause", "critical_failure", "passed", "resolved", "success"),
    *("correct", "expected_output", "reference", "reference_outputs"),
)
FILES = Path(__file__).parent / "formats" / "files"


def poisoned(value: Any) -> Any:
    """The same JSON, with the secret as every value of a field that is named like a label."""
    if isinstance(value, dict):
        return {k: _all_secret(v) if k in NAMES else poisoned(v) for k, v in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return value


def _all_secret(value: Any) -> Any:
    if isinstance(value, dict):
        # The importer has to know the mode that a label is about.
        return {k: v if k == "failure mode" else _all_secret(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_all_secret(item) for item in value]
    return SECRET if isinstance(value, str) else value


def with_labels(record: Any) -> Any:
    """A record that says about itself, in every way, how it went."""
    if not isinstance(record, dict):
        return record
    added = {name: {"why": SECRET} if name.endswith("s") else SECRET for name in NAMES}
    return {**added, **poisoned(record)} if "history" in record else poisoned(record)


def rewritten(source: Path, folder: Path) -> Path:
    """A copy of a file in which all labels are the secret."""
    copy = folder / source.name
    text = source.read_text(encoding="utf-8-sig")
    if source.suffix == ".jsonl":
        lines = [json.dumps(poisoned(json.loads(line))) for line in text.splitlines() if line]
        copy.write_text("\n".join(lines) + "\n")
    else:
        document = json.loads(text)
        whole = [*map(with_labels, document)] if isinstance(document, list) else None
        copy.write_text(json.dumps(with_labels(document) if whole is None else whole))
    return copy


async def prompts(trajectory: Trajectory, **options: Any) -> str:
    """All that a judge is shown of a trace, its longer parts and what tools bring up included."""
    seen: list[str] = []

    def reply(call: Any) -> str:
        seen.extend(message.content for message in call.messages)
        return "no"

    await Judge(FunctionModel(reply), **options).judge(trajectory)
    return "\n".join(seen)


def samples(data_dir: Path) -> Iterator[Path]:
    yield from sorted(FILES.glob("*.json*"))
    yield from sorted((data_dir / "who_and_when").rglob("*.json"))[:12]
    yield from sorted((data_dir / "mast_lint").glob("raw_*.json"))[:2]
    yield data_dir / "mad" / "mad_human_sample.json"


async def test_no_label_in_a_file_reaches_the_judge(data_dir: Path, tmp_path: Path) -> None:
    formats = set()
    for source in samples(data_dir):
        before = list(read_all(source))
        after = list(read_all(rewritten(source, tmp_path)))
        assert len(before) == len(after)
        for original, imported in zip(before, after, strict=True):
            formats.add(imported.trajectory.about.get("format"))
            shown = await prompts(imported.trajectory)
            assert SECRET not in shown, source
            assert len(original.trajectory.events) == len(imported.trajectory.events)
    assert len(formats) >= 6, formats


async def test_what_an_importer_sets_aside_as_a_label_is_not_in_the_prompt(data_dir: Path) -> None:
    """Word for word: notes of annotators, reasons, answers, unless the agents say them too."""
    told = 0
    for source in samples(data_dir):
        for imported in read_all(source):
            shown = await prompts(imported.trajectory)
            about = {k: v for k, v in imported.trajectory.about.items() if k != "labels"}
            said = "\n".join(event.content for event in imported.trajectory.events)
            said += "\n".join(texts(about))
            for text in texts(imported.trajectory.about.get("labels")):
                if len(text) >= 25 and text not in said:
                    told += 1
                    assert text not in shown, source
    assert told > 20


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item)


@pytest.mark.parametrize("name", [*FORMATS])
async def test_whatever_an_importer_leaves_in_header_or_events_stays_out(
    trace: Make, name: str
) -> None:
    """Should it put a label where none belongs: only fields on a list are shown."""
    labels = dict.fromkeys(NAMES, SECRET)
    talk = trace(
        Event("message", role="ada", content="hello", data={**labels, "labels": labels}),
        Event("tool_call", role="ada", data={"tool": "t", "arguments": {}, **labels}),
        Event("tool_result", role="ada", content="5", data={"ok": True, **labels}, cause=1),
        Event("verify", role="environment", content=SECRET, data={"target": SECRET}),
        signal_event(Signal(SECRET, 1.0)),
        Event("stop", data={"reason": "finished", **labels}),
        **labels | {"format": name, "labels": labels, "accounting": labels, "records": None},
        task={"id": SECRET, "prompt": "Say hello.", "data": labels},
        roles=[{"name": "ada", "profile": "host", **labels}],
    )
    talk.problems.append(SECRET)
    assert SECRET not in await prompts(talk)


# --- unless the caller says so --------------------------------------------------------------------


@pytest.fixture
def graded(trace: Make) -> Trajectory:
    return trace(
        Event("message", role="ada", content="The answer is 41."),
        Event(
            "verify",
            role="environment",
            content="expected 42",
            data={"target": "answer", "passed": False},
        ),
        signal_event(Signal("solved", 0.0, unit="share")),
        Event("stop", data={"reason": "finished"}),
        task="What is six times seven?",
        labels={
            "ground_truth": "42",
            "is_correct": False,
            "mistake_agent": "QXada",
            "mistake_reason": "QXwrong product",
            "annotations": [{"failure mode": "QX1.1", "annotator_1": True}],
        },
    )


async def test_a_judge_that_may_see_the_outcome_is_told_it_and_no_label_of_failures(
    graded: Trajectory,
) -> None:
    hidden = (await prompts(graded)).split(" begin\n")[1]
    assert "42" not in hidden
    assert "outcome" not in hidden
    shown = (await prompts(graded, judge_sees_outcome=True)).split(" begin\n")[1]
    for told in ('ground_truth: "42"', "is_correct: false", "solved: 0.0 share", "expected 42"):
        assert told in shown
    assert "answer: passed false; expected 42" in shown
    assert "QX" not in shown


async def test_an_outcome_is_no_evidence(graded: Trajectory, says: Says) -> None:
    for seq, quote in ((1, "expected 42"), (2, "solved: 0.0"), (0, "expected 42")):
        row = {
            "mode": "verification.weak",
            "verdict": "present",
            "role": "ada" if seq == 0 else "environment",
            "events": [seq],
            "quote": quote,
        }
        judge = Judge(says(row), judge_sees_outcome=True)
        opinion = await judge.judge(graded, modes=["verification.weak"])
        assert opinion.findings[0].verdict == "unknown"
        assert len(opinion.dropped) == 1


@pytest.mark.parametrize("sees", [False, True])
async def test_that_a_judge_saw_the_outcome_is_stored_with_every_label(
    graded: Trajectory, says: Says, sees: bool
) -> None:
    judge = Judge(says(), judge_sees_outcome=sees)
    report = await annotate(graded, judge=judge)
    source = "judge:function+outcome" if sees else "judge:function"
    by_judge = [row for row in report.findings if row.source.startswith("judge")]
    assert by_judge
    assert {row.source for row in by_judge} == {source}
    assert report.opinion is not None
    assert report.opinion.sees_outcome is sees
    line = json.loads(report.to_json())
    assert line["judge"]["sees_outcome"] is sees
    read = Labels.from_dict(line)
    assert {row.source for row in read.findings if row.source.startswith("judge")} == {source}
    assert ("told how the run ended" in report.summary()) is sees
