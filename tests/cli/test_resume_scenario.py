"""`rolecraft run --resume` goes on with the run of a scenario, or says why it cannot."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.trajectories import Trajectory

GAME = """
import os
from dataclasses import replace
from pathlib import Path

from rolecraft import FunctionModel
from rolecraft.environments import Team
from rolecraft.environments.relay import relay_team
from rolecraft.scenarios.relay import relay


def answer(call):
    with open("asked", "a") as asked:
        asked.write(call.role + " ")
    if call.role == "executor" and not Path("up").exists():
        if Path("kill").exists():
            os._exit(9)
        raise ValueError("the server is down")
    return call.sampling.choices[0]


class Reworded:
    def sample(self, count, *, seed=0, split="train"):
        tasks = relay.tasks.sample(count, seed=seed, split=split)
        return [replace(each, prompt=each.prompt + "!") for each in tasks]


game = replace(relay, untrained=lambda seed: FunctionModel(answer))
other = replace(game, name="other")
reworded = replace(game, tasks=Reworded())


def team():
    return Team(relay_team(), model=FunctionModel(answer))
"""

JOURNAL = "runs/game-game.jsonl"


@pytest.fixture
def game(tmp_path):
    (tmp_path / "game.py").write_text(GAME)
    return tmp_path


def test_a_scenarios_run_that_failed_goes_on_with_the_task_that_was_drawn(cli, game):
    """Also when it fails twice more, and without a word about its seed."""
    failed = cli("run", "game.py:game", "--seed", 4)
    assert failed.code == ExitCode.ERROR
    assert f"to go on: --resume {JOURNAL}" in failed.err
    for _ in range(2):
        assert cli("run", "game.py:game", "--resume", JOURNAL).code == ExitCode.ERROR
    (game / "up").touch()
    went_on = cli("run", "game.py:game", "--resume", JOURNAL, "--json")
    assert went_on.code == ExitCode.OK, went_on.err
    (record,) = went_on.lines
    assert record["journal"] == JOURNAL
    assert record["reward"] == record["signals"]["relay.correct"]
    assert (game / "asked").read_text().split() == ["planner", *["executor"] * 4]
    whole = cli("run", "game.py:game", "--seed", 4, "--json").lines[0]
    assert (record["task"], record["signals"]) == (whole["task"], whole["signals"])
    over = cli("run", "game.py:game", "--resume", JOURNAL)
    assert over.code == ExitCode.OK
    assert "was over already (finished)" in over.err


def test_a_scenarios_run_that_was_killed_goes_on(cli, process, game):
    (game / "kill").touch()
    assert process("run", "game.py:game", "--task", "asked c").code == 9
    (game / "up").touch()
    went_on = cli("run", "game.py:game", "--resume", JOURNAL, "--json")
    assert went_on.code == ExitCode.OK, went_on.err
    assert (game / "asked").read_text().split() == ["planner", "executor", "executor"]
    assert "-c" in went_on.lines[0]["task"]


def test_a_scenarios_run_that_reached_a_limit_goes_on_with_a_higher_one(cli, game):
    (game / "up").touch()
    stopped = cli("run", "game.py:game", "--calls", 1)
    assert stopped.code == ExitCode.INCOMPLETE
    way_on = f"rolecraft run game.py:game --resume {JOURNAL} --calls N, in all"
    assert f"Go on with more model calls: {way_on}" in stopped.out
    went_on = cli("run", "game.py:game", "--resume", JOURNAL, "--calls", 2, "--json")
    assert (went_on.code, went_on.lines[0]["stop"]) == (ExitCode.OK, "finished")
    assert (game / "asked").read_text().split() == ["planner", "executor"]


def test_the_run_of_a_rollout_goes_on_when_the_seed_is_said_that_drew_it(cli, game):
    """Its attempts have seeds of their own, which are kept."""
    rolled = ("rollout", "game.py:game", "--tasks", 1, "--seed", 7, "--out", "rolled")
    assert "the server is down" in cli(*rolled).err
    journal = next(path for path in (game / "rolled").rglob("*.jsonl") if _is_run(path))
    seed = Trajectory.load(journal).about["seed"]
    unknown = cli("run", "game.py:game", "--resume", journal)
    assert unknown.code == ExitCode.USAGE
    assert "not among those that scenario `relay` draws with seed 0" in unknown.err
    assert "say which: `--seed N`" in unknown.err
    (game / "up").touch()
    went_on = cli("run", "game.py:game", "--resume", journal, "--seed", 7, "--json")
    assert went_on.code == ExitCode.OK, went_on.err
    assert Trajectory.load(journal).about["seed"] == seed


def _is_run(path):
    with path.open() as file:
        return "schema_version" in json.loads(file.readline() or "{}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["game", "--seed", "3"], "leave `--seed` out"),
        (["game", "--task", "asked a"], "leave `--task` out"),
        (["game", "--approve", "key"], "leave it out"),
        (["other"], "is of scenario `relay`, not `other`"),
        (["reworded"], "has another prompt than when `runs/game-game.jsonl` was written"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused_with_the_way_out(cli, game, arguments, says):
    cli("run", "game.py:game")
    before = (game / JOURNAL).read_bytes()
    name, *rest = arguments
    refused = cli("run", f"game.py:{name}", "--resume", JOURNAL, *rest)
    assert refused.code == ExitCode.USAGE, refused.err
    assert says in refused.err
    assert (game / JOURNAL).read_bytes() == before


def test_the_run_of_a_team_is_not_taken_for_one_of_a_scenario(cli, game):
    cli("run", "game.py:team", "--task", "asked a")
    refused = cli("run", "game.py:game", "--resume", "runs/game-team.jsonl")
    assert refused.code == ExitCode.USAGE
    assert "is of no task of a scenario. Name the team or role" in refused.err


def test_a_run_that_played_all_its_rounds_was_graded_and_takes_no_more(cli, game):
    assert cli("run", "game.py:game", "--rounds", 1).code == ExitCode.INCOMPLETE
    refused = cli("run", "game.py:game", "--resume", JOURNAL)
    assert refused.code == ExitCode.USAGE
    assert "had played all its rounds and was graded: it is over" in refused.err
