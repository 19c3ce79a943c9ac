"""How far a judge agrees with people: said to be unmeasured until somebody measured this judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import Judge, annotate
from rolecraft.failure_taxonomy.agreement import agreement
from rolecraft.failure_taxonomy.judging import Measured, read_measured, write_measured
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.models import FunctionModel
from rolecraft.trajectories import Event, FailureFinding, Trajectory

Make = Callable[..., Trajectory]
Says = Callable[..., FunctionModel]

ROW: dict[str, Any] = {
    "model": "function",
    "variant": "zero-shot",
    "kappa": 0.414,
    "interval": [0.3, 0.52],
    "traces": 89,
    "labels": "the open codes",
}


def written(folder: Path, document: Any) -> Path:
    file = folder / "agreement.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


@pytest.fixture
def talk(trace: Make) -> Trajectory:
    return trace(Event("message", role="ada", content="Which file is it in?"))


async def test_agreement_is_unmeasured_until_it_is_measured(talk: Trajectory, says: Says) -> None:
    report = await annotate(talk, judge=Judge(says()))
    assert "how far this model agrees with people is unmeasured" in report.summary()
    assert json.loads(report.to_json())["judge"]["agreement"] is None


async def test_a_measured_agreement_is_shown_instead(
    talk: Trajectory, says: Says, tmp_path: Path
) -> None:
    report = await annotate(talk, judge=Judge(says(), agreement=written(tmp_path, ROW)))
    summary = report.summary()
    assert "unmeasured" not in summary
    assert (
        "its agreement with people was measured: Cohen's kappa 0.41 [0.30, 0.52], on 89 traces, "
        "labels: the open codes"
    ) in summary
    stored = json.loads(report.to_json())["judge"]["agreement"]
    assert stored == {**ROW, "sees_outcome": False, "decided": None}
    assert (
        Measured(**{**stored, "interval": (0.3, 0.52)})
        == read_measured(tmp_path / "agreement.json")[0]
    )


async def test_of_several_the_one_of_this_judge_is_taken(says: Says, tmp_path: Path) -> None:
    others = [
        {**ROW, "model": "other"},
        {**ROW, "variant": "few-shot", "kappa": 0.5},
        {**ROW, "sees_outcome": True, "kappa": 0.6},
        ROW,
    ]
    file = written(tmp_path, others)
    for options, kappa in [
        ({}, 0.414),
        ({"shots": 5}, 0.5),
        ({"judge_sees_outcome": True}, 0.6),
    ]:
        measured = Judge(says(), agreement=file, **options).agreement
        assert measured is not None
        assert measured.kappa == kappa


@pytest.mark.parametrize(
    "options", [{"shots": 5}, {"judge_sees_outcome": True}, {"model": "another"}]
)
def test_the_agreement_of_one_judge_is_never_shown_for_another(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    file = written(tmp_path, ROW)
    model = FunctionModel(lambda call: "", name=options.pop("model", "function"))
    with pytest.raises(UsageError, match="says nothing about another"):
        Judge(model, agreement=file, **options)


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ("{", "is not JSON"),
        ("[[]]", "is no object"),
        ({}, "it wants `model`"),
        ({**ROW, "kappa": "high"}, "it wants `model`"),
        ({**ROW, "kappa": 1.2}, "from -1 to 1"),
        ({**ROW, "traces": 0}, "at least one trace"),
        ({**ROW, "interval": [0.1]}, "`interval` is a list of two numbers"),
    ],
)
def test_a_file_that_holds_no_agreement_is_refused_with_the_reason(
    tmp_path: Path, document: Any, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault):
        read_measured(written(tmp_path, document))
    with pytest.raises(UsageError, match="cannot be read"):
        read_measured(tmp_path / "nothing.json")


def labels(annotator: str, *verdicts: str) -> list[Labels]:
    """One trace a verdict, all about one mode."""
    return [
        Labels(
            trace=f"t{number}",
            annotator=annotator,
            findings=(
                FailureFinding("reset", verdict, events=(0,) if verdict == "present" else ()),  # type: ignore[arg-type]
            ),
        )
        for number, verdict in enumerate(verdicts)
    ]


async def test_what_a_comparison_found_is_kept_and_shown(
    talk: Trajectory, says: Says, tmp_path: Path
) -> None:
    gold = labels("people", *["present", "absent"] * 6)
    predicted = labels("m", *["present", "absent"] * 4, "present", "present", "absent", "unknown")
    comparison = agreement(gold, predicted, resamples=50)
    measured = Measured.of(comparison, model="function")
    assert measured.kappa == comparison.micro.score("kappa")
    assert measured.decided == pytest.approx(11 / 12)
    assert measured.traces == 12
    file = write_measured(measured, tmp_path / "judges.json")
    write_measured(Measured(model="other", kappa=0.1, traces=3), file)
    write_measured(measured, file)
    assert [row.model for row in read_measured(file)] == ["other", "function"]
    report = await annotate(talk, judge=Judge(says(), agreement=file))
    assert "over the 92% that it decides, on 12 traces, labels: people" in report.summary()


def test_a_comparison_of_nothing_measures_nothing() -> None:
    comparison = agreement(labels("people", "present"), labels("m", "unknown"), resamples=0)
    with pytest.raises(UsageError, match="Nothing was measured of 'm'"):
        Measured.of(comparison, model="m")
