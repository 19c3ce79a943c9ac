"""R18: rows that a scenario plays and scores."""

from __future__ import annotations

from typing import Any

from rolecraft import Action, Role, Scenario, Task, TaskEnvironment
from rolecraft.rewards import reward
from rolecraft.trajectories import Signal


class Graded(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        return [Signal("number", float(self.task.prompt[1:]))]


@reward
def worth(signals: Any) -> float:
    if signals["number"] == 1:
        raise ValueError("the scorer is down")
    return float("nan") if signals["number"] == 2 else 0.5


class Nothing:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return []


async def test_r18_a_reward_that_fails_is_none_with_its_error_and_never_zero(bench: Any) -> None:
    scenario = Scenario(
        name="graded",
        team=lambda: [Role(name="R", actions=[Speak])],
        environment=Graded,
        tasks=Nothing(),
        reward=worth,
    )
    bench.write(["p0", "p1", "p2"])
    report = await bench.run(scenario)
    last = {entry.number: entry for entry in bench.entries}
    assert [last[n].reward for n in range(3)] == [0.5, None, None]
    assert "the scorer is down" in last[1].error
    assert "the reward is nan" in last[2].error
    numbers = report.statistics
    assert (numbers.rewards, numbers.unscored, numbers.mean_reward) == (1, 2, 0.5)
    rows = bench.lines("openai.jsonl")
    assert [row["reward"] for row in rows] == [0.5, None, None]
    assert rows[0]["signals"][0] == {"name": "number", "value": 0.0}


class Speak(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)
