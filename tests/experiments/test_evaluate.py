"""An evaluation: its figures are those that come out by hand, and each is said with what it rests
on."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sums import SOLO, TEAM, Sums, knows, number_of
from team_of_sums import journals

from rolecraft import FunctionModel, Limits, ScriptedModel
from rolecraft.environments.task import Split, Task
from rolecraft.errors import ModelUnavailable, UnknownName, UsageError
from rolecraft.experiments import Evaluation, Setting, evaluate
from rolecraft.experiments.broke_off import broke_off
from rolecraft.experiments.cost import EqualCost
from rolecraft.experiments.variants import maths_chat
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios.relay import relay


class Others(Sums):
    """Other sums under the same names."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        found = super().sample(count, seed=seed, split=split)
        return [replace(each, prompt=f"{each.prompt} Say it.") for each in found]


async def run(folder: Path, **options: Any) -> Evaluation:
    arguments: dict[str, Any] = {"models": knows(), "tasks": 6, "concurrency": 1, "folder": folder}
    scenarios = options.pop("scenarios", TEAM)
    return await evaluate(scenarios, **(arguments | options))


async def test_the_team_against_the_agent_alone_by_hand(tmp_path: Path) -> None:
    found = await run(tmp_path, baselines=["single"])
    team, solo = found.rows
    assert (team.name, solo.name) == ("sums@knows", "solo@knows")
    assert (team.success.value, solo.success.value) == (1.0, pytest.approx(4 / 6))
    # Wilson's interval of 4 of 6, with z = 1.959964.
    assert (solo.success.low, solo.success.high) == (
        pytest.approx(0.29999, abs=1e-4),
        pytest.approx(0.90323, abs=1e-4),
    )
    assert (team.calls, team.tokens, solo.calls, solo.tokens) == (3, 30, 1, 10)
    (contrast,) = found.contrasts
    assert (contrast.first, contrast.second) == ("solo@knows", "sums@knows")
    assert contrast.difference.value == pytest.approx(1 / 3)
    assert contrast.difference.test is not None
    assert contrast.difference.test.test == "exact McNemar test"
    assert (contrast.difference.test.p, contrast.adjusted) == (0.5, 0.5)
    assert (contrast.difference.only_second, contrast.difference.only_first) == (2, 0)
    assert found.complete
    assert not found.warnings


async def test_best_of_n_is_played_at_the_measured_cost_of_the_team(tmp_path: Path) -> None:
    """A run of the team is three calls and of the agent one, so n is 3, in every unit."""
    tried: dict[int, int] = {}

    def second_time(number: int) -> bool:
        tried[number] = tried.get(number, 0) + 1
        return number % 3 != 0 or tried[number] % 3 == 2

    model = knows(solo=second_time)
    found = await run(
        tmp_path,
        models=model,
        baselines=["single", "best-of-n", "vote"],
        setting=Setting(attempts=2),
    )
    (equal,) = found.equal_cost
    assert (equal.n, equal.unit, equal.ratio) == (3, "tokens", 1.0)
    rows = {row.form: row for row in found.rows}
    assert len(journals(tmp_path)) == 6 * 2 + 6 * 3 * 2
    assert rows["best-of-n"].success.value == 1.0
    assert (rows["best-of-n"].calls, rows["best-of-n"].attempts) == (3, 12)
    # Two of three runs say -1 where 3 divides, and the vote goes with them.
    assert rows["vote"].success.value == pytest.approx(4 / 6)
    # Attempts 1 and 2 of a task that 3 divides: wrong, then right.
    assert rows["single"].success.value == pytest.approx((4 + 2 * 0.5) / 6)
    assert rows["single"].pass_at[2].value == 1.0
    assert rows["single"].attempts == 12
    compared = {(each.first, each.second) for each in found.contrasts}
    assert compared == {
        ("solo@knows", "sums@knows"),
        ("best of 3 solo@knows", "sums@knows"),
        ("vote of 3 solo@knows", "sums@knows"),
    }
    page = found.to_markdown()
    assert "n = 3: on average a run of sums@knows cost 30 tokens" in page
    assert "the most that any way to choose can reach" in page


async def test_money_comes_before_tokens_and_an_unknown_price_is_no_price(tmp_path: Path) -> None:
    found = await run(tmp_path / "a", models=knows(usd=0.5), baselines=["best-of-n"], tasks=2)
    assert (found.equal_cost[0].unit, found.equal_cost[0].team_cost) == ("usd", 1.5)
    assert found.rows[0].usd == 1.5
    found = await run(tmp_path / "b", models=knows(usd=None), baselines=["best-of-n"], tasks=2)
    assert found.equal_cost[0].unit == "tokens"
    assert found.rows[0].usd is None
    assert "unknown" in found.to_markdown()
    assert found.to_dict()["rows"][0]["per_attempt"]["usd"] is None
    with pytest.raises(UsageError, match="price of some runs is unknown"):
        await run(
            tmp_path / "c", models=knows(usd=None), baselines=["best-of-n"], tasks=2, cost="usd"
        )


async def test_where_nothing_costs_anything_but_calls_calls_are_equal(tmp_path: Path) -> None:
    found = await run(tmp_path, models=knows(tokens=0), baselines=["best-of-n"], tasks=2)
    assert (found.equal_cost[0].unit, found.equal_cost[0].n) == ("calls", 3)


async def test_models_are_compared_with_the_first(tmp_path: Path) -> None:
    base = knows(name="base", solo=lambda n: n < 1)
    tuned = knows(name="tuned", solo=lambda n: n < 5)
    found = await run(
        tmp_path, scenarios=SOLO, models={"base": base, "tuned": tuned}, setting=Setting(attempts=2)
    )
    assert [row.name for row in found.rows] == ["solo@base", "solo@tuned"]
    (contrast,) = found.contrasts
    assert (contrast.first, contrast.second) == ("solo@base", "solo@tuned")
    assert (contrast.difference.only_second, contrast.difference.pairs) == (4, 6)


async def test_scenarios_on_the_same_tasks_are_compared_and_others_are_not(tmp_path: Path) -> None:
    chat, prompt, _ = (each.scenario for each in maths_chat())
    same = [replace(each, tasks=Sums(), team=SOLO.team) for each in (chat, prompt)]
    other = replace(SOLO, name="other", tasks=Sums(4))
    found = await run(tmp_path, scenarios=[*same, other])
    assert [(each.first, each.second) for each in found.contrasts] == [
        ("maths_chat@knows", "maths_prompt@knows")
    ]
    assert found.contrasts[0].difference.value == 0
    assert [row.success.tasks for row in found.rows] == [6, 6, 4]


async def test_an_agent_that_is_evaluated_itself_is_not_played_twice(tmp_path: Path) -> None:
    found = await run(tmp_path, scenarios=[TEAM, SOLO], baselines=["single"])
    assert [row.name for row in found.rows] == ["sums@knows", "solo@knows"]
    assert len(journals(tmp_path)) == 12
    assert len(found.contrasts) == 1


async def test_what_is_finished_is_not_played_again_and_the_figures_are_the_same(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"baselines": ["best-of-n"], "setting": Setting(attempts=2)}
    first = await run(tmp_path, **options)
    before = journals(tmp_path)
    again = await run(tmp_path, models=ScriptedModel([], name="knows"), **options)
    assert again.to_dict() == first.to_dict()
    assert journals(tmp_path) == before
    assert json.loads((tmp_path / "evaluation.json").read_text()) == json.loads(
        json.dumps(first.to_dict())
    )


async def test_more_attempts_and_baselines_are_added_to_what_is_there(tmp_path: Path) -> None:
    await run(tmp_path)
    before = journals(tmp_path)
    found = await run(tmp_path, setting=Setting(attempts=2), baselines=["single"])
    assert before.items() <= journals(tmp_path).items()
    assert [row.attempts for row in found.rows] == [12, 12]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"setting": Setting(temperature=0.5)}, "`temperature` was not set and is '0.5'"),
        ({"setting": Setting(sequence_length=999)}, "`sequence_length` was not set and is '999'"),
        ({"models": {"knows": knows(name="another")}}, "`model` was 'knows' and is 'another'"),
        (
            {"identities": {"knows": "adapter planner 0123"}},
            "`adapter planner` was not set and is '0123'",
        ),
        ({"role_models": {"Solver": knows(name="x")}}, "`Solver` was not set and is 'x'"),
        ({"seed": 1}, "with seed 0, not 1"),
        ({"scenarios": replace(TEAM, tasks=Others())}, "its prompt or its data differ"),
    ],
)
async def test_a_folder_holds_one_setting_and_one_model_of_a_name_and_says_what_differs(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    await run(tmp_path, tasks=1)
    before = journals(tmp_path)
    with pytest.raises(UsageError, match=re.escape(says)):
        await run(tmp_path, **({"tasks": 1} | change))
    assert journals(tmp_path) == before


async def test_a_variant_that_always_fails_has_an_interval_and_no_variance(tmp_path: Path) -> None:
    found = await run(
        tmp_path, scenarios=SOLO, models=knows(solo=lambda n: False), setting=Setting(attempts=3)
    )
    (row,) = found.rows
    assert (row.success.value, row.success.low) == (0.0, 0.0)
    assert row.success.high == pytest.approx(0.39033, abs=1e-4)  # Wilson's, of 0 of 6
    assert row.pass_at[3].value == 0.0


async def test_where_every_run_breaks_off_nothing_is_known_and_that_is_said(
    tmp_path: Path,
) -> None:
    def down(call: Any) -> str:
        raise ModelUnavailable("no such model", model="gone", status=404)

    model = FunctionModel(down, name="knows")
    found = await run(tmp_path, models=model, baselines=["best-of-n"], tasks=2)
    assert not found.complete
    assert [row.success.value for row in found.rows] == [None, None]
    assert found.contrasts[0].difference.test is None
    assert len(found.errors) == 4
    assert any("no run came to its end" in text for text in found.warnings)
    assert any("best-of-n: not begun" in text for text in found.warnings)
    assert "no such model" in found.to_markdown()
    mended = await run(tmp_path, baselines=["best-of-n"], tasks=2)
    assert mended.complete
    assert mended.rows[0].success.value == 1.0


def unmeasured(reward_of: Any) -> Any:
    """The agent alone on tasks for which only a reward says how they went."""

    class Unmeasured(SOLO.environment.func):  # type: ignore[name-defined, misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            del self.about["outcome"]

    environment = partial(Unmeasured, **SOLO.environment.keywords)  # type: ignore[attr-defined]
    return replace(SOLO, reward=reward_of, environment=environment)


@pytest.mark.parametrize("error", ["MissingSignal", "ValueError"])
async def test_a_run_without_a_reward_is_open_and_its_error_said_and_the_rest_goes_on(
    tmp_path: Path, error: str
) -> None:
    """A signal is missing, or a judge answers nonsense, for 2 of 6 tasks: those that were wrong."""
    broken, asked = [True], Counter[str]()

    @reward
    def judged(signals: Signals) -> float:
        asked["reward"] += 1
        if broken[0] and not signals["answer.correct"]:
            return signals["no.such"] if error == "MissingSignal" else float("nonsense")
        return 0.5

    found = await run(tmp_path, scenarios=unmeasured(judged))
    assert not found.complete
    assert [type(each).__name__ for _, each in found.errors] == [error] * 2
    assert asked["reward"] == 6  # one a run, whether it raises or not
    (reason,) = broke_off(found.errors)  # both for the same reason, in this file
    assert len(reason.runs) == 2
    assert re.search(r"test_evaluate\.py:\d+ in judged", reason.where)
    assert f"2 runs broke off, such as `{reason.runs[0].journal}`: {error}" in found.to_markdown()
    assert found.to_dict()["errors"][1]["where"] == reason.where
    assert (found.rows[0].attempts, found.rows[0].unfinished) == (4, 2)
    assert found.rows[0].success.value == 0.5
    again = await run(tmp_path, scenarios=unmeasured(judged))  # there are journals of all by now
    assert [type(each).__name__ for _, each in again.errors] == [error] * 2
    assert asked["reward"] == 2 * 6
    broken[0] = False
    model = knows()
    mended = await run(tmp_path, scenarios=unmeasured(judged), models=model)
    assert mended.complete
    assert not model.calls  # only the reward was asked again
    assert asked["reward"] == 3 * 6


async def test_the_task_keeps_its_id_and_its_attempts_differ_in_their_seeds(
    tmp_path: Path,
) -> None:
    seen: list[tuple[str, int]] = []

    class Watched(SOLO.environment.func):  # type: ignore[name-defined, misc]
        async def setup(self) -> None:
            seen.append((self.task.id, self.task.seed))
            await super().setup()

    environment = partial(Watched, **SOLO.environment.keywords)  # type: ignore[attr-defined]
    scenario = replace(SOLO, environment=environment)
    await run(tmp_path, scenarios=scenario, tasks=1, setting=Setting(attempts=3))
    assert {name for name, _ in seen} == {"sum-test-0"}
    assert len({seed for _, seed in seen}) == 3
    assert len(journals(tmp_path)) == 3


async def test_a_run_that_its_team_ended_has_a_wall_time_as_others_have(tmp_path: Path) -> None:
    """The verifier gives no valid answer, which is the team's own doing: over, and not right."""
    found = await run(tmp_path, models=FunctionModel(lambda call: "no JSON", name="knows"))
    (row,) = found.rows
    assert (row.stops, row.success.value) == ({"error": 6}, 0.0)
    assert (row.attempts, row.timed) == (6, 6)
    again = await run(tmp_path, models=FunctionModel(lambda call: "no JSON", name="knows"))
    assert again.rows[0].seconds == row.seconds


async def test_a_run_that_was_interrupted_has_no_wall_time(tmp_path: Path) -> None:
    inner, down = knows(), [True]

    def answer(call: Any) -> Any:
        if down[0] and call.role == "Verifier" and number_of(call) == 1:
            raise ModelUnavailable("down", model="knows", status=503)
        return inner._function(call)

    options: dict[str, Any] = {
        "models": FunctionModel(answer, name="knows"),
        "setting": Setting(temperature=0.5),
    }
    assert not (await run(tmp_path, **options)).complete
    down[0] = False
    found = await run(tmp_path, **options)
    assert len(options["models"].calls) == 6 * 3 + 1
    assert (found.rows[0].attempts, found.rows[0].timed) == (6, 5)
    assert found.rows[0].seconds is not None
    assert "Without a wall time: 1 attempts." in found.to_markdown()


async def test_a_limit_is_for_everything_and_what_is_missing_is_said(tmp_path: Path) -> None:
    found = await run(tmp_path, baselines=["single"], limits=Limits(calls=12))
    assert not found.complete
    assert found.not_begun > 0
    assert sum(row.attempts * (row.calls or 0) for row in found.rows) <= 12 + 3
    assert any("runs are open and in no figure" in text for text in found.warnings)


async def test_failure_modes_are_those_of_the_detectors(tmp_path: Path) -> None:
    found = await run(tmp_path, baselines=["single"])
    line = found.to_dict()["failures"]
    assert line["sums@knows"]["modes"]["verification.absent"]["present"] == 0
    assert line["solo@knows"]["modes"]["verification.absent"]["present"] == 6
    assert "derailment" in line["solo@knows"]["not_judged"]
    assert "What nobody decided is not absent." in found.to_markdown()


async def test_rewards_between_success_and_failure_have_no_pass_at_k(tmp_path: Path) -> None:
    @reward
    def partly(signals: Signals) -> float:
        return 0.25 + 0.5 * signals["answer.correct"]

    found = await run(tmp_path, scenarios=unmeasured(partly))
    assert not found.binary
    assert found.rows[0].success.value == pytest.approx(0.25 + 0.5 * 4 / 6)
    assert found.rows[0].pass_at == {}
    assert "There is no pass@k" in found.to_markdown()
    assert found.to_dict()["measure"] == "reward"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ks": [3], "setting": Setting(attempts=2)}, "pass@3 wants at least 3 attempts"),
        ({"ks": [0]}, "pass@0"),
        ({"tasks": 0}, "at least one task"),
        ({"scenarios": []}, "at least one scenario"),
        ({"scenarios": [TEAM, TEAM]}, "Two scenarios are named 'sums'"),
        ({"scenarios": replace(TEAM, alone=None), "baselines": ["single"]}, "what one agent alone"),
        ({"baselines": ["double"]}, "double"),
        ({"models": []}, "`models` is empty"),
        ({"models": [knows(), knows()]}, "Two models are named 'knows'"),
        ({"models": "nonsense"}, "names no model"),
        ({"role_models": {"Nobody": knows()}}, "Nobody"),
        ({"scenarios": replace(TEAM, tasks=Sums(0))}, "has no tasks in the split 'test'"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_is_played(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises((UsageError, UnknownName), match=says):
        await run(tmp_path, **options)
    assert not journals(tmp_path)


async def test_role_models_and_a_model_take_the_place_of_those_that_roles_have(
    tmp_path: Path,
) -> None:
    asked: list[str] = []
    own = knows(name="own")

    def with_own() -> Any:
        roles = list(TEAM.team())
        for role in roles:
            role.model = own
        return roles

    scenario = replace(TEAM, team=with_own)
    await run(tmp_path / "a", scenarios=scenario, tasks=1)
    assert not own.calls
    coder = knows(asked.append, name="coder")
    await run(tmp_path / "b", scenarios=scenario, tasks=1, role_models={"Coder": coder})
    assert asked == ["Coder 0"]
    await run(tmp_path / "c", scenarios=scenario, tasks=1, models=None)
    assert len(own.calls) == 3


@pytest.mark.slow
async def test_without_any_model_a_scenario_plays_with_its_untrained_one(tmp_path: Path) -> None:
    found = await evaluate(relay, folder=tmp_path, tasks=3)
    assert found.rows[0].name == "relay@untrained"
    assert found.complete


async def test_a_limit_while_the_agent_plays_for_equal_cost_leaves_attempts_open(
    tmp_path: Path,
) -> None:
    """24 calls are for the first attempts, 12 for the further runs of the agent."""
    options: dict[str, Any] = {"baselines": ["best-of-n"]}
    found = await run(tmp_path, limits=Limits(calls=30), **options)
    assert not found.complete
    best = {row.form: row for row in found.rows}["best-of-n"]
    assert best.unfinished > 0
    assert best.attempts + best.unfinished == 6
    assert f"({best.unfinished} open)" in found.to_markdown()
    more = await run(tmp_path, **options)
    assert more.complete
    assert sum(len(runs) for runs in more.played.values()) == 6 + 18


@pytest.mark.parametrize(("ratio", "far"), [(1.0, False), (1.3, False), (4.0, True), (0.7, True)])
def test_whole_runs_that_come_nowhere_near_the_teams_cost_are_told(ratio: float, far: bool) -> None:
    """One run of an agent may cost four times what the team's does: n is 1 all the same."""
    equal = EqualCost("team", "agent", "usd", 1.0, ratio, 1, ratio)
    assert equal.is_far_from_equal is far
