"""Counterfactual credit: the team's reward, less what it is with somebody else in the role."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from rolecraft.actions import Action
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.tiny import tiny_model
from rolecraft.rewards import Signals, reward
from rolecraft.roles import History, Role
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios import Scenario
from rolecraft.training import Algorithm
from rolecraft.training.credit import assign, credit, difference_rewards, play_without
from rolecraft.trajectories.events import Signal

torch.set_num_threads(1)

PLAIN = Algorithm(advantage="dr_grpo")
PAYOFF = {("0", "0"): 1.0, ("0", "1"): 0.0, ("1", "0"): 0.25, ("1", "1"): 3.0}
"""Of the row player's choice and the column player's; no two cells are alike."""


class Choose(Action):
    """Choose a row or a column."""

    async def run(self, history: History) -> str:
        return str(await self.ask("choose", returns=Literal["0", "1"]))


class Row(Role):
    name = "row"
    system = "row"
    actions = (Choose,)


class Column(Role):
    name = "column"
    system = "column"
    actions = (Choose,)


class MatrixGame(TaskEnvironment):
    """Both choose at once and see nothing of each other."""

    async def grade(self) -> list[Signal]:
        row, column = (self.roles[name].rc.memory.get()[-1].content for name in ("row", "column"))
        return [Signal("payoff", PAYOFF[row, column])]


class Games:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [Task("game", "choose", seed=1000 * seed + number) for number in range(count)]


@reward
def payoff(signals: Signals) -> float:
    """What the matrix says."""
    return signals["payoff"]


game = Scenario(
    name="matrix",
    team=lambda: [Row(), Column()],
    environment=MatrixGame,
    tasks=Games(),
    reward=payoff,
    untrained=lambda seed: tiny_model(["row", "column", "choose", "0", "1"], seed=seed),
)


class Always(Model):
    """Plays the default action of the difference reward."""

    name = "always"
    real = False

    def __init__(self, text: str) -> None:
        self.text = text

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        return Completion(text=self.text)


def chosen(episode: Any) -> tuple[str, str]:
    said = {e.role: e.content for e in episode.trajectory.events if e.kind == "model_call"}
    return said["row"], said["column"]


@pytest.mark.parametrize("default", ["0", "1"])
async def test_in_a_matrix_game_credit_is_exactly_the_difference_reward(default: str) -> None:
    """D_row = G(row, column) - G(default, column), and the other way round; all cells occur."""
    model = game.untrained(3)  # type: ignore[misc]
    found = episodes(await collect(game, game.tasks.sample(24), model=model))
    assert {chosen(episode) for episode in found} == set(PAYOFF)
    # The other role is the same model with the same seed, and so chooses as it did.
    without = await play_without(game, found, model=model, replacement=Always(default))
    scored = assign(found, PLAIN, credit=credit("counterfactual"), without=without)
    by_name = {(s.name.split(":")[0], s.role): s for s in scored.sequences}
    for number, episode in enumerate(found):
        row, column = chosen(episode)
        value = PAYOFF[row, column]
        exact = {
            "row": value - PAYOFF[default, column],
            "column": value - PAYOFF[row, default],
        }
        assert difference_rewards(value, without[number]) == exact
        for role, difference in exact.items():
            sequence = by_name[f"game#{number}", role]
            pairs = zip(sequence.advantages, sequence.action_mask, strict=True)
            assert {advantage for advantage, action in pairs if action} == {difference}


async def test_a_role_that_guesses_in_its_place_is_an_average_over_its_choices() -> None:
    """Uniform replacement: E over the default of the closed form, here of 64 draws a seed."""
    model = game.untrained(3)  # type: ignore[misc]
    found = episodes(await collect(game, game.tasks.sample(1), model=model))
    (without,) = await play_without(game, found, model=model, roles=["row"], attempts=64)
    assert list(without) == ["row"]
    # Attempts after the first have seeds of their own, with which the column player draws anew.
    mean = sum(PAYOFF.values()) / 4
    std = math.sqrt(sum((value - mean) ** 2 for value in PAYOFF.values()) / 4)
    assert abs(without["row"] - mean) < 4 * std / 8
    assert await play_without(game, found, model=model, roles=["row"], attempts=64) == [without]


async def test_a_role_that_another_model_plays_keeps_it_when_others_are_replaced() -> None:
    """A frozen role, say: here the column player always chooses 1."""
    model = game.untrained(3)  # type: ignore[misc]
    models = {"column": Always("1")}
    found = episodes(await collect(game, game.tasks.sample(4), model=model, role_models=models))
    without = await play_without(
        game, found, model=model, role_models=models, roles=["row"], replacement=Always("0")
    )
    assert without == [{"row": PAYOFF["0", "1"]}] * 4


def test_an_action_that_makes_no_difference_has_no_credit(by_hand: Any) -> None:
    """A team that succeeds whatever b does: the group says that b was good, this that it is not."""
    found = [by_hand("ab", 1.0), by_hand("ab", 0.0)]
    without = [{"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.0}]
    scored = assign(found, PLAIN, credit=credit("counterfactual"), without=without)
    assert [max(s.advantages) for s in scored.sequences] == [1.0, 0.0, 0.0, 0.0]


def test_a_role_of_whom_nothing_is_known_is_left_out_by_name(by_hand: Any) -> None:
    how = credit("counterfactual")
    scored = assign([by_hand("ab", 1.0)], PLAIN, credit=how, without=[{"a": 0.5}])
    assert scored.unscored == ["task#0:b"]
    assert [sequence.role for sequence in scored.sequences] == ["a"]


def test_without_the_counterfactual_rewards_there_is_no_such_credit(by_hand: Any) -> None:
    with pytest.raises(UsageError, match="play_without"):
        assign([by_hand("ab", 1.0)], PLAIN, credit=credit("counterfactual"))
    with pytest.raises(UsageError, match="got 0 for 1"):
        assign([by_hand("ab", 1.0)], PLAIN, credit=credit("counterfactual"), without=[])


async def test_runs_that_fail_or_have_no_number_say_nothing() -> None:
    class Broken(MatrixGame):
        async def setup(self) -> None:
            if self.task.seed == 1:
                raise OSError("no disk")

    @reward
    def odd(signals: Signals) -> float:
        """No number where both choose 0."""
        return math.nan if signals["payoff"] == 1.0 else 1.0

    broken = replace(game, environment=Broken, reward=odd)
    model = game.untrained(3)  # type: ignore[misc]
    found = episodes(await collect(game, game.tasks.sample(12), model=model))
    without = await play_without(broken, found, model=model, replacement=Always("0"))
    for number, (episode, values) in enumerate(zip(found, without, strict=True)):
        row, column = chosen(episode)
        expected = {"row": column, "column": row}
        known = {role for role, other in expected.items() if other == "1" and number != 1}
        assert set(values) == known
    assert any(without)


async def test_a_role_that_there_is_not_is_refused_before_anything_is_played() -> None:
    with pytest.raises(UnknownName, match="columm"):
        await play_without(game, [], roles=["columm"])
    with pytest.raises(UsageError, match="attempts"):
        await play_without(game, [], attempts=0)
