"""Held-out tasks: of the test split, in no training, and whatever is else is refused or said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sums import TEAM, Sums, knows, sum_of

from rolecraft.environments import Task
from rolecraft.environments.task import Split
from rolecraft.errors import TraceError, UsageError
from rolecraft.experiments import NotHeldOut, evaluate, seen_in
from rolecraft.experiments.held_out import draw
from rolecraft.scenarios.relay import relay


class Same:
    """The same tasks whatever the split."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        return [sum_of(n) for n in range(min(count, 5))]


class Leaky:
    """Some tasks of the test split are to train on too, under other names."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        first = 0 if split == "test" else 3
        return [sum_of(first + n, split) for n in range(count)]


class OnlyTests:
    """There is nothing to train on."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        if split == "train":
            raise UsageError("all are for tests")
        return [sum_of(n) for n in range(count)]


class Twice:
    """Draws the first task again and again."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        return [sum_of(n // 2, split) for n in range(count)] if split == "test" else []


def of(tasks: Any) -> Any:
    return replace(TEAM, tasks=tasks)


def test_tasks_are_those_of_the_test_split_and_compared_with_the_train_split() -> None:
    found = draw(TEAM, 4)
    assert [task.id for task in found.tasks] == [f"sum-test-{n}" for n in range(4)]
    assert found.clean
    assert found.compared == 256
    assert not found.warnings("sums")
    assert draw(of(OnlyTests()), 3).compared == 0


def test_a_scenario_without_a_test_split_of_its_own_is_refused_or_flagged() -> None:
    with pytest.raises(NotHeldOut, match="no test split of its own") as raised:
        draw(of(Same()), 5)
    assert len(raised.value.tasks) == 5
    flagged = draw(of(Same()), 5, on_seen="flag")
    assert not flagged.clean
    assert "5 of 5 tasks are in the train split too" in flagged.warnings("sums")[0]


def test_tasks_that_are_to_train_on_too_are_refused_flagged_or_dropped() -> None:
    with pytest.raises(NotHeldOut, match=r"2 of 5 tasks .* 'sum-test-3' is in the train split"):
        draw(of(Leaky()), 5)
    assert draw(of(Leaky()), 5, on_seen="flag").in_train == ["sum-test-3", "sum-test-4"]
    kept = draw(of(Leaky()), 5, on_seen="drop")
    assert [len(kept.tasks), kept.dropped, kept.clean] == [3, 2, True]


class Relabelled:
    """The first test task is to train on too: spaced otherwise, with another note beside it."""

    def __init__(self, prompt: str, data: dict[str, Any]) -> None:
        self.train = [Task("train-1", prompt, data), Task("train-2", "What is 5 and 5?")]

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        if split == "train":
            return self.train[:count]
        return [Task(f"test-{n}", f"What is {n} and {n}?", {"right": 2 * n}) for n in (1, 2)]


@pytest.mark.parametrize(
    ("prompt", "data"),
    [
        ("What is 1  and 1?", {"right": 2}),
        ("What is 1 and 1?", {"right": 2, "row": 17}),
        ("What is 1\nand 1?", {}),
    ],
)
def test_white_space_and_notes_hide_no_task_that_is_to_train_on_too(
    prompt: str, data: dict[str, Any]
) -> None:
    found = draw(of(Relabelled(prompt, data)), 2, on_seen="flag")
    assert found.in_train == ["test-1"]


def test_a_prompt_that_all_tasks_share_makes_none_of_them_seen() -> None:
    found = draw(relay, 30)
    assert found.clean
    assert found.prompts < 30


def test_the_train_split_can_be_asked_for_and_is_never_called_held_out() -> None:
    found = draw(TEAM, 2, split="train")
    assert not found.clean
    assert "NOT held out" in found.warnings("sums")[0]
    assert found.to_dict()["held_out"] is False


def test_a_task_that_is_drawn_twice_is_played_once_and_that_is_said() -> None:
    found = draw(of(Twice()), 6)
    assert len(found.tasks) == 3
    assert "6 tasks were asked for, and 3 different ones were drawn" in found.warnings("sums")[0]


def test_fewer_tasks_than_asked_for_are_said_and_none_are_refused() -> None:
    assert "5 different ones" in draw(of(Sums(5)), 9).warnings("sums")[0]
    with pytest.raises(UsageError, match="`sums` has no tasks in the split 'test'"):
        draw(of(Sums(0)), 9)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "What is 1  and 1?"},
        {"question": "What is 1 and 1?", "answer": "2"},
        {"task": {"id": "x", "prompt": "What is 1 and 1?"}},
        {
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "What is 1 and 1?"},
            ]
        },
        {"conversations": [{"from": "human", "value": "What is\n1 and 1?"}]},
    ],
)
def test_tasks_in_a_data_set_of_the_training_are_found(tmp_path: Path, row: Any) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row) + '\n{"torn')
    with pytest.raises(NotHeldOut, match=r"1 of 3 tasks .* 'sum-test-1' is in .*train.jsonl"):
        draw(TEAM, 3, seen=seen_in([path]))
    flagged = draw(TEAM, 3, seen=seen_in([path]), on_seen="flag")
    assert flagged.seen == ["sum-test-1"]


async def test_tasks_in_journals_of_the_training_are_found_in_the_folder(tmp_path: Path) -> None:
    await evaluate(TEAM, models=knows(), tasks=2, folder=tmp_path / "trained")
    seen = seen_in([tmp_path / "trained" / "runs"])
    with pytest.raises(NotHeldOut, match="2 of 3 tasks"):
        await evaluate(TEAM, models=knows(), tasks=3, folder=tmp_path / "new", seen=seen)
    found = await evaluate(
        TEAM, models=knows(), tasks=3, folder=tmp_path / "new", seen=seen, on_seen="flag"
    )
    assert "2 of 3 tasks are in the records of the training" in found.warnings[0]
    assert found.warnings[0] in found.to_markdown()
    with pytest.raises(NotHeldOut, match="none is left"):
        draw(TEAM, 2, seen=seen, on_seen="drop")


def test_where_prompts_do_not_tell_tasks_apart_ids_do(tmp_path: Path) -> None:
    """Every prompt of `relay` is one of four; what differs is what nobody sees."""
    tasks = relay.tasks.sample(30, split="test")
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"task": {"id": tasks[4].id, "prompt": tasks[4].prompt}}))
    assert draw(relay, 30, seen=seen_in([path]), on_seen="flag").seen == [tasks[4].id]


def test_records_that_name_no_task_are_an_error_and_no_clean_bill(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    path.write_text('{"step": 0, "reward": 1.0}\n')
    with pytest.raises(UsageError, match="names no task"):
        seen_in([path])
    with pytest.raises(TraceError):
        seen_in([tmp_path / "nowhere"])
