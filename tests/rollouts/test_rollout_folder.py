"""A folder of rollouts: one process at a time, and a damaged line costs that line only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments import Task
from rolecraft.errors import JournalError, UsageError
from rolecraft.rollouts import Rollout
from rolecraft.rollouts.folder import Over, RolloutFolder

TASKS = [Task("a", "do a"), Task("b", "do b")]


def folder(path: Path, *, resume: bool = True) -> RolloutFolder:
    return RolloutFolder(path, TASKS, 1, resume=resume)


def line(name: str, ended: str = "finished") -> bytes:
    return json.dumps({"id": f"{name}-r1", "ended": ended}).encode() + b"\n"


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    with folder(tmp_path / "runs"):
        pass
    return tmp_path / "runs"


@pytest.mark.parametrize("broken", [b'{"x":1}', b"null", b"[]", b'{"id":[],"ended":"x"}', b"\0"])
def test_a_damaged_line_of_results_costs_that_line(begun: Path, broken: bytes) -> None:
    (begun / "results.jsonl").write_bytes(broken + b"\n" + line("a"))
    with folder(begun) as there:
        assert [task.id for task in there.to_play()] == ["b"]
    assert (begun / "results.jsonl").read_bytes() == line("a")


def test_attempts_keep_the_id_of_their_task_and_differ_in_seed_journal_and_line(
    tmp_path: Path,
) -> None:
    """An environment may look its data up by `task.id`: it is the same as in a single run."""
    with RolloutFolder(tmp_path / "runs", TASKS, 30) as there:
        tasks = list(there.to_play())
        assert [task.id for task in tasks] == ["a"] * 30 + ["b"] * 30
        assert len({task.seed for task in tasks}) == 60
        assert len({there.journal(task) for task in tasks}) == 60
        done: list[Rollout[Task, Any]] = [
            Rollout(index=n, item=task, ended="finished") for n, task in enumerate(tasks)
        ]
        assert [there.add(each)["id"] for each in done][28:32] == ["a-r29", "a-r30", "b-r1", "b-r2"]
        assert not list(there.to_play())


def test_a_task_that_is_there_twice_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"'b' is there 2 times.*`attempts`"),
        RolloutFolder(tmp_path / "runs", [*TASKS, TASKS[1]], 1),
    ):
        pass


def test_a_second_process_is_refused_also_while_results_are_written_anew(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed is taken out of the file when a run goes on; two may not both go on."""
    (begun / "results.jsonl").write_bytes(line("a", "environment"))
    moves: list[str] = []
    replace = os.replace

    def another_comes(source: Path, target: Path) -> None:
        for moment in ("before", "after"):
            with pytest.raises(JournalError, match="another process"):
                folder(begun).__enter__()
            moves.append(moment)
            if moment == "before":
                replace(source, target)

    monkeypatch.setattr(os, "replace", another_comes)
    with folder(begun) as there:
        assert moves == ["before", "after"]
        assert len(list(there.to_play())) == 2
    with folder(begun):
        pass


def test_a_process_that_is_refused_leaves_the_plan_and_the_lock_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with folder(path):
        plan = (path / "plan.json").read_bytes()
        with pytest.raises(JournalError, match="another process"):
            RolloutFolder(path, TASKS[:1], 1, resume=True).__enter__()
        assert (path / "plan.json").read_bytes() == plan
    with pytest.raises(UsageError, match="other rollouts"):
        RolloutFolder(path, TASKS[:1], 1, resume=True).__enter__()
    with folder(path):
        pass


def test_of_what_is_over_only_what_is_told_at_the_end_is_held_in_memory(begun: Path) -> None:
    """The lines themselves may be long: signals, errors, seconds of each stage."""
    row = {"id": "a-r1", "ended": "finished", "reward": 0.5, "calls": 3, "usd": 0.25}
    long = {**row, "error": "x" * 10_000, "signals": {"found": 1.0}}
    (begun / "results.jsonl").write_text(json.dumps(long) + "\n")
    with folder(begun) as there:
        assert there.over == {"a-r1": Over(ended="finished", reward=0.5, calls=3, usd=0.25)}
    assert json.loads((begun / "results.jsonl").read_text()) == long
