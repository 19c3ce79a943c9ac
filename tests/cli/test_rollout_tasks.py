"""Which tasks `rolecraft rollout` plays, and what it tells of those that cannot be graded."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli._scenarios import different_tasks
from rolecraft.cli.main import app
from rolecraft.environments import Task
from rolecraft.errors import UsageError
from rolecraft.scenarios.relay import relay
from rolecraft.trajectories import load

SCENARIO = """
from dataclasses import replace
from rolecraft import Action, FunctionModel, Role, Task, TaskEnvironment
from rolecraft.errors import UsageError
from rolecraft.rewards import reward
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal

class Shout(Action):
    async def run(self, history):
        if history[-1].content == "q4":
            return broken()
        return await self.ask(history[-1].content)

def broken():
    return 1 / 0

class Ann(Role):
    actions = [Shout]

class Place(TaskEnvironment):
    async def grade(self):
        name = "good" if self.task.id == "q1" else "other"
        return [Signal(name, 1.0)]

class Few:
    def __init__(self, **splits):
        self.splits = splits

    def sample(self, count, *, seed=0, split="train"):
        names = self.splits.get(split)
        if not names:
            raise UsageError(f"none in {split!r}")
        return [Task(names[n % len(names)], names[n % len(names)]) for n in range(count)]

@reward
def good(signals):
    return signals["good"]

def team():
    return [Ann(model=FunctionModel(lambda call: "fine"))]

few = Scenario(name="few", team=team, environment=Place, reward=good,
               tasks=Few(train=["q1", "q2", "q3"], test=["q4", "q5"]))
easy = replace(few, name="easy", reward=reward(lambda signals: 1.0))
fresh = replace(easy, name="fresh", team=lambda: [Ann()],
                untrained=lambda seed: FunctionModel(lambda call: f"untrained with seed {seed}"))
held_out = replace(easy, name="held_out", tasks=Few(test=["q1"]))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "few.py"
    path.write_text(textwrap.dedent(SCENARIO))
    return path


def rolecraft(*words: object) -> Any:
    return CliRunner().invoke(app, ["rollout", *map(str, words)])


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "results.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def test_more_tasks_than_there_are_plays_each_once_and_says_so(file: Path, tmp_path: Path) -> None:
    done = rolecraft(f"{file}:easy", "--tasks", 20, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert sorted(rows(tmp_path / "out")) == ["q1-r1", "q2-r1", "q3-r1"]
    (told,) = (line for line in done.output.splitlines() if "has 3 tasks" in line)
    assert "for `train`" in told
    assert "for `test`; `--split all` plays both" in told


def test_all_plays_both_splits(file: Path, tmp_path: Path) -> None:
    words = [f"{file}:easy", "--tasks", 20, "--split", "all", "--out", tmp_path / "out"]
    done = rolecraft(*words)
    assert done.exit_code == 0, done.output
    assert sorted(rows(tmp_path / "out")) == [f"q{n}-r1" for n in range(1, 6)]
    assert "has 5 tasks for `train` and `test` together" in done.output


def test_a_scenario_with_held_out_tasks_only_says_which_split(file: Path, tmp_path: Path) -> None:
    done = rolecraft(f"{file}:held_out", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "write `--split test`" in done.output
    assert rolecraft(f"{file}:held_out", "--split", "test", "--out", tmp_path / "b").exit_code == 0
    assert rolecraft(f"{file}:held_out", "--split", "all", "--out", tmp_path / "c").exit_code == 0


def test_a_missing_reward_costs_its_own_task_and_no_other(file: Path, tmp_path: Path) -> None:
    """A `MissingSignal` is a wrong usage as well; it was taken for one that is every task's."""
    out = tmp_path / "out"
    for more in ((), ("--resume",)):
        done = rolecraft(f"{file}:few", "--tasks", 3, "--live", 1, "--out", out, *more)
        assert done.exit_code == 3, done.output
        told = rows(out)
        assert {name: row["ended"] for name, row in told.items()} == {
            "q1-r1": "finished",
            "q2-r1": "grading",
            "q3-r1": "grading",
        }
        assert (told["q1-r1"]["reward"], told["q2-r1"]["reward"]) == (1.0, None)
        assert "2 ended in `grading`: MissingSignal" in done.output
        line = SCENARIO.splitlines().index('    return signals["good"]') + 1
        assert told["q2-r1"]["where"].endswith(f"few.py:{line} in good")


def test_an_error_in_own_code_comes_with_its_place(file: Path, tmp_path: Path) -> None:
    out, words = tmp_path / "out", [f"{file}:easy", "--split", "test"]
    done = rolecraft(*words, "--out", out)
    line = SCENARIO.splitlines().index("    return 1 / 0") + 1
    assert rows(out)["q4-r1"]["where"].endswith(f"few.py:{line} in broken")
    assert rows(out)["q5-r1"]["where"] == ""
    assert f"few.py:{line} in broken" in done.output
    assert "Traceback" not in done.output
    debugged = rolecraft(*words, "--out", tmp_path / "again", "--debug")
    assert "Traceback" in debugged.output


def test_without_a_model_a_scenario_with_an_untrained_one_has_that(
    file: Path, tmp_path: Path
) -> None:
    done = rolecraft(f"{file}:fresh", "--tasks", 2, "--seed", 7, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "the roles have the scenario's untrained model" in done.output
    record = load(tmp_path / "out" / "runs" / "q1" / "r1.jsonl")
    assert "untrained with seed 7" in [event.content for event in record.of("model_call")]


class Wheel:
    """Repeats itself; counts how many tasks it was asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.asked = size, list[int]()

    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        self.asked.append(count)
        if split == "test":
            raise UsageError("none")
        return [Task(f"t{at % self.size}", "", {"at": at}) for at in range(count)]


@pytest.mark.parametrize("wanted", [5, 99_999])
def test_a_few_tasks_are_found_without_drawing_each_many_times(wanted: int) -> None:
    from dataclasses import replace

    wheel = Wheel(4)
    found = different_tasks(replace(relay, tasks=wheel), wanted, 0, ("train",))
    assert [(task.id, task.data["at"]) for task in found] == [(f"t{at}", at) for at in range(4)]
    assert sum(wheel.asked) <= 5_000


def test_a_source_that_happens_to_repeat_some_is_drawn_from_again() -> None:
    """Some of relay's worlds come twice, and it has no end."""
    found = different_tasks(relay, 3000, 0, ("train",))
    assert len({task.id for task in found}) == 3000
    again = different_tasks(relay, 20, 0, ("train",))
    assert [task.id for task in again] == [task.id for task in relay.tasks.sample(20)]
