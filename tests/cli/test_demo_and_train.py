"""`rolecraft demo` and `train`: short, for the shape of what they leave; long, for the promise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.cli.demo import demo
from rolecraft.cli.run import run
from rolecraft.cli.train import train
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training import FROM_SCRATCH

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
    for said in (page, result.err):  # or else the table puzzles
        assert "Nobody in this team checks the answer" in said
    assert "rolecraft demo --tasks 12 --steps 1 --seed 0 --out short" in page


@pytest.mark.parametrize("command", [demo, run, train])
def test_git_ignores_where_commands_write_to_in_this_repository(command):
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert f"/{signature(command).parameters['out'].default}/" in ignored


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_demo_goes_from_chance_to_nine_in_ten(process, tmp_path, seed):
    result = process("demo", "--json", "--seed", seed)
    assert result.code == ExitCode.OK, result.err
    last = json.loads(result.out.splitlines()[-1])
    assert 0.1 < last["success_before"] < 0.3
    assert last["success_after"] >= 0.9
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


@pytest.mark.parametrize("command", [["train", "relay"], ["demo"]])
def test_a_folder_that_cannot_be_made_is_found_before_anything_is_played(cli, tmp_path, command):
    (tmp_path / "file").write_text("")
    result = cli(*command, "--out", "file/sub", "--json")
    assert result.code == ExitCode.USAGE
    assert result.err.startswith("rolecraft: Cannot write to `file/sub`: Not a directory.")
    assert len(result.err.splitlines()) == 1


def test_an_interrupted_training_leaves_what_it_learnt(tmp_path):
    command = [sys.executable, "-m", "rolecraft.cli", "train", "relay", "--steps", "100000"]
    command += ["--tasks-per-step", "2", "--out", "out", "--json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest, told = running.communicate(timeout=60)
    assert running.returncode == ExitCode.INTERRUPTED
    assert b"Traceback" not in told
    assert b"is in `out`" in told
    assert b"Stopping after this step; again to leave now." in told
    assert (tmp_path / "out" / "training.jsonl").read_bytes() == first + rest
    assert isinstance(TransformersModel.load(tmp_path / "out"), TransformersModel)


FAILING = """
from dataclasses import replace
from rolecraft.rewards import reward
from rolecraft.scenarios.relay import relay

scored = 0

@reward
def breaks(signals):
    global scored
    scored += 1
    if scored > {episodes}:
        raise ValueError("the scale is broken")
    return signals["relay.correct"]

game = replace(relay, reward=breaks)
"""


def test_a_training_that_fails_leaves_what_it_learnt(cli, tmp_path):
    """The first step has two tasks with 16 attempts each; the second fails."""
    (tmp_path / "game.py").write_text(FAILING.format(episodes=2 * FROM_SCRATCH.group))
    result = cli("train", "game.py:game", "--tasks-per-step", "2", "--out", "out")
    assert result.code == ExitCode.ERROR
    assert "the scale is broken" in result.err
    assert "learnt in 1 step is in `out`" in result.err
    assert len((tmp_path / "out" / "training.jsonl").read_text().splitlines()) == 1
    assert isinstance(TransformersModel.load(tmp_path / "out"), TransformersModel)


def test_a_training_that_learns_nothing_does_not_stand_in_the_way_of_the_next(cli, tmp_path):
    (tmp_path / "game.py").write_text(FAILING.format(episodes=0))
    (tmp_path / "mine").mkdir()
    for out in ("new", "mine"):
        assert cli("train", "game.py:game", "--out", out).code == ExitCode.ERROR
    assert not (tmp_path / "new").exists()
    assert not any((tmp_path / "mine").iterdir())


def test_a_disk_that_fills_up_is_one_line(tmp_path):
    """Files of at most 16 blocks of 512 bytes: the curve fits, the weights do not."""
    command = f"ulimit -f 16; {sys.executable} -B -m rolecraft.cli train relay --steps 1"
    command += " --tasks-per-step 2 --out out"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("rolecraft: Cannot write to `out`: ")


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
