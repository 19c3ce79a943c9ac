"""`rolecraft train` leaves a record of its tasks, by which `evaluate --trained-on` knows them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from rolecraft.cli._exits import ExitCode

GAME = """
from dataclasses import replace
from rolecraft.scenarios.relay import relay

FEW = relay.tasks.sample(40, seed=1)


class Few:
    '''The same forty for both splits; all prompts are of several of them.'''

    def sample(self, count, *, seed=0, split="train"):
        return [FEW[(seed + n) % len(FEW)] for n in range(min(count, len(FEW)))]


game = replace(relay, tasks=Few())
"""


@pytest.fixture
def trained(cli, tmp_path):
    """What two steps of training leave."""
    (tmp_path / "game.py").write_text(GAME)
    done = cli("train", "game.py:game", "--steps", 2, "--tasks-per-step", 4, "--out", "trained")
    assert done.code == ExitCode.OK, done.err
    return tmp_path / "trained"


def test_tasks_that_train_has_trained_on_are_known_to_evaluate_by_the_folder(cli, trained):
    lines = (trained / "tasks.jsonl").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert 4 <= len(set(ids)) == len(ids) <= 8
    evaluate = ["evaluate", "game.py:game", "--model", "transformers:trained", "--tasks", 40]
    evaluate += ["--split", "train", "--trained-on", "trained"]
    refused = cli(*evaluate)
    assert refused.code == ExitCode.USAGE
    assert f"{len(ids)} of 40 tasks of scenario `relay` were in training" in refused.err
    assert "is in trained/tasks.jsonl" in refused.err
    flagged = cli(*evaluate, "--seen", "flag", "--json")
    assert flagged.code == ExitCode.OK, flagged.err
    assert set(flagged.lines[0]["held_out"]["relay"]["also_in_records"]) == set(ids)


@pytest.mark.slow
def test_a_training_that_was_killed_has_recorded_what_it_trained_on(cli, trained, tmp_path):
    """The tasks of a step are written before it is played; the kill may tear only the last line."""
    command = [sys.executable, "-m", "rolecraft.cli", "train", "game.py:game", "--json"]
    command += ["--steps", "100000", "--tasks-per-step", "4", "--out", "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        steps = [running.stdout.readline() for _ in range(2)]
        running.send_signal(signal.SIGKILL)
    assert [json.loads(line)["step"] for line in steps] == [0, 1]
    both = [(tmp_path / each / "tasks.jsonl").read_text() for each in ("trained", "killed")]
    assert both[1].startswith(both[0])
    shown = cli(
        *("evaluate", "game.py:game", "--tasks", 40, "--split", "train", "--trained-on", "killed")
    )
    assert "is in killed/tasks.jsonl" in shown.err
