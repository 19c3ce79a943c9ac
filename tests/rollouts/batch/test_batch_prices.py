"""A limit in money that cannot be kept is told before anything is run, whoever plays the rows."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft import Action, Role, Scenario, TaskEnvironment, Team
from rolecraft.environments import Task
from rolecraft.errors import UsageError
from rolecraft.models import Completion, Model, allow_real_models
from rolecraft.rewards import Signals, reward
from rolecraft.trajectories.events import Signal


class Unpriced(Model):
    """A real model whose price nobody knows."""

    name = "nobody/knows"
    real = True

    async def _complete(self, *_: Any) -> Completion:
        return Completion(text="yes", reasoning="why")


class Speak(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)


class Nothing:
    def sample(self, count: int, **_: Any) -> list[Task]:
        return []


class Ungraded(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        return []


@reward
def one(signals: Signals) -> float:
    """Always 1."""
    return 1.0


def speakers() -> list[Role]:
    return [Role(name="R", actions=[Speak])]


def scenario() -> Scenario:
    return Scenario(
        name="speaking",
        team=speakers,
        environment=Ungraded,
        tasks=Nothing(),
        reward=one,
    )


@pytest.mark.parametrize("make", [lambda: Team(speakers()), scenario], ids=["team", "scenario"])
async def test_a_limit_in_dollars_without_a_price_costs_no_item(bench: Any, make: Any) -> None:
    bench.write(["a", "b"])
    with allow_real_models():
        with pytest.raises(UsageError, match=r"no price is known for the model 'nobody/knows'"):
            await bench.run(make(), model=Unpriced(), usd=1.0)
        assert bench.entries == []
        report = await bench.run(make(), model=Unpriced(), tokens=10_000_000)
    assert (report.ran, report.left) == (2, 0)
    assert {entry.status for entry in bench.entries} == {"ok"}
