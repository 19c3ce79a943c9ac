"""`rolecraft demo` and `train`: short, for the shape of what they leave; long, for the promise."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.models.transformers_model import TransformersModel

FINAL = {
    "success_before",
    "success_after",
    "train_cpu_seconds",
    "failures_before",
    "failures_after",
    "report",
}


def test_a_short_demo_has_a_line_a_step_and_one_last_line_and_a_report(process, tmp_path):
    """One step teaches nothing: the exit code says that the demo fell short."""
    result = process("demo", "--tasks", "12", "--steps", "1", "--json", "--out", "short")
    assert result.code == ExitCode.INCOMPLETE, result.err
    *steps, last = [json.loads(line) for line in result.out.splitlines()]
    assert [step["step"] for step in steps] == [0]
    assert set(last) == FINAL
    assert 0 <= last["success_before"] < 0.6
    assert last["train_cpu_seconds"] > 0
    assert last["failures_before"]["verification.absent"] == 12
    assert last["failures_before"]["task_spec"] > 0
    page = (tmp_path / last["report"]).read_text("utf-8")
    for expected in ("<svg", "Learning", "Failures", "planner", "executor", "sequence"):
        assert expected in page
    assert "Training: 1 of 1" in result.err
    assert "of the 14 modes were judged" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_demo_goes_from_chance_to_nine_in_ten(process, tmp_path, seed):
    result = process("demo", "--json", "--seed", seed)
    assert result.code == ExitCode.OK, result.err
    last = json.loads(result.out.splitlines()[-1])
    assert 0.1 < last["success_before"] < 0.3
    assert last["success_after"] >= 0.9
    assert last["train_cpu_seconds"] <= 90
    assert last["failures_after"].get("task_spec", 0) < last["failures_before"]["task_spec"] / 4
    page = (tmp_path / last["report"]).read_text("utf-8")
    assert page.count("<h3>") == 3


def test_training_leaves_a_model_that_can_be_loaded_and_its_curve(cli, tmp_path):
    result = cli(
        *("train", "relay", "--steps", "2", "--tasks-per-step", "2"),
        *("--freeze", "planner", "--out", "out", "--json"),
    )
    assert result.code == ExitCode.OK, result.err
    *steps, last = result.lines
    assert [step["step"] for step in steps] == [0, 1]
    assert last["steps"] == 2
    curve = [json.loads(line) for line in (tmp_path / last["curve"]).read_text().splitlines()]
    assert [line["reward"] for line in curve] == [step["reward"] for step in steps]
    assert isinstance(TransformersModel.load(tmp_path / last["model"]), TransformersModel)


def test_training_that_falls_short_of_until_says_so(cli):
    result = cli("train", "relay", "--steps", "1", "--tasks-per-step", "2", "--until", "1.1")
    assert result.code == ExitCode.INCOMPLETE
    assert "was not reached" in result.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["relai"], "Did you mean 'relay'"),
        (["nowhere.py:game"], "There is no file"),
        (["crew.py:team"], "only a `Scenario` can be trained"),
        (["relay", "--freeze", "planer"], "Did you mean 'planner'"),
        (["relay", "--freeze", "planner", "--freeze", "executor"], "nothing is left to train"),
        (["relay", "--model", "openai/gpt-4o-mini"], "must be a local one"),
        (["relay", "--out", "full"], "is not empty"),
    ],
)
def test_mistakes_are_found_before_training(cli, team_file, tmp_path, arguments, says):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    result = cli("train", *arguments)
    assert result.code == ExitCode.USAGE
    assert says in result.err
