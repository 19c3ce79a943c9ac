"""Rows that were gathered are a source of tasks: their column says the split, their place how
tests run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering import (
    BadInstance,
    Instance,
    Place,
    SoftwareTasks,
    load_tasks,
)
from rolecraft.errors import UsageError

ROW = {
    "repo": "clock",
    "base_commit": "0" * 40,
    "patch": "--- a/clock.py\n+++ b/clock.py\n@@ -1 +1 @@\n-a\n+b\n",
    "test_patch": "--- a/tests/test_clock.py\n+++ b/tests/test_clock.py\n@@ -1 +1 @@\n",
    "problem_statement": "Noon is 0.",
    "FAIL_TO_PASS": '["tests/test_clock.py::test_noon"]',
    "PASS_TO_PASS": "[]",
    "environment_setup_commit": "0" * 40,
}
CMAKE = Place(
    source="repository",
    runner="ctest",
    test_command=("sh", "run-tests.sh"),
    report="Test.xml",
)


@pytest.fixture
def rows(tmp_path: Path):
    def write(splits: Sequence[str | None]) -> Path:
        path = tmp_path / "tasks.jsonl"
        with path.open("w") as file:
            for number, split in enumerate(splits):
                row = ROW | {"instance_id": f"clock__{number}"}
                file.write(json.dumps(row if split is None else row | {"split": split}) + "\n")
        return path

    return write


def test_the_column_split_says_which_tasks_are_held_out(rows) -> None:
    tasks = load_tasks(rows(["test", "train", "train", "test"]), places={"clock": CMAKE})
    held_out = {task.id for task in tasks.sample(10, split="test")}
    assert held_out == {"clock__0", "clock__3"}
    assert {task.id for task in tasks.sample(10)} == {"clock__1", "clock__2"}


@pytest.mark.parametrize(
    ("there", "split", "way_out"),
    [
        (
            "train",
            "test",
            r"rolecraft evaluate --split train.*synth gather OUT --split-by function",
        ),
        ("test", "train", r"synth gather OUT --held-out 0\.2"),
    ],
)
def test_a_split_that_no_row_is_in_is_told_with_the_way_out(rows, there, split, way_out) -> None:
    tasks = load_tasks(rows([there] * 3), places={"clock": CMAKE})
    with pytest.raises(UsageError, match=f"None of the 3 instances is in the split '{split}'.*"
                       f"{way_out}"):  # fmt: skip
        tasks.sample(1, split=split)


def test_two_sources_are_one_and_every_task_keeps_its_split(rows) -> None:
    ours = load_tasks(rows(["train", "test"]), places={"clock": CMAKE})
    named = {f"sundial__{number}": each for number, each in enumerate(ours.instances.values())}
    theirs = SoftwareTasks([replace(each, id=name) for name, each in named.items()], held_out=1)
    both = ours + theirs
    assert {each: both.split(each) for each in both.instances} == {
        "clock__0": "train",
        "clock__1": "test",
        "sundial__0": "test",
        "sundial__1": "test",
    }
    with pytest.raises(UsageError, match="two instances with the id 'clock__0'"):
        ours + ours


def test_without_that_column_the_id_says_it(rows) -> None:
    path = rows([None] * 30)
    tasks = load_tasks(path, places={"clock": CMAKE})
    again = SoftwareTasks(tasks.instances.values())
    assert [tasks.split(each) for each in tasks.instances] == [
        again.split(each) for each in again.instances
    ]
    assert {tasks.split(each) for each in tasks.instances} == {"train", "test"}


def test_a_place_says_how_the_tests_of_a_repository_run(rows) -> None:
    tasks = load_tasks(rows([None]), places={"clock": CMAKE})
    instance = Instance.of(tasks.instances["clock__0"].task())
    assert (instance.runner, instance.report) == ("ctest", "Test.xml")
    assert instance.test_command == ("sh", "run-tests.sh")


def test_a_row_that_is_no_instance_is_refused_by_its_number(rows) -> None:
    path = rows(["train"])
    with path.open("a") as file:
        file.write(json.dumps(ROW | {"instance_id": "clock__1", "FAIL_TO_PASS": "[]"}) + "\n")
    with pytest.raises(BadInstance, match="Row 1") as caught:
        load_tasks(path, places={"clock": CMAKE})
    assert caught.value.field == "FAIL_TO_PASS"


def test_a_split_that_there_is_not_is_named(rows) -> None:
    with pytest.raises(UsageError, match="'dev' for 'clock__0'; known are 'train', 'test'"):
        load_tasks(rows(["dev"]), places={"clock": CMAKE})


def test_an_empty_split_says_that_the_given_splits_made_it_so(rows) -> None:
    tasks = load_tasks(rows(["train"]), places={"clock": CMAKE})
    with pytest.raises(UsageError, match="'test', as `splits` says"):
        tasks.sample(1, split="test")
