"""Message protocols: what they forbid is said to the sender, recorded, and heard by nobody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from rolecraft import Action, Environment, FunctionModel, Message, Role, UserRequirement, annotate
from rolecraft.errors import ProtocolViolation, UsageError
from rolecraft.roles.remedies import KeepsProtocol, May, MessageProtocol
from rolecraft.roles.remedies.protocol import complaints


class Plan(BaseModel):
    steps: list[str]


class Report(BaseModel):
    done: list[str]


class WritePlan(Action):
    async def run(self, history: Sequence[Message]) -> Plan:
        answer = await self.ask("\n".join(["plan", *complaints(history)]))
        return Plan(steps=answer.split())


class WriteReport(Action):
    async def run(self) -> Report | Plan | Message:
        answer = await self.ask("report")
        if answer == "plan":
            return Plan(steps=[])
        if answer == "nobody":
            return Message("", instruct_content=Report(done=[]), send_to="<none>")
        return Report(done=answer.split())


def as_planned(report: Report, before: Sequence[Message]) -> str | None:
    plans = [m.instruct_content for m in before if isinstance(m.instruct_content, Plan)]
    extra = set(report.done) - set(plans[-1].steps)
    return f"{', '.join(sorted(extra))} was not planned" if extra else None


RULES = [
    May("Ann", WritePlan, Plan, answers=[UserRequirement]),
    May("Bob", WriteReport, Report, answers=[WritePlan], send_to=["<all>"], consistent=as_planned),
]
PROTOCOL = MessageProtocol(RULES)


class Ann(KeepsProtocol):
    actions = [WritePlan]


class Bob(KeepsProtocol):
    actions = [WriteReport]
    watch = [WritePlan]


async def said_by(
    *answers: str, protocol: MessageProtocol = PROTOCOL, roles: Sequence[Role] | None = None
) -> Environment:
    """A run of Ann and Bob; Ann plans `a b`, Bob gives the answers in turn."""
    left = list(answers)
    model = FunctionModel(lambda call: "a b" if call.role == "Ann" else left.pop(0))
    team = [Ann(protocol=protocol), Bob(protocol=protocol)] if roles is None else roles
    env = Environment(team, model=model)
    env.publish_message("go")
    await env.run()
    env.stop("idle")
    return env


def violations(env: Environment) -> list[str]:
    return [event.content for event in env.trajectory.of("verify")]


async def test_what_keeps_the_protocol_goes_out_as_without_one() -> None:
    with_one = await said_by("a")
    without = await said_by("a", roles=[Ann(), Bob()])
    assert [e.data for e in with_one.trajectory.events] == [
        e.data for e in without.trajectory.events
    ]
    assert PROTOCOL.violations(with_one.trajectory) == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("plan", "WriteReport must carry Report, got Plan"),
        ("nobody", "WriteReport goes to everyone, and this goes to nobody"),
        ("a c", "c was not planned"),
    ],
)
async def test_what_breaks_it_is_recorded_told_and_done_again(answer: str, problem: str) -> None:
    env = await said_by(answer, "b")
    assert violations(env) == [problem]
    _, *messages = [event.data.get("instruct_content") for event in env.trajectory.of("message")]
    assert messages == [{"steps": ["a", "b"]}, {"done": ["b"]}]
    told = complaints(env.get_role("Bob").rc.history[:-1])
    assert told == [f"That could not be sent: {problem}. Do it again so that it can."]


async def test_a_role_that_goes_on_ends_the_run_and_nobody_has_heard_it() -> None:
    with pytest.raises(ProtocolViolation, match="c was not planned") as caught:
        await said_by("c", "a c")
    assert (caught.value.role, caught.value.problem) == ("Bob", "c was not planned")


async def test_a_protocol_can_only_report() -> None:
    protocol = MessageProtocol(RULES, on_violation="report")
    env = await said_by("a c", protocol=protocol)
    assert violations(env) == ["c was not planned"]
    assert [event.role for event in env.trajectory.of("message")] == ["user", "Ann", "Bob"]


async def test_the_failure_taxonomy_sees_a_violation_as_one_of_the_roles_specification() -> None:
    env = await said_by("a c", "a")
    report = await annotate(env.trajectory)
    (found,) = [f for f in report.findings if f.mode == "role_spec" and f.verdict == "present"]
    assert (found.role, found.source) == ("Bob", "environment")


async def test_a_record_can_be_checked_whose_roles_kept_no_protocol() -> None:
    env = await said_by("a c", roles=[Ann(), Bob()])
    (violation,) = PROTOCOL.violations(env.trajectory)
    assert (violation.role, violation.problem) == ("Bob", "c was not planned")
    assert env.trajectory.events[violation.event].role == "Bob"


async def test_kinds_of_work_are_for_those_who_are_named() -> None:
    class Busy(KeepsProtocol):
        name = "Bob"
        actions = [WritePlan]

    with pytest.raises(ProtocolViolation, match="WritePlan is for Ann, not for Bob"):
        await said_by("a", "b", roles=[Busy(protocol=PROTOCOL)])


async def test_a_kind_of_work_that_the_protocol_does_not_have_is_for_nobody() -> None:
    class Chat(Action):
        async def run(self) -> str:
            return "lovely weather"

    class Chatty(KeepsProtocol):
        actions = [Chat]

    with pytest.raises(ProtocolViolation, match="the protocol has no Chat"):
        await said_by(roles=[Chatty(protocol=PROTOCOL)])


async def test_an_answer_must_answer_what_it_is_for() -> None:
    class Eager(Bob):
        name = "Bob"
        watch = [UserRequirement]

    protocol = MessageProtocol([May("Bob", WriteReport, Report, answers=[WritePlan])])
    with pytest.raises(
        ProtocolViolation, match="WriteReport answers WritePlan, and this answers UserRequirement"
    ):
        await said_by("a", "a", roles=[Eager(protocol=protocol)])


async def test_what_an_action_says_besides_its_result_is_held_against_it_too() -> None:
    class Aside(WriteReport):
        async def run(self) -> None:
            self.role.publish_message(Message("by the way"))

    class Talkative(Bob):
        name = "Bob"
        actions = [Aside]

    protocol = MessageProtocol([RULES[0], May("Bob", Aside, Report)])
    with pytest.raises(ProtocolViolation, match="Aside must carry Report, got no document"):
        await said_by(roles=[Ann(protocol=protocol), Talkative(protocol=protocol)])


async def test_further_checks_look_at_every_message() -> None:
    protocol = MessageProtocol(
        RULES, checks=[lambda said: "Bob is silent" if said.sender == "Bob" else None]
    )
    with pytest.raises(ProtocolViolation, match="Bob is silent"):
        await said_by("a", "a", protocol=protocol)


async def test_of_several_rules_for_one_kind_one_must_hold() -> None:
    protocol = MessageProtocol([*RULES, May("Bob", WriteReport, Plan, answers=[WritePlan])])
    env = await said_by("plan", protocol=protocol)
    assert violations(env) == []


async def test_what_another_says_in_the_same_round_was_not_heard() -> None:
    """Checked afterwards, a record is judged by what its roles could know."""

    class Second(Bob):
        name = "Bob"
        actions = [WriteReport]

    class Replan(Action):
        async def run(self) -> Plan:
            return Plan(steps=["z"])

    team = [Ann(), Role(name="Zoe", actions=[Replan], watch=[WritePlan]), Second()]
    env = await said_by("a", roles=team)
    order = [event.role for event in env.trajectory.of("message")]
    assert order == ["user", "Ann", "Zoe", "Bob"]
    protocol = MessageProtocol([*RULES, May("Zoe", Replan, Plan)])
    assert protocol.violations(env.trajectory) == []


@pytest.mark.parametrize("wrong", [{"on_violation": "Block"}, {"retries": -1}])
def test_a_protocol_that_would_let_everything_pass_by_mistake_is_refused(wrong: dict) -> None:
    with pytest.raises(UsageError, match="`on_violation` is one of"):
        MessageProtocol(RULES, **wrong)
