"""Gathering again keeps what a user has put into the folder of tasks, and how it was parted."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from rolecraft.environments.row_files import read_rows
from rolecraft.errors import UsageError
from rolecraft.synthesis.gathering import kept as module
from rolecraft.synthesis.gathering import whole_folder
from rolecraft.synthesis.gathering.gather import gather


@pytest.fixture(autouse=True)
def _git(needs_program: Any) -> None:
    needs_program("git", package="git")


def splits_of(made: Any) -> dict[str, str]:
    rows = read_rows(made.folder.tasks / "tasks.jsonl")
    return {row.fields["instance_id"]: row.fields["split"] for row in rows}


@pytest.mark.parametrize("linked", [True, False])
def test_files_and_folders_of_the_user_stay_as_they_are(three_bugs, monkeypatch, linked) -> None:
    """A subset that `select` had written was deleted without a word."""
    if not linked:
        monkeypatch.setattr(module.os, "link", refuse)
        monkeypatch.setattr(whole_folder, "_exchanged", lambda first, second: False)
    made = three_bugs()
    tasks = made.folder.tasks
    assert gather(made.folder).kept == []
    (tasks / "easy.jsonl").write_text("{}\n")
    (tasks / "evaluation" / "runs").mkdir(parents=True)
    (tasks / "evaluation" / "runs" / "journal").write_bytes(b"\0")
    (tasks / "evaluation" / "latest").symlink_to("runs")
    (tasks / "also").symlink_to("scenario.py")
    (tasks / "patches" / "mine.diff").write_text("-a\n+b\n")
    for _ in range(2):
        found = gather(made.folder)
        assert found.kept == ["also", "easy.jsonl", "evaluation", "patches/mine.diff"]
        assert (tasks / "easy.jsonl").read_text() == "{}\n"
        assert (tasks / "evaluation" / "latest" / "journal").read_bytes() == b"\0"
        assert [os.readlink(tasks / each) for each in ("also", "evaluation/latest")] == [
            "scenario.py",
            "runs",
        ]
        assert (tasks / "patches" / "mine.diff").exists()


def refuse(*args: object, **options: object) -> None:
    raise PermissionError("no links")


def test_who_writes_a_file_of_their_own_meanwhile_goes_on_in_the_new_folder(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    with (made.folder.tasks / "notes.txt").open("w", buffering=1) as notes:
        notes.write("before\n")
        gather(made.folder)
        notes.write("after\n")
    assert (made.folder.tasks / "notes.txt").read_text() == "before\nafter\n"


def test_what_gather_wrote_before_and_does_no_more_is_gone(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    gone = made.folder.tasks / "patches" / f"{made.ids[0]}.bug.patch"
    assert gone.exists()
    made.say(made.ids[0], "")
    assert gather(made.folder).left_out == {"no_text": [made.ids[0]]}
    assert not gone.exists()


def test_a_scenario_file_is_new_unless_the_user_has_changed_it(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    scenario = made.folder.tasks / "scenario.py"
    assert "--split train" not in scenario.read_text()
    found = gather(made.folder, held_out=0)  # as written: it is ours, and there is another text
    assert found.kept == []
    ours = scenario.read_text()
    assert "--split train" in ours
    scenario.write_text(ours + "mine = tasks\n")
    for _ in range(2):
        assert gather(made.folder).kept == ["scenario.py"]
        assert scenario.read_text() == ours + "mine = tasks\n"
    scenario.unlink()
    assert gather(made.folder).kept == []
    assert scenario.read_text() == ours


def test_without_settings_those_of_the_last_time_hold(three_bugs) -> None:
    """A repeat without `--split-by function` made tasks for training of those held out."""
    made = three_bugs()
    first = gather(made.folder, unit="function", held_out=0.5)
    parted = splits_of(made)
    assert set(parted.values()) == {"train", "test"}
    again = gather(made.folder)
    assert again.settings == first.settings
    assert (splits_of(made), again.moved) == (parted, {})
    other = gather(made.folder, held_out=0.1)
    assert (other.settings.split_by, other.settings.held_out) == ("function", 0.1)
    said = json.loads((made.folder.tasks / "summary.json").read_text())
    assert said["settings"] == {"split_by": "function", "held_out": 0.1}


def test_tasks_that_change_the_split_are_named_by_the_split_that_they_come_to(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    held_out = sorted(each for each, split in splits_of(made).items() if split == "test")
    assert held_out
    assert gather(made.folder, held_out=0).moved == {"train": held_out}
    assert gather(made.folder, held_out=1).moved == {"test": sorted(made.ids)}


def test_a_folder_whose_summary_says_nothing_is_gathered_as_at_first(three_bugs) -> None:
    """Its rows still tell which tasks change the split."""
    made = three_bugs()
    gather(made.folder, held_out=1)
    (made.folder.tasks / "summary.json").write_text("{]")
    found = gather(made.folder)
    assert (found.settings.split_by, found.settings.held_out) == ("file", 0.2)
    assert sorted(found.moved["train"]) == sorted(made.ids[:2])


def test_a_folder_that_was_put_back_after_a_kill_has_its_settings_and_files(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder, unit="task", held_out=1)
    (made.folder.tasks / "mine.txt").write_text("mine")
    made.folder.tasks.rename(made.folder.path / ".tasks-was")
    found = gather(made.folder)
    assert (found.splits, found.kept) == ({"test": 3}, ["mine.txt"])


def test_settings_that_cannot_be_are_refused_and_change_nothing(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder, unit="function")
    (made.folder.tasks / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"`held_out` is 2"):
        gather(made.folder, held_out=2)
    assert (made.folder.tasks / "mine.txt").read_text() == "mine"
    assert gather(made.folder).settings.split_by == "function"
