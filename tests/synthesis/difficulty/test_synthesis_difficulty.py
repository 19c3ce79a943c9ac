"""How often solvers solve the tasks is recorded once, and played no second time."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.software_engineering import Instance
from rolecraft.environments.software_engineering.examples.solvers import (
    null_solver,
    patching_plan,
    patching_solver,
    reference_solver,
    solver,
)
from rolecraft.errors import ModelUnavailable, SandboxError, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.hashing import hash64
from rolecraft.scenarios.software_engineering import scenario
from rolecraft.synthesis.difficulty.attempts import (
    Attempt,
    attempts_by_task,
    open_attempts,
    pass_rates,
    read_attempts,
)
from rolecraft.synthesis.difficulty.measure import measure
from rolecraft.synthesis.difficulty.records import record_from
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.gathering.tasks import gathered_tasks


@pytest.fixture
def gathered(three_bugs, needs_program: Any) -> Any:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    made = three_bugs()
    gather(made.folder)
    return made


def instances(made: Any) -> list[Instance]:
    return [*gathered_tasks(made.folder).instances.values()]


async def test_the_reference_solves_all_and_who_does_nothing_none(gathered) -> None:
    folder = gathered.folder
    best = await measure(
        folder, solver="best", model=patching_solver(instances(gathered)), attempts=1
    )
    worst = await measure(
        folder, solver="worst", model=null_solver(instances(gathered)), attempts=1
    )
    assert (best.attempts, best.resolved, best.failed) == (3, 3, [])
    assert (worst.attempts, worst.resolved) == (3, 0)
    attempts = [*read_attempts(folder)]
    assert pass_rates(attempts, "best") == dict.fromkeys(gathered.ids, 1.0)
    assert pass_rates(attempts) == dict.fromkeys(gathered.ids, 0.5)
    assert {each.turns for each in attempts if each.solver == "worst"} == {1}


async def test_what_is_recorded_is_not_played_again(gathered) -> None:
    asked: Counter[str] = Counter()

    def plan(issue: Instance) -> list[Any]:
        asked[issue.id] += 1
        return patching_plan([issue]) if hash64("solver", issue.id) % 2 else []

    async def play(attempts: int) -> Any:
        model = solver(instances(gathered), plan, name="by-hash")
        return await measure(gathered.folder, solver="by-hash", model=model, attempts=attempts)

    first = await play(1)
    rates = pass_rates(read_attempts(gathered.folder))
    assert rates == {each: float(hash64("solver", each) % 2) for each in gathered.ids}
    asked.clear()
    again = await play(1)
    assert (again.played, again.attempts, again.resolved) == (0, 3, first.resolved)
    assert not asked
    more = await play(2)
    assert (more.played, more.attempts) == (3, 6)
    assert set(asked) == set(gathered.ids)


async def test_what_a_machine_failed_is_no_attempt_and_is_played_later(gathered) -> None:
    class Lost:
        async def create(self, spec: Any) -> Any:
            raise SandboxError("no sandbox today")

    model = patching_solver(instances(gathered))
    scene = scenario(gathered_tasks(gathered.folder), provider=Lost())  # type: ignore[arg-type]
    task = gathered.ids[:1]
    lost = await measure(
        gathered.folder, solver="s", model=model, attempts=1, scene=scene, tasks=task
    )
    assert (lost.attempts, len(lost.failed)) == (0, 1)
    assert "no sandbox today" in lost.failed[0]
    found = await measure(gathered.folder, solver="s", model=model, attempts=1, tasks=task)
    assert (found.attempts, found.resolved) == (1, 1)


async def test_a_limit_of_dollars_keeps_attempts_from_beginning(gathered) -> None:
    from rolecraft.models import Completion, FunctionModel
    from rolecraft.trajectories.events import Usage

    model = FunctionModel(lambda call: Completion(text="I give up.", usage=Usage(1, 1, 0.25)))
    found = await measure(gathered.folder, solver="s", model=model, attempts=1, live=1, usd=0.3)
    assert (found.played, found.not_begun, found.usd) == (2, 1, 0.5)


async def test_what_an_attempt_cost_before_the_model_failed_counts(gathered) -> None:
    """Else a provider that fails late is paid for without a limit."""
    from rolecraft.models import Completion, FunctionModel
    from rolecraft.trajectories.events import Usage

    asked: Counter[str] = Counter()

    def answer(call: Any) -> Completion:
        asked["all"] += 1
        if asked["all"] > 1:
            raise ModelUnavailable("gone for today")
        return Completion(
            text="",
            tool_calls=(ToolCall("execute_bash", {"command": "true"}),),
            usage=Usage(1, 1, 0.25),
        )

    found = await measure(
        gathered.folder, solver="s", model=FunctionModel(answer), attempts=1, live=1, usd=0.2
    )
    assert (found.attempts, len(found.failed), found.not_begun, found.usd) == (0, 1, 2, 0.25)


async def test_a_task_that_there_is_not_is_named(gathered) -> None:
    with pytest.raises(UsageError, match="'nothing-like-it'"):
        await measure(gathered.folder, solver="s", model=null_solver([]), tasks=["nothing-like-it"])


async def played_elsewhere(made: Any, journal: Path, model: Any) -> None:
    """A record of the first task, as `rolecraft evaluate` makes them."""
    scene = scenario(gathered_tasks(made.folder), model=model)
    journal.parent.mkdir(parents=True)
    await scene.play(instances(made)[0].task(), journal=journal)


def somebody(made: Any, *steps: Any) -> Any:
    """A solver that is no stand-in, by its name."""
    return solver(instances(made), lambda _: steps, name="somebody")


async def test_a_record_is_one_attempt_however_often_and_from_wherever_it_is_taken(
    gathered,
) -> None:
    """It was known by the end of its path: taken as `a/runs`, `a` and the file it counted three
    times, and another run in another `runs` not at all.
    """
    root = gathered.folder.path.parent
    first, other = root / "a/runs/r2.jsonl", root / "b/runs/r2.jsonl"
    await played_elsewhere(gathered, first, somebody(gathered))
    await played_elsewhere(gathered, other, somebody(gathered, ("execute_bash", {"command": "ls"})))
    (root / "a/results.jsonl").write_text('{"id": 1}\n')
    found = record_from(gathered.folder, root / "a")
    assert (found.added, found.known, found.others) == (1, 0, 1)
    shutil.copytree(root / "a", root / "copied")
    for path in (root / "a", root / "a/runs", first, root / "copied"):
        again = record_from(gathered.folder, path, solver="by another name")
        assert (again.added, again.known) == (0, 1), path
    found = record_from(gathered.folder, root / "b/runs")
    assert (found.added, found.known) == (1, 0)
    attempts = [*read_attempts(gathered.folder)]
    assert [each.solver for each in attempts] == ["somebody"] * 2
    assert sorted(each.turns for each in attempts) == [1, 2]


async def test_what_was_played_here_is_not_taken_from_its_records_again(gathered) -> None:
    await measure(gathered.folder, solver="s", model=somebody(gathered), attempts=2)
    found = record_from(gathered.folder, gathered.folder.path / "attempts")
    assert (found.added, found.known) == (0, 6)


@pytest.mark.parametrize("make", [patching_solver, reference_solver, null_solver])
async def test_what_a_stand_in_does_is_no_difficulty_whatever_it_is_called(gathered, make) -> None:
    """A rehearsal of `evaluate` gave tasks a pass rate of 1 that no model had come to."""
    folder, journal = gathered.folder, gathered.folder.path.parent / "runs/r1.jsonl"
    await played_elsewhere(gathered, journal, make(instances(gathered)))
    found = record_from(folder, journal, solver="gpt-of-my-own")
    assert (found.added, found.stand_ins) == (1, 1)
    await measure(folder, solver="mine", model=make(instances(gathered)), attempts=1)
    assert attempts_by_task(folder) == {}
    gather(folder)
    rows = [row.fields for row in read_rows(folder.tasks / "tasks.jsonl")]
    assert {(row["pass_rate"], row["attempts"]) for row in rows} == {(None, 0)}
    asked_for = attempts_by_task(folder, "mine")
    assert sorted(asked_for) == sorted(gathered.ids), "who names it gets it"


def test_records_of_something_else_are_refused(gathered, tmp_path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="has no record of an attempt at one of the 3 tasks"):
        record_from(gathered.folder, tmp_path / "other")


def test_gathering_again_puts_the_pass_rates_into_the_rows(gathered) -> None:
    with open_attempts(gathered.folder) as ledger:
        for number, resolved in enumerate([True, False, False, True], 1):
            ledger.append(
                Attempt(task=gathered.ids[0], solver="s", number=number, resolved=resolved)
            )
    gather(gathered.folder)
    rows = {
        row.fields["instance_id"]: row.fields
        for row in read_rows(gathered.folder.tasks / "tasks.jsonl")
    }
    assert (rows[gathered.ids[0]]["pass_rate"], rows[gathered.ids[0]]["attempts"]) == (0.5, 4)
    assert (rows[gathered.ids[1]]["pass_rate"], rows[gathered.ids[1]]["attempts"]) == (None, 0)
