"""Which attempts count, and which are played again: the stated rule of `rl/playing.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from rolecraft.environments import Task
from rolecraft.environments.relay import RelayEnvironment
from rolecraft.errors import ModelError, StepLimitReached
from rolecraft.models.chance import UniformModel
from rolecraft.rewards import Signals, reward
from rolecraft.rollouts import Rollout
from rolecraft.scenarios import Episode, Scenario
from rolecraft.scenarios.relay import relay
from rolecraft.training import UpdateStats
from rolecraft.training.rl.metrics import step_record
from rolecraft.training.rl.playing import Player, attempts, settled

torch.set_num_threads(1)

TASKS = attempts(relay.tasks.sample(4), 4, seed=1, step=0)


def player(scenario: Scenario = relay, **how: Any) -> Player:
    return Player(scenario, model=UniformModel(), role_models={}, **how)


class Flaky(RelayEnvironment):
    """Its setup fails for every second seed, whatever the task."""

    async def setup(self) -> None:
        if self.task.seed % 2:
            raise OSError("no container")


async def test_what_the_surroundings_failed_is_played_again_with_another_seed() -> None:
    played = await player(replace(relay, environment=Flaky), refills=50).play(TASKS)
    assert len(played.rollouts) == len(TASKS)
    assert [rollout.item.id for rollout in played.rollouts] == [task.id for task in TASKS]
    assert all(rollout.item.seed % 2 == 0 for rollout in played.rollouts)
    assert len({rollout.item.seed for rollout in played.rollouts}) == len(TASKS)
    assert played.refilled == len(played.failed) >= sum(task.seed % 2 for task in TASKS)


async def test_refilling_is_bounded_and_what_still_fails_is_left_out() -> None:
    wrong = TASKS[0].id

    class Broken(RelayEnvironment):
        async def setup(self) -> None:
            if self.task.id == wrong:
                raise OSError("no container")

    played = await player(replace(relay, environment=Broken), refills=3).play(TASKS)
    assert [r.item.id for r in played.rollouts] == [t.id for t in TASKS if t.id != wrong]
    broken = sum(task.id == wrong for task in TASKS)
    assert (played.refilled, len(played.failed)) == (3 * broken, 4 * broken)


async def test_a_team_that_breaks_down_earns_nothing_and_is_not_played_again() -> None:
    """A policy failure stays in its group: leaving it out would teach teams to break down."""

    class Endless(RelayEnvironment):
        async def play(self) -> Any:
            await super().play()
            if self.task.seed % 2:
                raise ValueError("an action of the team's own has a bug")
            return "finished"

    played = await player(replace(relay, environment=Endless)).play(TASKS)
    assert (len(played.rollouts), played.refilled, played.failed) == (len(TASKS), 0, [])
    for rollout in played.rollouts:
        assert rollout.episode is not None
        if rollout.item.seed % 2:
            assert rollout.ended == "team"
            assert rollout.episode.reward.value == 0.0
            assert rollout.episode.reward.roles == {"planner": 0.0, "executor": 0.0}
            assert [*rollout.episode.trajectory.of("model_call")]


async def test_breaking_down_never_pays_where_rewards_are_below_zero() -> None:
    @reward
    def cost(signals: Signals) -> float:
        return -3.0 if signals["relay.correct"] else -5.0

    found = await player(replace(relay, reward=cost)).play(TASKS)
    whole = found.rollouts[0]
    assert whole.episode is not None
    broken: Rollout[Task, Episode] = replace(
        whole, episode=None, trajectory=whole.episode.trajectory, ended="team"
    )
    assert min(r.reward for r in found.rollouts if r.reward is not None) == -5.0
    (*_, last) = settled([*found.rollouts, broken])
    assert last.reward == -5.0


async def test_a_limit_is_graded_and_counts_as_unfinished() -> None:
    class Short(RelayEnvironment):
        async def play(self) -> Any:
            await super().play()
            if self.task.seed % 2:
                raise StepLimitReached("planner", "ChooseRegister", 3)
            return "finished"

    played = await player(replace(relay, environment=Short)).play(TASKS)
    record = step_record(0, 0, played, [], UpdateStats())
    odd = sum(task.seed % 2 for task in TASKS)
    assert record.ended == {"finished": len(TASKS) - odd, "turns": odd}
    assert record.unfinished == odd / len(TASKS)
    assert record.stuck == 0
    assert "relay.correct" in record.signals


async def test_a_model_that_does_not_answer_is_nobodys_failure() -> None:
    class Lost(UniformModel):
        calls = 0

        async def _complete(self, *args: Any) -> Any:
            self.calls += 1
            if self.calls % 5 == 0:
                raise ModelError("the connection was lost")
            return await super()._complete(*args)

    played = await Player(relay, model=Lost(), role_models={}, refills=20).play(TASKS)
    assert len(played.rollouts) == len(TASKS)
    assert {rollout.ended for rollout in played.failed} == {"model"}
    assert all(math.isfinite(r.reward or 0.0) for r in played.rollouts)
