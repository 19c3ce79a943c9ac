"""Bugs for training and bugs for tests share no code, and what is where stays there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.software_engineering import Place, load_tasks
from rolecraft.errors import UsageError
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.gathering.splits import Splits
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite

AREAS_CODE = """def square(side):
    return side * side


class Box:
    def area(self, width, height):
        return width * height
"""
AREAS, NAMES = "tests/test_areas.py", "tests/test_names.py"


def plan_of(lines: dict[str, int]) -> Plan:
    """A project whose files have so many lines that tests run."""
    project = Project(name="p", source="/nowhere", code=tuple(lines), tests=())
    seen = {path: dict.fromkeys(range(count), ("t",)) for path, count in lines.items()}
    return Plan(project, Suite(outcomes={"t": "passed"}, seen_by=seen | {"other.py": {1: ("t",)}}))


FILES = st.dictionaries(
    st.text("abcdefgh/", min_size=1, max_size=6), st.integers(0, 500), min_size=1, max_size=30
)


@given(FILES, st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_the_lines_for_tests_are_near_the_share_that_was_asked_for(lines, held_out) -> None:
    splits = Splits(plan_of(lines), held_out=held_out).units
    total = sum(lines.values())
    held = sum(lines[path] for path in lines if splits[path] == "test")
    largest = max(lines.values())
    assert abs(held - held_out * total) <= largest + 1e-6


@given(FILES, FILES)
@settings(max_examples=50, deadline=None)
def test_the_files_alone_decide_and_not_their_order(first, second) -> None:
    turned = dict(reversed(first.items()))
    assert Splits(plan_of(turned)).units == Splits(plan_of(first)).units


def test_of_two_files_that_are_both_too_large_the_smaller_is_for_tests() -> None:
    assert Splits(plan_of({"a.py": 100, "b.py": 90})).units == {"a.py": "train", "b.py": "test"}


def test_by_module_a_folder_is_in_one_split() -> None:
    lines = {f"{folder}/{name}.py": 10 for folder in "abcde" for name in "xyz"}
    splits = Splits(plan_of(lines), unit="module")
    for folder in "abcde":
        of = {splits.of("t", {f"{folder}/{name}.py": [1]}) for name in "xyz"}
        assert len(of) == 1
    assert Counter(splits.units.values()) == {"train": 4, "test": 1}


def test_by_function_one_file_has_both_splits_and_no_function_has(made) -> None:
    """A project of one file had tasks for training only."""
    made.project["code"] = ("shapes/areas.py",)
    made.write({"shapes/areas.py": "SIDES = 4\n\n\n@cache\n" + AREAS_CODE})
    seen = {"shapes/areas.py": {6: ("t",), 11: ("t",)}}
    splits = Splits(made.plan(seen=seen), unit="function", held_out=0.5)
    assert set(splits.units) == {"shapes/areas.py::square", "shapes/areas.py::Box"}
    assert set(splits.units.values()) == {"train", "test"}
    for name, lines in {"square": (4, 5, 6), "Box": (9, 11)}.items():
        of = {splits.of("t", {"shapes/areas.py": [line]}) for line in lines}
        assert of == {splits.units[f"shapes/areas.py::{name}"]}
    assert splits.of("t", {"shapes/areas.py": [5, 11]}) is None, "it lies in both"


def test_by_task_each_is_drawn_for_itself() -> None:
    splits = Splits(plan_of({"a.py": 1}), unit="task", held_out=0.5)
    drawn = Counter(splits.of(f"task-{number}", {"a.py": [1]}) for number in range(200))
    assert min(drawn["train"], drawn["test"]) > 60


@pytest.mark.parametrize("options", [{"held_out": 1.5}, {"unit": "line"}])
def test_what_is_no_split_is_refused_by_its_value(options) -> None:
    with pytest.raises(UsageError, match=str(next(iter(options.values())))):
        Splits(plan_of({"a.py": 1}), **options)


def test_a_task_that_changes_files_of_both_splits_is_left_out(three_bugs, needs_program) -> None:
    needs_program("git", package="git")
    made = three_bugs()
    both = made.bug(
        "shapes/areas.py",
        "side * side",
        "side",
        f"{AREAS}::test_square",
        modifier="combine",
        more=(("shapes/names.py", "name[0]", "name[1]"),),
    )
    found = gather(made.folder)
    assert found.left_out == {"two_splits": [both]}
    rows = [row.fields for row in read_rows(made.folder.tasks / "tasks.jsonl")]
    by_split: dict[str, set[str]] = {"train": set(), "test": set()}
    for row in rows:
        by_split[row["split"]].update(row["files"])
    assert by_split == {"train": {"shapes/areas.py"}, "test": {"shapes/names.py"}}
    place = Place(source=str(made.folder.tasks / "repository"))
    source = load_tasks(made.folder.tasks / "tasks.jsonl", places={"shapes": place})
    assert {each.id for each in source.sample(5, split="test")} == {made.ids[2]}


def test_by_task_no_combination_is_left_out(three_bugs, needs_program) -> None:
    needs_program("git", package="git")
    made = three_bugs()
    made.bug(
        "shapes/areas.py",
        "side * side",
        "side",
        f"{AREAS}::test_square",
        more=(("shapes/names.py", "name[0]", "name[1]"),),
    )
    assert gather(made.folder, unit="task").tasks == 4


def test_an_empty_split_is_told_with_the_way_out(made, needs_program) -> None:
    needs_program("git", package="git")
    made.project["code"] = ("shapes/areas.py",)
    made.plan()
    made.bug("shapes/areas.py", "side * side", "side", f"{AREAS}::test_square")
    found = gather(made.folder)
    assert found.splits == {"train": 1}
    assert any("'test'" in each and "--split-by function" in each for each in found.remarks)
    found = gather(made.folder, unit="function")
    assert any("--split-by task" in each for each in found.remarks), "there is one task"
