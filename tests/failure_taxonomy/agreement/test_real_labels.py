"""Agreement on published labels: people with each other, labels with themselves, the benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.failure_taxonomy.agreement import agreement
from rolecraft.failure_taxonomy.labels import read_labels

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "annotation_quality.py"


def test_three_people_on_the_same_traces(data_dir: Path) -> None:
    """Rounds 1 and 2 are unanimous; in the last, one of three does not see a broken task."""
    people = read_labels(data_dir / "mad" / "mad_human_sample.json")
    found = agreement(people, [row for row in people if row.annotator == "annotator_2"])
    raters = found.raters
    assert raters is not None
    assert raters.annotators == ("annotator_1", "annotator_2", "annotator_3")
    assert raters.pairs["annotator_1", "annotator_3"] == pytest.approx(1)
    # `task_spec` is 2 of 3 in one of four traces: agreement (3 + 1/3) / 4, present 2 of 12.
    chance = (1 / 6) ** 2 + (5 / 6) ** 2
    assert raters.by_mode["task_spec"] == pytest.approx((10 / 12 - chance) / (1 - chance))
    assert found.rows["task_spec"].counts.fn == 1
    assert found.micro.counts.fp == 0


def test_labels_agree_with_themselves_and_copies_are_named(data_dir: Path) -> None:
    gold = read_labels(data_dir / "mast_lint", on_error=lambda error: None)
    found = agreement(gold, gold, resamples=20)
    assert found.traces == 40
    assert found.micro.score("kappa") == 1
    assert found.micro.intervals["kappa"] == (1, 1)
    assert [len(group) for group in found.same_rows] == [9, 7, 2]
    assert agreement(gold, gold, distinct=True, resamples=5).traces < 40


def test_blame_is_read_as_integers(data_dir: Path) -> None:
    gold = read_labels(data_dir / "who_and_when")
    found = agreement(gold, gold, resamples=20)
    assert found.attribution is not None
    assert (found.attribution.both.hits, found.attribution.both.n) == (126, 126)
    assert found.attribution.other_base.hits == 0
    assert found.ceiling is None


def test_the_benchmark_prints_every_set_beside_what_costs_nothing(
    data_dir: Path, tmp_path: Path
) -> None:
    record = tmp_path / "quality.json"
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--data", data_dir, "--resamples", "20", "--json", record],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sets = json.loads(record.read_text())["sets"]
    assert [each["traces"] for each in sets] == [4, 24, 16, 126]
    for each in sets:
        assert f"### {each['name']}" in done.stdout
    assert done.stdout.count("| always-no |") == 3
    assert done.stdout.count("| step: a random step |") == 1
