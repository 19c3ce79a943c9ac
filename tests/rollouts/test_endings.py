"""How an episode ended is one word, whatever ended it; what says nothing about the team says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Limits, Message, Role, Task, TaskEnvironment, tool
from rolecraft.errors import ModelUnavailable, SandboxError, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ModelCall
from rolecraft.rewards import Signals, reward
from rolecraft.rollouts import PipelineSettings, Rollout, ScenarioStages, rollouts
from rolecraft.rollouts.endings import Ended
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal, load

SETTINGS = PipelineSettings(live=2, attempts=1, backoff_seconds=0.0)


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


class Search(TaskEnvironment):
    """Prepares, plays and grades as its task's data say."""

    async def setup(self) -> None:
        if self.task.data.get("broken") == "setup":
            raise SandboxError("no room for a sandbox")

    async def grade(self) -> list[Signal]:
        if self.task.data.get("broken") == "grade":
            raise ValueError("the tests cannot be read")
        return [Signal("found", 1.0)]


class Tasks:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [Task(f"t{n}", "find it") for n in range(count)]


@reward
def found(signals: Signals) -> float:
    return signals["found"]


@reward
def raising(signals: Signals) -> float:
    raise ZeroDivisionError("by nothing")


def searching(roles: Callable[[], list[Role]], scored: Any = found) -> Scenario:
    return Scenario(name="search", team=roles, environment=Search, tasks=Tasks(), reward=scored)


def one() -> list[Role]:
    return [Role(name="Ann", tools=[look])]


def calling(*places: str) -> FunctionModel:
    """Looks in one place after the other, then in the last one for ever."""
    count = 0

    def answer(call: ModelCall) -> Completion | str:
        nonlocal count
        place = places[min(count, len(places) - 1)]
        count += 1
        if place == "":
            return "it is not there"
        return Completion(text="", tool_calls=[ToolCall("look", {"place": place}, f"c{count}")])

    return FunctionModel(answer)


async def ended(
    scenario: Scenario, model: Any, task: Task | None = None, **options: Any
) -> Rollout[Task, Any]:
    stages = ScenarioStages(scenario, model=model, **options)
    async with aclosing(rollouts(stages, [task or Task("t", "find it")], SETTINGS)) as done:
        (rollout,) = [each async for each in done]
    return rollout


async def test_a_team_that_comes_to_its_end_has_finished() -> None:
    rollout = await ended(searching(one), calling("attic", ""))
    assert (rollout.ended, rollout.reward, rollout.error) == ("finished", 1.0, None)
    assert rollout.episode is not None
    assert rollout.trajectory is rollout.episode.trajectory


async def test_a_role_that_calls_the_same_to_the_end_of_its_steps_was_stuck_and_is_graded() -> None:
    """A failure of the policy counts, as every limit does: nobody's fault but the team's."""
    rollout = await ended(searching(one), calling("attic", "cellar", "cellar"))
    assert (rollout.ended, rollout.reward, rollout.error) == ("stuck", 1.0, None)
    assert rollout.trajectory is not None
    assert rollout.trajectory.stop_reason == "limit"
    assert len([*rollout.trajectory.of("model_call")]) == 20


async def test_a_role_that_tries_something_else_each_time_ran_out_of_turns() -> None:
    rollout = await ended(searching(one), calling(*map(str, range(50))))
    assert (rollout.ended, rollout.reward, rollout.error) == ("turns", 1.0, None)


async def test_a_role_that_starts_actions_without_end_ran_out_of_turns_and_is_graded() -> None:
    class Swap(Action):
        async def run(self, history: Any) -> str:
            self.role.set_actions([Swap])
            return "again"

    rollout = await ended(searching(lambda: [Role(name="Ann", actions=[Swap])]), calling(""))
    assert (rollout.ended, rollout.reward, rollout.error) == ("turns", 1.0, None)


class LookOnce(Action):
    """Ask once, run what is called, and tell oneself to go on."""

    async def run(self, history: Any) -> Any:
        session = self.open_session()
        answer = await session.generate([Message("go on")], tools=[look.spec])
        call = answer.tool_calls[0]
        await look._for_call(call.id, self).run(**call.arguments)
        return Message("again", send_to=self.role.name)


class Walker(Role):
    actions = [LookOnce]


async def test_a_role_that_repeats_itself_over_rounds_is_stopped_at_the_third() -> None:
    rollout = await ended(searching(lambda: [Walker()]), calling("attic", "cellar"))
    assert (rollout.ended, rollout.reward) == ("stuck", 1.0)
    assert rollout.trajectory is not None
    assert len([*rollout.trajectory.of("model_call")]) == 4


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (Limits(rounds=2), "turns"),
        (Limits(calls=2), "turns"),
        (Limits(seconds=0.0), "seconds"),
        (Limits(tokens=1), "tokens"),
    ],
)
async def test_a_crossed_limit_is_named_and_graded(limits: Limits, word: Ended) -> None:
    model = calling(*map(str, range(50)))
    rollout = await ended(searching(lambda: [Walker()]), model, limits=limits)
    assert (rollout.ended, rollout.reward) == (word, 1.0)


async def test_an_environment_that_cannot_be_made_says_nothing_about_the_team() -> None:
    task = Task("t", "go", {"broken": "setup"})
    rollout = await ended(searching(one), calling(""), task)
    assert (rollout.ended, rollout.reward, rollout.says_something) == ("environment", None, False)


async def test_a_model_that_does_not_answer_says_nothing_about_the_team() -> None:
    def answer(call: ModelCall) -> str:
        raise ModelUnavailable("busy")

    rollout = await ended(searching(one), FunctionModel(answer))
    assert (rollout.ended, rollout.reward, rollout.says_something) == ("model", None, False)
    assert rollout.trajectory is not None
    assert rollout.trajectory.stop_reason == "error"


@pytest.mark.parametrize("broken", ["grade", "reward"])
async def test_what_cannot_be_graded_has_no_reward_and_keeps_its_record(broken: str) -> None:
    scenario = searching(one, raising if broken == "reward" else found)
    rollout = await ended(scenario, calling(""), Task("t", "go", {"broken": broken}))
    assert (rollout.ended, rollout.reward, rollout.episode) == ("grading", None, None)
    assert isinstance(rollout.error, ZeroDivisionError if broken == "reward" else ValueError)
    assert rollout.trajectory is not None
    assert [*rollout.trajectory.of("model_call")]


async def test_a_second_attempt_goes_on_with_the_journal_of_the_first(tmp_path: Path) -> None:
    calls = 0

    def answer(call: ModelCall) -> Completion | str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ModelUnavailable("busy")
        if calls == 1:
            return Completion(text="", tool_calls=[ToolCall("look", {"place": "attic"}, "c")])
        return "it is not there"

    stages = ScenarioStages(
        searching(one), model=FunctionModel(answer), journal=lambda task: tmp_path / "t.jsonl"
    )
    settings = PipelineSettings(live=2, attempts=2, backoff_seconds=0.0)
    async with aclosing(rollouts(stages, [Task("t", "find it")], settings)) as done:
        (rollout,) = [each async for each in done]
    assert (rollout.ended, rollout.attempts, rollout.reward) == ("finished", 2, 1.0)
    assert calls == 3, "the first answer was in the journal"
    assert load(tmp_path / "t.jsonl").stop_reason == "idle"


async def test_an_item_that_waits_for_its_grader_when_the_pipeline_is_left_was_cancelled(
    tmp_path: Path,
) -> None:
    graded: list[str] = []
    model = calling("")

    class Slow(Search):
        async def grade(self) -> list[Signal]:
            graded.append(self.task.id)
            if len(graded) > 1:
                await asyncio.Event().wait()
            while len(model.calls) < 3:  # noqa: ASYNC110 - the others are to have acted
                await asyncio.sleep(0.001)
            return [Signal("found", 1.0)]

    scenario = Scenario(name="slow", team=one, environment=Slow, tasks=Tasks(), reward=found)
    stages = ScenarioStages(
        scenario, model=model, journal=lambda task: tmp_path / f"{task.id}.jsonl"
    )
    settings = PipelineSettings(live=3, grade=1)
    async with aclosing(rollouts(stages, Tasks().sample(3), settings)) as done:
        first = (await anext(done)).item.id
    assert first == graded[0]
    stops = {f"t{n}": load(tmp_path / f"t{n}.jsonl").stop_reason for n in range(3)}
    assert stops.pop(first) == "idle"
    assert [*stops.values()] == ["cancelled", "cancelled"]


async def test_stages_can_be_entered_again_and_play_nothing_outside() -> None:
    stages = ScenarioStages(searching(one), model=calling(""))
    with pytest.raises(UsageError, match="enter it first"):
        await stages.prepare(Task("t", "find it"))
    for _ in range(2):
        async with aclosing(rollouts(stages, Tasks().sample(2), SETTINGS)) as done:
            assert [each.ended async for each in done] == ["finished", "finished"]


@pytest.mark.parametrize("kind", ["stuck over rounds", "stuck within a turn", "limit", "finished"])
async def test_a_journal_that_is_over_comes_to_the_same_ending_and_asks_nothing(
    tmp_path: Path, kind: str
) -> None:
    within = kind in ("stuck within a turn", "finished")

    def team() -> list[Role]:
        return one() if within else [Walker()]

    model = calling("attic", "" if kind == "finished" else "cellar")
    options: dict[str, Any] = {"journal": lambda task: tmp_path / "t.jsonl"}
    if kind == "limit":
        options["limits"] = Limits(calls=2)
    first = await ended(searching(team), model, **options)
    model.calls.clear()
    again = await ended(searching(team), model, **options)
    assert model.calls == []
    assert (again.ended, again.reward) == (first.ended, first.reward)
    assert first.ended == {"limit": "turns", "finished": "finished"}.get(kind, "stuck")
