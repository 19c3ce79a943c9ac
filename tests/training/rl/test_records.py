"""What a step's record says, how it is written, and who gets a copy."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.relay import RelayEnvironment
from rolecraft.errors import UnknownName, UsageError
from rolecraft.models import FunctionModel
from rolecraft.rewards import RewardBreakdown
from rolecraft.rollouts import Rollout
from rolecraft.scenarios import Episode
from rolecraft.scenarios.relay import relay
from rolecraft.training import StepRecord, UpdateStats
from rolecraft.training.rl.metrics import step_record, stuck_role
from rolecraft.training.rl.playing import Player
from rolecraft.training.rl.records import Cost, RoleRecord, cost_per_point, curve_line
from rolecraft.training.rl.trackers import tracker
from rolecraft.trajectories import Event, Trajectory


def record(step: int = 0, **more: Any) -> StepRecord:
    return StepRecord(step=step, **{"reward": 0.5, **more})


def test_a_record_is_one_strict_json_line_and_comes_back() -> None:
    full = record(
        reward=math.nan,
        by_role={"planner": RoleRecord(reward=0.25, actions=3)},
        ended={"finished": 3},
        skipped=("a", "b"),
        cost=Cost(sampler=1.0, usd=0.5),
    )
    line = json.loads(curve_line(full), parse_constant=pytest.fail)
    assert line["reward"] is None
    back = StepRecord.of_record(line)
    assert math.isnan(back.reward)
    assert replace(back, reward=0.0) == replace(full, reward=0.0)


def test_records_of_an_older_rolecraft_are_read() -> None:
    old = {"step": 3, "reward": 0.5, "roles": {"a": 1.0}, "something": "else"}
    assert StepRecord.of_record(old) == record(3, roles={"a": 1.0})


def test_scalars_are_finite_numbers_with_names_of_their_own() -> None:
    found = record(
        by_role={"planner": RoleRecord(entropy=0.5)},
        signals={"relay.correct": 1.0},
        ended={"stuck": 2},
        cost=Cost(trainer=2.0),
        entropy=math.inf,
    ).scalars()
    assert found["reward"] == 0.5
    assert found["planner/entropy"] == 0.5
    assert "planner/kl" not in found
    assert "entropy" not in found
    assert found["signal/relay.correct"] == 1.0
    assert found["ended/stuck"] == 2.0
    assert found["cost/trainer"] == 2.0


def test_cost_per_point_is_of_what_was_gained() -> None:
    """From 0.2 to 0.7 are 50 hundredths: four steps of 5 s and 0.25 dollars each."""
    cost = Cost(sampler=4.0, trainer=1.0, usd=0.25)
    curve = [record(n, reward=r, cost=cost) for n, r in enumerate((0.2, 0.5, 0.6, 0.8))]
    found = cost_per_point(curve, window=2)
    assert found is not None
    assert found.seconds == pytest.approx(20 / 50)
    assert found.usd == pytest.approx(1.0 / 50)
    assert cost_per_point(curve[:1]) is None
    assert cost_per_point([record(0, reward=0.5), record(1, reward=0.1)]) is None
    assert cost_per_point([]) is None


async def played_by(answers: Any, environment: Any = RelayEnvironment) -> StepRecord:
    scenario = replace(relay, environment=environment)
    player = Player(scenario, model=FunctionModel(answers), role_models={})
    found = await player.play(relay.tasks.sample(4))
    return step_record(0, 0, found, [], UpdateStats(), trainer_seconds=2.0)


async def test_a_step_says_how_episodes_ended_and_what_they_took() -> None:
    found = await played_by(lambda call: "a" if call.role == "planner" else "0")
    assert found.ended == {"finished": 4}
    assert (found.stuck, found.unfinished, found.truncated) == (0.0, 0.0, 0.0)
    assert found.cost.trainer == 2.0
    assert found.cost.sampler > 0
    assert found.cost.environment > 0
    assert found.cost.seconds == found.cost.sampler + found.cost.trainer


def test_the_role_that_went_round_in_circles_is_named() -> None:
    call = {"tool_calls": [{"name": "read", "arguments": {"name": "a"}}]}
    events = [Event("model_call", role="planner", data=dict(call)) for _ in range(3)]
    trajectory = Trajectory("circle", events=events)
    task = relay.tasks.sample(1)[0]
    episode = Episode(task, trajectory, RewardBreakdown(0.0))
    stuck: Any = Rollout(index=0, item=task, ended="stuck", episode=episode)
    assert stuck_role(stuck) == "planner"
    assert stuck_role(replace(stuck, ended="finished")) == ""


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    events = import_module("tensorboard.backend.event_processing.event_accumulator")
    board = tracker("tensorboard", tmp_path)
    for step in range(3):
        board.step(record(step, reward=step / 2))
    board.close()
    found = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in found.Scalars("reward")] == [0.0, 0.5, 1.0]


def test_a_tracker_that_fails_costs_no_training_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small library with the three functions that wandb and trackio have."""
    (tmp_path / "trackio.py").write_text(
        "logged = []\n"
        "def init(project, name): logged.append((project, name))\n"
        "def log(values, step):\n"
        "    if step: raise ConnectionError('the server is gone')\n"
        "    logged.append(values['reward'])\n"
        "def finish(): logged.append('end')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    warned: list[str] = []
    hosted = tracker("trackio", tmp_path / "run", warn=warned.append)
    for step in range(3):
        hosted.step(record(step))
    hosted.close()
    assert import_module("trackio").logged == [("rolecraft", "run"), 0.5]
    assert len(warned) == 1
    assert "the server is gone" in warned[0]


def test_trackers_that_there_are_not_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="mlflow"):
        tracker("mlflow", tmp_path)
    with pytest.raises(UsageError, match="pip install wandb"):
        tracker("wandb", tmp_path)
