"""An action that wants a person's permission is not begun before it is given, and done once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Message, Role, Run, ScriptedModel, Team, Trajectory
from rolecraft.actions import idempotency_key, tool
from rolecraft.errors import ApprovalDenied, ApprovalNeeded, UnexpectedModelCall, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.trajectories import Event
from rolecraft.trajectories.codec import encode_event

PROGRAM = Path(__file__).with_name("asking_team.py")

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


class Pay(Action):
    """Transfer money."""

    approval = True

    amount: int

    async def run(self) -> str:
        done.append(idempotency_key())
        return f"paid {self.amount}"


class Look(Action):
    async def run(self) -> str:
        done.append(idempotency_key())
        return "looked"


class Thank(Action):
    async def run(self, history: Any) -> str:
        return f"thanks, {history[-1].content}"


def clerks(**options: Any) -> Team:
    """Ann pays, Bob looks in the same round; Cy hears of the payment."""
    return Team(
        [
            Role(name="Ann", actions=[Look, Pay(amount=5)]),
            Role(name="Bob", actions=[Look]),
            Role(name="Cy", actions=[Thank], watch=[Pay]),
        ],
        **options,
    )


KEY = "run/Ann/2"


def written(run: Run) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def said(run: Run) -> list[str]:
    return [f"{event.role}: {event.content}" for event in run.trajectory.of("message")][1:]


def approvals(run: Run) -> list[tuple[Any, ...]]:
    return [
        (event.role, event.data["granted"], event.data.get("by"))
        for event in run.trajectory.of("approval")
    ]


# --- nobody there ----------------------------------------------------------------------------


async def test_with_nobody_there_the_run_stops_and_says_what_waits() -> None:
    run = await clerks().run("go")
    assert run.stop == "approval"
    (waiting,) = run.approvals
    assert (waiting.role, waiting.data["action"], waiting.data["key"]) == ("Ann", "Pay", KEY)
    assert waiting.content == "Pay(amount=5) Transfer money."
    assert done == ["run/Ann/1", "run/Bob/1"]


async def test_what_the_others_did_in_that_round_is_committed() -> None:
    run = await clerks().run("go")
    assert said(run) == ["Ann: looked", "Bob: looked"]


async def test_once_allowed_it_goes_on_and_repeats_nothing() -> None:
    team = clerks()
    waiting = await team.run("go")
    run = await team.recover(waiting, approve={KEY: True})
    assert done == ["run/Ann/1", "run/Bob/1", KEY]
    assert said(run) == ["Ann: looked", "Ann: paid 5", "Bob: looked", "Cy: thanks, paid 5"]
    assert (run.stop, run.approvals) == ("idle", [])


async def test_the_decision_and_the_going_on_are_recorded() -> None:
    team = clerks()
    run = await team.recover(await team.run("go"), approve={KEY: True})
    assert approvals(run) == [("Ann", True, "a decision given beforehand")]
    (resumed,) = run.trajectory.of("resume")
    assert resumed.data == {"after": "approval", "approve": {KEY: True}}


async def test_going_on_without_a_decision_still_waits() -> None:
    team = clerks()
    waiting = await team.run("go")
    again = await team.recover(waiting)
    assert again.stop == "approval"
    assert [event.data["key"] for event in again.approvals] == [KEY]
    assert done == ["run/Ann/1", "run/Bob/1"]
    run = await team.recover(again, approve={KEY: True})
    assert run.stop == "idle"
    assert done.count(KEY) == 1


async def test_a_decision_about_something_else_names_what_waits() -> None:
    team = clerks()
    waiting = await team.run("go")
    with pytest.raises(UsageError, match=f"No action waits under the key .* Waiting: '{KEY}'"):
        await team.recover(waiting, approve={"run/Ann/1": True})
    with pytest.raises(UsageError, match=r"wants decisions by key.* got 'no'"):
        await team.recover(waiting, approve={KEY: "no"})
    assert KEY not in done
    assert (await team.recover(waiting, approve={KEY: True})).stop == "idle"


async def test_two_that_wait_are_decided_one_by_one() -> None:
    def team() -> Team:
        return Team([Role(name=name, actions=[Pay(amount=5)]) for name in ("Ann", "Bob")])

    waiting = await team().run("go")
    assert [event.role for event in waiting.approvals] == ["Ann", "Bob"]
    half = await team().recover(waiting, approve={"run/Bob/1": True})
    assert [event.role for event in half.approvals] == ["Ann"]
    assert done == ["run/Bob/1"]
    run = await team().recover(half, approve={"run/Ann/1": True})
    assert run.stop == "idle"
    assert done == ["run/Bob/1", "run/Ann/1"]


async def test_a_role_alone_waits_by_an_error_that_says_how_to_go_on() -> None:
    ann = Role(name="Ann", actions=[Pay(amount=5)])
    with pytest.raises(ApprovalNeeded, match=r"needs permission: Pay\(amount=5\)") as caught:
        await ann.run("go")
    assert (caught.value.role, caught.value.action) == ("Ann", "Pay")
    assert not done


# --- a person denies -------------------------------------------------------------------------


async def test_what_is_denied_is_not_done_and_raises() -> None:
    team = clerks()
    waiting = await team.run("go")
    with pytest.raises(ApprovalDenied, match="'Pay' of role 'Ann' was not allowed by a decision"):
        await team.recover(waiting, approve={KEY: False})
    assert KEY not in done
    assert team.trajectory.stop_reason == "error"


async def test_role_code_may_take_a_denial_as_an_answer() -> None:
    class Careful(Role):
        async def _act(self) -> Message | None:
            try:
                return await super()._act()
            except ApprovalDenied as error:
                return Message(f"{error}")

    team = Team([Careful(name="Ann", actions=[Pay(amount=5)])])
    waiting = await team.run("go")
    run = await team.recover(waiting, approve={"run/Ann/1": False})
    assert run.message is not None
    assert run.message.content == (
        "Action 'Pay' of role 'Ann' was not allowed by a decision given beforehand."
    )
    assert written(await team.replay(run)) == written(run)


# --- somebody is asked -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("answer", [True, False])
async def test_an_approver_is_asked_at_once(kind: str, answer: bool) -> None:
    asked: list[str] = []

    def approver(error: ApprovalNeeded) -> bool:
        asked.append(f"{error.role} {error.action} {error.key}: {error.request}")
        return answer

    async def later(error: ApprovalNeeded) -> bool:
        return approver(error)

    team = clerks(approver=approver if kind == "sync" else later)
    if answer:
        run = await team.run("go")
        assert approvals(run) == [("Ann", True, "approver")]
        assert written(await team.replay(run)) == written(run)
    else:
        with pytest.raises(ApprovalDenied, match="was not allowed by approver"):
            await team.run("go")
    assert asked == ["Ann Pay run/Ann/2: Pay(amount=5) Transfer money."], "nor in the replay"
    assert (KEY in done) is answer


async def test_a_decision_that_is_given_already_is_not_asked_for() -> None:
    waiting = await clerks().run("go")
    asked: list[ApprovalNeeded] = []
    team = clerks(approver=lambda error: bool(asked.append(error)))
    run = await team.recover(waiting, approve={KEY: True})
    assert run.stop == "idle"
    assert not asked


# --- tools -----------------------------------------------------------------------------------


@tool(approval=True)
async def transfer(amount: int) -> str:
    """Transfer money."""
    done.append(idempotency_key())
    return f"transferred {amount}"


def teller(**options: Any) -> Team:
    calls = Completion(text="", tool_calls=[ToolCall("transfer", {"amount": 7}, "1")])
    model = FunctionModel(
        lambda call: calls if len(call.messages) == 1 else call.messages[-1].content
    )
    return Team([Role(name="Tess", tools=[transfer], model=model)], **options)


async def test_a_tool_waits_too_and_its_model_is_not_asked_again() -> None:
    waiting = await teller().run("go")
    assert waiting.stop == "approval"
    (asked,) = waiting.approvals
    assert asked.content == "transfer(amount=7) Transfer money."
    team = teller()
    run = await team.recover(waiting, approve={asked.data["key"]: True})
    assert run.message is not None
    assert run.message.content == "transferred 7"
    assert done == [asked.data["key"]] == ["run/Tess/1.1"]
    assert len(team.roles["Tess"].model.calls) == 1, "only the answer to the result"
    assert written(await team.replay(run)) == written(run)


async def test_a_model_hears_that_its_tool_was_denied() -> None:
    run = await teller(approver=lambda error: False).run("go")
    assert run.stop == "idle"
    assert run.message is not None
    assert run.message.content == (
        "Error: Action 'transfer' of role 'Tess' was not allowed by approver."
    )
    (result,) = run.trajectory.of("tool_result")
    assert (result.data["ok"], result.data["type"]) == (False, "ApprovalDenied")
    assert not done
    assert written(await teller().replay(run)) == written(run)


# --- replay, other processes -----------------------------------------------------------------


async def test_a_run_that_waits_is_replayed_to_where_it_waits() -> None:
    run = await clerks().run("go")
    done.clear()
    again = await clerks(approver=lambda error: True).replay(run)
    assert written(again) == written(run)
    assert again.stop == "approval"
    assert not done


async def test_a_run_that_went_on_is_replayed_whole() -> None:
    team = clerks()
    run = await team.recover(await team.run("go"), approve={KEY: True})
    done.clear()
    assert written(await team.replay(run)) == written(run)
    assert not done


async def test_a_limit_on_the_model_does_not_hide_who_waits() -> None:
    """A fault of another role in the round is raised; what waits is asked for when it goes on."""

    class Ask(Action):
        async def run(self) -> str:
            return await self.ask("?")

    def team(*replies: str) -> Team:
        roles = [Role(name="Ann", actions=[Pay(amount=5)]), Role(name="Bob", actions=[Ask])]
        return Team(roles, model=ScriptedModel(replies))

    first = team()
    with pytest.raises(UnexpectedModelCall):
        await first.run("go")
    waiting = await team("yes").recover(first.trajectory.copy())
    assert waiting.stop == "approval"
    assert said(waiting) == ["Bob: yes"]
    run = await team().recover(waiting, approve={"run/Ann/1": True})
    assert said(run) == ["Ann: paid 5", "Bob: yes"]


def process(*words: object) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def test_a_later_process_goes_on_with_what_a_person_allowed(tmp_path: Path) -> None:
    """Nothing is kept in memory: three processes, one journal, every effect once."""
    waits = {"stop": "approval", "waiting": [["Ann", KEY, "Pay(amount=5) Transfer money."]]}
    assert process(tmp_path, "run") == waits
    effects = tmp_path / "effects"
    assert sorted(effects.read_text().split("\n")) == ["", "run/Ann/1 looked", "run/Bob/1 looked"]
    assert process(tmp_path, "recover") == waits
    assert process(tmp_path, "recover", f"{KEY}=yes") == {"stop": "idle", "waiting": []}
    assert effects.read_text().splitlines()[2:] == [f"{KEY} paid 5", "run/Ann/3 looked"]
    assert process(tmp_path, "recover") == {"stop": "idle", "waiting": []}
    assert len(effects.read_text().splitlines()) == 4
    kinds = [event.kind for event in Trajectory.load(tmp_path / "run.jsonl").events]
    assert kinds.count("approval") == 1
    assert kinds.count("resume") == 2, "each time that it went on"
    assert not (tmp_path / "run.jsonl.pending").exists()


async def test_an_event_of_permission_names_the_action_that_asked() -> None:
    run = await clerks().run("go")
    events: list[Event] = run.trajectory.events
    (asked,) = run.approvals
    assert asked.cause is not None
    assert events[asked.cause].data["action"] == "Pay"
