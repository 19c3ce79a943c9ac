"""An experiment: its table is the one that comes out by hand, and nothing finished is run again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from team_of_sums import TASKS, journals, prints_a_number, solver

from rolecraft import FunctionModel, Limits, ScriptedModel
from rolecraft.environments import Task
from rolecraft.errors import ModelUnavailable, UsageError
from rolecraft.experiments import Played, Results, experiment, maths_chat, so_far
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories import FailureFinding


async def run(folder: Path, **options: Any) -> Results:
    arguments: dict[str, Any] = {
        "variants": maths_chat(sandbox=prints_a_number()),
        "tasks": TASKS,
        "repetitions": 2,
        "model": solver(),
        "concurrency": 1,
        "folder": folder,
    }
    return await experiment(**(arguments | options))


async def test_the_table_is_the_one_that_comes_out_by_hand(tmp_path: Path) -> None:
    results = await run(tmp_path)
    baseline, prompt, topology = results.rows
    assert [row.correct for row in results.rows] == pytest.approx([100 / 3, 1100 / 12, 100])
    # The sample deviation of 1, 1, 0, 0, 0, 0 over the root of six.
    assert baseline.standard_error == pytest.approx(100 * (4 / 15) ** 0.5 / 6**0.5)
    assert topology.standard_error == 0
    assert prompt.repetitions == [100.0, pytest.approx(500 / 6)]
    assert prompt.repetition_sd == pytest.approx((100 / 6) / 2**0.5)
    assert (baseline.test, baseline.difference) == (None, None)
    for row, difference in ((prompt, 350 / 6), (topology, 200 / 3)):
        assert row.difference == pytest.approx(difference)
        assert row.test is not None
        # Four tasks differ, all to the better: 2 of 16 ways to sign them are as extreme.
        assert (row.test.n, row.test.p, row.adjusted) == (4, 0.125, 0.25)
    assert [row.runs for row in results.rows] == [12, 12, 12]
    assert [row.usage.calls for row in results.rows] == [12, 12, 36]
    assert results.complete


async def test_the_table_is_in_the_folder_for_people_and_for_programs(tmp_path: Path) -> None:
    results = await run(tmp_path)
    written = json.loads((tmp_path / "results.json").read_text())
    assert written == json.loads(json.dumps(results.to_dict()))
    assert written["rows"][1]["to_baseline"]["p"] == 0.125
    page = (tmp_path / "results.md").read_text()
    assert "| baseline | 33.33 ± 21.08 |  |  |  | 12 | 1.0 |" in page
    assert "| prompt | 91.67 ± 8.33 | +58.33 | 0.125 | 0.25 | 12 | 1.0 |" in page
    assert "6 tasks, 2 repetitions, model knows some, seed 0." in page
    assert "Wilcoxon signed-rank test, exact" in page


async def test_what_is_finished_is_not_run_again(tmp_path: Path) -> None:
    first = await run(tmp_path)
    before = journals(tmp_path)
    again = await run(tmp_path, model=ScriptedModel([], name="knows some"))
    assert again.to_dict() == first.to_dict()
    assert journals(tmp_path) == before


async def test_more_repetitions_and_tasks_are_added_to_what_is_there(tmp_path: Path) -> None:
    await run(tmp_path, tasks=TASKS[:3], repetitions=1)
    before = journals(tmp_path)
    played: list[Played] = []
    results = await run(tmp_path, on_run=played.append)
    assert len(played) == 36 - 9
    assert all(journals(tmp_path)[name] == content for name, content in before.items())
    assert results.complete


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 1}, "seed 0, not 1"),
        ({"model": FunctionModel(lambda call: "", name="other")}, "model 'knows some'"),
        ({"tasks": [Task("sum/0", "Another?", {"answer": "1"})]}, "Task 'sum/0' was another"),
    ],
)
async def test_a_folder_holds_one_experiment(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    await run(tmp_path, tasks=TASKS[:1], repetitions=1)
    before = journals(tmp_path)
    with pytest.raises(UsageError, match=says):
        await run(tmp_path, **change)
    assert journals(tmp_path) == before


async def test_each_repetition_has_a_seed_of_its_own_and_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        await run(tmp_path / folder, tasks=TASKS[:2])
    assert journals(tmp_path / "a") == journals(tmp_path / "b")
    headers = [json.loads(text.splitlines()[0]) for text in journals(tmp_path / "a").values()]
    seeds = [header["about"]["seed"] if "about" in header else header["seed"] for header in headers]
    assert len(set(seeds)) == 4  # of 12 runs: two tasks, twice, alike for each variant


async def test_a_provider_that_fails_leaves_the_run_open_and_the_next_call_mends_it(
    tmp_path: Path,
) -> None:
    knows, down = solver(), [True]

    def answer(call: Any) -> str:
        if down[0] and "3 and 3" in call.messages[1].content:
            raise ModelUnavailable("the provider is down", model="knows some", status=503)
        said = knows._function(call)
        assert isinstance(said, str)
        return said

    model = FunctionModel(answer, name="knows some")
    results = await run(tmp_path, repetitions=1, model=model)
    assert [row.unfinished for row in results.rows] == [1, 1, 1]
    assert [row.tasks for row in results.rows] == [5, 5, 5]
    assert {run.task.id for run, _ in results.errors} == {"sum/3"}
    assert not results.complete
    assert "(1 open)" in results.to_markdown()
    down[0] = False
    before = len(model.calls)
    results = await run(tmp_path, repetitions=1, model=model)
    assert results.complete
    assert not results.errors
    assert len(model.calls) - before == 1 + 1 + 3


async def test_a_team_that_breaks_its_own_rules_is_not_correct(tmp_path: Path) -> None:
    """A verifier that never gives a verdict raises `InvalidAnswer`: the team's fault."""
    knows = solver()

    def answer(call: Any) -> str:
        said = "no verdict" if call.role == "Verifier" else knows._function(call)
        assert isinstance(said, str)
        return said

    results = await run(tmp_path, repetitions=1, model=FunctionModel(answer, name="knows some"))
    assert results.rows[2].correct == 0
    assert results.complete


async def test_a_limit_lets_no_further_run_begin_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    results = await run(tmp_path, limits=Limits(calls=10))
    assert sum(row.usage.calls for row in results.rows) == 10
    assert results.not_begun == 36 - 10
    assert not results.errors
    # Repetition by repetition, so that all variants get their turn first.
    assert [row.runs for row in results.rows] == [6, 4, 0]
    assert (await run(tmp_path)).complete


async def test_the_estimate_counts_calls_before_and_goes_by_what_was_measured_after(
    tmp_path: Path,
) -> None:
    plan: dict[str, Any] = {
        "variants": maths_chat(),
        "tasks": TASKS,
        "folder": tmp_path,
        "repetitions": 2,
    }
    before = so_far(**plan).estimate
    assert (before.runs, before.calls) == (36, 12 + 12 + 36)
    assert before.expected is None
    assert not os.listdir(tmp_path)
    await run(tmp_path, repetitions=1)
    after = so_far(**plan).estimate
    assert (after.runs, after.calls) == (18, 30)
    spent = so_far(**plan).rows
    assert after.expected is not None
    assert after.expected.calls == 30
    assert after.expected.completion_tokens == sum(row.usage.completion_tokens for row in spent)
    assert after.expected.usd == 0.0


async def test_what_was_read_for_the_estimate_is_not_read_again(tmp_path: Path) -> None:
    variants = maths_chat(sandbox=prints_a_number())
    await run(tmp_path, repetitions=1, variants=variants)
    before = so_far(variants=variants, tasks=TASKS, folder=tmp_path)
    for journal in journals(tmp_path):
        (tmp_path / journal).unlink()
    played: list[Played] = []
    results = await run(
        tmp_path, repetitions=1, variants=variants, before=before, on_run=played.append
    )
    assert results.complete
    assert not played


async def test_failures_before_and_after_are_compared_by_exact_tests(tmp_path: Path) -> None:
    results = await run(tmp_path, repetitions=1)
    await results.compare_failures()
    found = {name: {row.mode: row for row in each.modes} for name, each in results.failures.items()}
    absent = found["topology"]["verification.absent"]
    # Nobody verifies in the baseline, the verifier does in the topology: six pairs, one way.
    assert (absent.baseline.present, absent.candidate.present) == (6, 0)
    assert absent.test is not None
    assert absent.test.p == 2 / 2**6
    assert "| verification.absent | 6 of 6 | 0 of 6 | 0.031 |" in results.to_markdown()


async def test_labels_of_others_take_the_detectors_place(tmp_path: Path) -> None:
    results = await run(tmp_path, repetitions=1)
    labels = [
        Labels(
            trace=f"elsewhere/runs/{variant}/sum-{n}/r1.jsonl",
            annotator="Ada",
            findings=(FailureFinding("repetition", verdict),),
        )
        for variant, verdict in (("baseline", "present"), ("prompt", "absent"))
        for n in range(6)
    ]
    await results.compare_failures(labels)
    assert list(results.failures) == ["prompt"]
    assert "labelled by Ada" in results.to_markdown()
    with pytest.raises(UsageError, match="None of these labels is of a run"):
        await results.compare_failures([Labels(trace="other.jsonl", annotator="Ada")])


async def test_variants_and_tasks_need_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"`tasks` has 'sum-0' more than once"):
        await run(tmp_path, tasks=[TASKS[0], TASKS[0]])
    with pytest.raises(UsageError, match="at least one variant and one task"):
        await run(tmp_path, tasks=[])
    with pytest.raises(UsageError, match="`usd`, `tokens` and `calls`"):
        await run(tmp_path, limits=Limits(rounds=3))
    assert not os.listdir(tmp_path)
