"""A run that failed goes on where it failed: nothing that was finished is lost or done again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Role, Run, Team
from rolecraft.actions import idempotency_key
from rolecraft.errors import (
    ActionTimeout,
    ModelUnavailable,
    OutcomeUnknown,
    TraceError,
    UsageError,
)
from rolecraft.models import ModelCall
from rolecraft.trajectories.codec import encode_event

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


class Look(Action):
    async def run(self) -> str:
        done.append(idempotency_key())
        return "looked"


class Ask(Action):
    async def run(self) -> str:
        done.append(idempotency_key())
        first = await self.ask("What?")
        return f"{first} {await self.ask('And why?')}"


class Report(Action):
    async def run(self, history: Any) -> str:
        done.append(idempotency_key())
        return f"report: {history[-1].content}"


class Service:
    """A model that answers `answers` times and then is away, until `up()`."""

    def __init__(self, answers: int) -> None:
        self.answers: float = answers
        self.asked: list[str] = []
        self.model = FunctionModel(self._answer)

    def up(self) -> None:
        self.answers = float("inf")

    def _answer(self, call: ModelCall) -> str:
        if self.answers == 0:
            raise ModelUnavailable("The model is away.", model="function", attempts=4)
        self.answers -= 1
        self.asked.append(call.messages[-1].content)
        return f"<{call.messages[-1].content}>"


def office(service: Service | None = None, **options: Any) -> Team:
    """Ann and Bob act in the same round; Cy reports what Ann was told."""
    return Team(
        [
            Role(name="Ann", actions=[Look, Ask]),
            Role(name="Bob", actions=[Look]),
            Role(name="Cy", actions=[Report], watch=[Ask]),
        ],
        model=service.model if service is not None else None,
        **options,
    )


def written(run: Run | Team) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def said(run: Run | Team) -> list[str]:
    return [f"{event.role}: {event.content}" for event in run.trajectory.of("message")][1:]


WHOLE = [
    "Ann: looked",
    "Ann: <What?> <And why?>",
    "Bob: looked",
    "Cy: report: <What?> <And why?>",
]

# --- a model that is away --------------------------------------------------------------------


async def test_a_model_that_is_away_ends_the_run_and_loses_nothing_finished() -> None:
    service = Service(answers=1)
    team = office(service)
    with pytest.raises(ModelUnavailable) as caught:
        await team.run("go")
    assert caught.value.__notes__ == [
        "raised in action 'Ask' of role 'Ann'",
        "in round 1, role 'Ann'",
    ]
    assert team.trajectory.stop_reason == "error"
    assert said(team) == ["Ann: looked", "Bob: looked"]


@pytest.mark.parametrize("answers", [0, 1])
async def test_recover_goes_on_at_the_action_that_failed(tmp_path: Path, answers: int) -> None:
    """What was done is not done again, what was answered is not asked again."""
    service = Service(answers)
    team = office(service, journal=tmp_path / "run.jsonl")
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    team.close()
    done.clear()
    service.up()
    run = await office(service).recover(tmp_path / "run.jsonl")
    assert said(run) == WHOLE
    assert done == ["run/Ann/2", "run/Cy/1"]
    assert service.asked == ["What?", "And why?"]


async def test_the_record_says_what_had_failed_and_that_it_went_on() -> None:
    service = Service(answers=0)
    team = office(service)
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    service.up()
    run = await office(service).recover(team.trajectory)
    (resumed,) = run.trajectory.of("resume")
    assert resumed.data["after"] == "error"
    failed = resumed.data["failed"]
    assert (failed["role"], failed["type"], failed["action"]) == ("Ann", "ModelUnavailable", "Ask")
    assert failed["content"] == "The model is away."
    assert [event.kind for event in run.trajectory.events].count("error") == 0
    assert run.stop == "idle"


async def test_it_may_fail_again_and_go_on_again(tmp_path: Path) -> None:
    service = Service(answers=0)
    team = office(service, journal=tmp_path / "run.jsonl")
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    for _ in range(3):
        with pytest.raises(ModelUnavailable):
            await team.recover(tmp_path / "run.jsonl")
    service.up()
    run = await team.recover(tmp_path / "run.jsonl")
    assert said(run) == WHOLE
    assert done.count("run/Ann/1") == 1
    assert done.count("run/Ann/2") == 5
    assert len(list(run.trajectory.of("resume"))) == 4
    assert written(await team.replay(run)) == written(run)


async def test_a_run_that_went_on_is_replayed_and_forked_like_any_other() -> None:
    service = Service(answers=1)
    team = office(service)
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    service.up()
    run = await team.recover(team.trajectory)
    assert written(await team.replay(run)) == written(run)
    service.asked.clear()
    last = run.trajectory.events[-1].seq
    fork = await team.fork(run, last - 1)
    assert said(fork) == WHOLE
    assert not service.asked


async def test_run_without_an_idea_plays_the_failed_turns_once_more() -> None:
    """In the same process: the roles hear again what they had been told. Others do not."""
    service = Service(answers=1)
    team = office(service)
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    done.clear()
    service.up()
    run = await team.run()
    assert said(run)[2:] == [WHOLE[0], WHOLE[1], WHOLE[3]]
    assert done == ["run/Ann/3", "run/Ann/4", "run/Cy/1"], "a turn anew has keys of its own"
    (resumed,) = run.trajectory.of("resume")
    assert resumed.data == {"retry": ["Ann"]}
    assert written(await team.replay(run)) == written(run)


# --- an action that takes too long -----------------------------------------------------------


class Slow(Action):
    """Never ends, unless the role says so."""

    timeout = 0.01

    async def run(self) -> str:
        done.append(idempotency_key())
        if self.role.stuck:
            await asyncio.Event().wait()
        return "at last"


class Patient(Role):
    actions = [Look, Slow]
    stuck: bool = True


async def test_an_action_that_takes_too_long_is_cancelled_and_recorded() -> None:
    team = Team([Patient(name="Ann")])
    with pytest.raises(ActionTimeout, match=r"'Slow' of role 'Ann' did not end within 0\.01 s"):
        await team.run("go")
    (error,) = team.trajectory.of("error")
    assert (error.role, error.data["type"], error.data["action"]) == (
        "Ann",
        "ActionTimeout",
        "Slow",
    )
    assert team.trajectory.stop_reason == "error"


async def test_after_a_timeout_the_action_is_done_again_under_its_key() -> None:
    team = Team([Patient(name="Ann")])
    with pytest.raises(ActionTimeout):
        await team.run("go")
    run = await Team([Patient(name="Ann", stuck=False)]).recover(team.trajectory)
    assert said(run) == ["Ann: looked", "Ann: at last"]
    assert done == ["run/Ann/1", "run/Ann/2", "run/Ann/2"]


async def test_a_timeout_that_role_code_catches_is_replayed_without_waiting() -> None:
    class Calm(Patient):
        async def _act(self) -> Any:
            try:
                return await super()._act()
            except ActionTimeout as error:
                return f"gave up: {error}"

    team = Team([Calm(name="Ann")])
    run = await team.run("go")
    assert run.message is not None
    assert run.message.content.startswith("gave up: Action 'Slow'")
    done.clear()
    assert written(await team.replay(run)) == written(run)
    assert not done


async def test_a_time_out_of_the_actions_own_is_not_taken_for_its_limit() -> None:
    class Impatient(Action):
        timeout = 60.0

        async def run(self) -> None:
            raise TimeoutError("the server's")

    with pytest.raises(TimeoutError, match="the server's"):
        await Team([Role(name="Ann", actions=[Impatient])]).run("go")


# --- an action that is cancelled half-way ----------------------------------------------------


class Wait(Action):
    async def run(self) -> str:
        done.append(idempotency_key())
        await self.role.gate()
        return "waited"


class Waiter(Role):
    actions = [Look, Wait]
    entered: asyncio.Event | None = None

    async def gate(self) -> None:
        if self.entered is not None:
            self.entered.set()
            await asyncio.Event().wait()


def waiters(entered: asyncio.Event | None = None, **options: Any) -> Team:
    ann = Waiter(name="Ann", entered=entered)
    return Team([ann, Role(name="Bob", actions=[Look])], **options)


async def cancelled(team: Team, entered: asyncio.Event) -> None:
    running = asyncio.create_task(team.run("go"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    team.close()


async def test_an_action_cancelled_half_way_is_recorded_as_that(tmp_path: Path) -> None:
    entered = asyncio.Event()
    team = waiters(entered)
    await cancelled(team, entered)
    (end,) = team.trajectory.of("action_result")
    assert end.data == {"cancelled": True}
    assert end.cause is not None
    assert team.trajectory.events[end.cause].data["action"] == "Wait"
    assert team.trajectory.stop_reason == "cancelled"


async def test_a_cancelled_run_goes_on_at_the_cancelled_action(tmp_path: Path) -> None:
    entered = asyncio.Event()
    await cancelled(waiters(entered, journal=tmp_path / "run.jsonl"), entered)
    run = await waiters().recover(tmp_path / "run.jsonl")
    assert said(run) == ["Ann: looked", "Ann: waited", "Bob: looked"]
    assert sorted(done) == ["run/Ann/1", "run/Ann/2", "run/Ann/2", "run/Bob/1"]
    (resumed,) = run.trajectory.of("resume")
    assert resumed.data == {"after": "cancelled"}


async def test_cancelled_half_way_what_must_not_be_done_twice_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Wait, "repeat", "never")
    entered = asyncio.Event()
    team = waiters(entered)
    await cancelled(team, entered)
    with pytest.raises(OutcomeUnknown, match="'Wait' of role 'Ann'"):
        await waiters().recover(team.trajectory)
    run = await waiters().recover(team.trajectory, on_unknown=lambda error: "waited, I think")
    assert said(run)[1] == "Ann: waited, I think"
    assert done.count("run/Ann/2") == 1


# --- the record ------------------------------------------------------------------------------


async def test_a_run_that_came_to_its_end_is_only_brought_back(tmp_path: Path) -> None:
    team = office(Service(answers=9), journal=tmp_path / "run.jsonl")
    whole = await team.run("go")
    team.close()
    before = (tmp_path / "run.jsonl").read_bytes()
    done.clear()
    again = office()
    run = await again.recover(tmp_path / "run.jsonl")
    again.close()
    assert (run.stop, run.message) == (whole.stop, whole.message)
    assert written(run) == written(whole)
    assert (tmp_path / "run.jsonl").read_bytes() == before
    assert not (tmp_path / "run.jsonl.pending").exists()
    assert not done


async def test_one_that_was_brought_back_can_be_given_more_to_do(tmp_path: Path) -> None:
    service = Service(answers=9)
    team = office(service, journal=tmp_path / "run.jsonl")
    await team.run("go")
    again = office(service)
    team.close()
    await again.recover(tmp_path / "run.jsonl")
    run = await again.run("more")
    assert said(run) == [*WHOLE, "user: more", *WHOLE]
    assert written(await again.replay(run)) == written(run)


async def test_rounds_bound_what_is_still_played(tmp_path: Path) -> None:
    service = Service(answers=9)
    team = office(service)
    run = await team.run("go", rounds=1)
    assert (run.stop, said(run)) == ("rounds", WHOLE[:3])
    run = await office(service).recover(run, rounds=1)
    assert said(run) == WHOLE
    assert [event.data for event in run.trajectory.of("resume")] == [{"after": "rounds"}]


async def test_the_bound_of_a_failed_run_is_still_its_bound() -> None:
    service = Service(answers=1)
    team = office(service)
    with pytest.raises(ModelUnavailable):
        await team.run("go", rounds=1)
    service.up()
    run = await office(service).recover(team.trajectory)
    assert (run.stop, said(run)) == ("rounds", WHOLE[:3])


async def test_a_team_of_other_roles_is_refused_and_spoils_nothing(tmp_path: Path) -> None:
    service = Service(answers=1)
    team = office(service, journal=tmp_path / "run.jsonl")
    with pytest.raises(ModelUnavailable):
        await team.run("go")
    team.close()
    stranger = Team([Role(name="Zoe", actions=[Look])])
    with pytest.raises(UsageError, match=r"roles \['Ann', 'Bob', 'Cy'\]; this team has 'Zoe'"):
        await stranger.recover(tmp_path / "run.jsonl")
    stranger.close()
    service.up()
    done.clear()
    assert said(await office(service).recover(tmp_path / "run.jsonl")) == WHOLE
    assert done == ["run/Ann/2", "run/Cy/1"]


async def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such journal"):
        await office().recover(tmp_path / "nothing.jsonl")
    (tmp_path / "text.jsonl").write_text("hello\n")
    with pytest.raises(TraceError, match="line 1"):
        await office().recover(tmp_path / "text.jsonl")
