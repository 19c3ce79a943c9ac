"""Task environments: setup, play, grade, close, whatever happens in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rolecraft import Action, Limits, Role, ScriptedModel, Task, TaskEnvironment
from rolecraft.errors import LimitReached, UsageError
from rolecraft.trajectories import Signal
from rolecraft.trajectories.jsonl import load


class Answer(Action):
    async def run(self) -> str:
        return await self.ask("?")


class Fail(Action):
    async def run(self) -> None:
        raise ValueError("broken")


class Counting(TaskEnvironment):
    """Counts the answers, and which of its phases ran; `fails` names one that raises."""

    fails = ""

    def enter(self, phase: str) -> None:
        self.phases = [*getattr(self, "phases", []), phase]
        if phase == self.fails:
            raise OSError(f"{phase} failed")

    async def setup(self) -> None:
        self.enter("setup")

    async def grade(self) -> list[Signal]:
        self.enter("grade")
        answers = [e for e in self.trajectory.of("message") if e.role == "Ann"]
        step = answers[-1].seq if answers else None
        return [Signal("answers", float(len(answers)), role="Ann", step=step)]

    async def aclose(self) -> None:
        self.enter("close")
        await super().aclose()


TASK = Task("t-1", "How many?", {"secret": 4}, seed=3)


def counting(*actions: type[Action], calls: int = 9, **options: object) -> Counting:
    role = Role(name="Ann", actions=list(actions))
    return Counting(
        TASK, [role], model=ScriptedModel(["1"] * 9), limits=Limits(calls=calls), **options
    )


def test_a_task_environment_says_how_it_is_graded() -> None:
    with pytest.raises(TypeError, match=r"abstract method '?grade"):
        TaskEnvironment(TASK)  # type: ignore[abstract]


async def test_an_episode_is_set_up_played_graded_and_closed() -> None:
    env = counting(Answer, Answer)
    trajectory = await env.episode()
    assert env.phases == ["setup", "grade", "close"]
    assert (trajectory.id, trajectory.about["seed"]) == ("t-1", 3)
    assert trajectory.about["task"] == {"id": "t-1", "prompt": "How many?"}  # not the data
    assert trajectory.events[0].content == "How many?"
    answers, turns = trajectory.signals
    assert (answers.name, answers.value, answers.role, answers.time) == ("answers", 2.0, "Ann", 1)
    assert trajectory.events[answers.step].content == "1"
    assert (turns.name, turns.value, turns.unit) == ("turns", 1.0, "turns")
    assert trajectory.stop_reason == "idle"
    assert trajectory.events[-1].kind == "stop"


async def test_a_crossed_limit_ends_the_play_and_is_graded() -> None:
    env = counting(Answer, Answer, Answer, calls=2)
    trajectory = await env.episode()
    assert env.phases == ["setup", "grade", "close"]
    assert trajectory.signals[0].value == 2
    assert trajectory.stop_reason == "limit"
    assert len(list(trajectory.of("limit"))) == 1
    assert list(trajectory.of("error")) == []


async def test_a_limit_crossed_outside_of_the_roles_is_recorded_too() -> None:
    class Strict(Counting):
        async def play(self):  # type: ignore[no-untyped-def]
            raise LimitReached("out of time", limit="seconds", allowed=1, used=2)

    trajectory = await Strict(TASK).episode()
    (limit,) = trajectory.of("limit")
    assert limit.data == {"limit": "seconds", "allowed": 1, "used": 2}
    assert trajectory.stop_reason == "limit"


async def test_what_a_role_raises_is_recorded_comes_out_and_is_not_graded() -> None:
    env = counting(Fail)
    with pytest.raises(ValueError, match="broken"):
        await env.episode()
    assert env.phases == ["setup", "close"]
    assert [e.kind for e in env.trajectory.events] == ["message", "action", "error", "stop"]
    assert env.trajectory.stop_reason == "error"


@pytest.mark.parametrize(
    ("fails", "phases"), [("setup", ["setup", "close"]), ("grade", ["setup", "grade", "close"])]
)
async def test_what_the_environment_raises_is_recorded_and_closed_too(
    fails: str, phases: list[str]
) -> None:
    env = counting(Answer)
    env.fails = fails
    with pytest.raises(OSError, match=f"{fails} failed"):
        await env.episode()
    assert env.phases == phases
    *_, error, stop = env.trajectory.events
    assert (error.kind, error.role, error.data["type"]) == ("error", "", "OSError")
    assert stop.data["reason"] == "error"


async def test_an_error_while_closing_does_not_hide_the_first_one() -> None:
    env = counting(Fail)
    env.fails = "close"
    with pytest.raises(OSError, match="close failed") as caught:
        await env.episode()
    assert isinstance(caught.value.__context__, ValueError)


async def test_cancelling_closes() -> None:
    entered = asyncio.Event()

    class Wait(Action):
        async def run(self) -> None:
            entered.set()
            await asyncio.Event().wait()

    env = counting(Wait)
    running = asyncio.create_task(env.episode())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert env.phases == ["setup", "close"]
    assert env.trajectory.stop_reason == "cancelled"


async def test_a_task_environment_is_played_once() -> None:
    env = counting(Answer)
    await env.episode()
    with pytest.raises(UsageError, match="Task environment 't-1' was played; make a new one"):
        await env.episode()


async def test_the_journal_is_complete_and_closed_when_the_episode_ends(tmp_path: Path) -> None:
    journal = tmp_path / "t-1.jsonl"
    trajectory = await counting(Answer, journal=journal).episode()
    assert load(journal).events == trajectory.events
    assert trajectory.stop_reason == "idle"
