"""Roles that call tools: every call gets one result, and what a model can mend goes back to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from rolecraft import Action, Environment, Limits, Message, Role, ScriptedModel
from rolecraft.actions import tool
from rolecraft.errors import (
    ActionLimitReached,
    ApprovalNeeded,
    LimitReached,
    StepLimitReached,
    ToolError,
    UnexpectedModelCall,
    UsageError,
)
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.roles import UseTools
from rolecraft.trajectories.codec import encode_event


@tool(parallel=True)
async def read_register(name: str) -> int:
    """Read one register.

    Args:
        name: a letter.
    """
    return {"a": 1, "b": 2}[name]


@tool
def lookup(word: str, limit: int = 3) -> list[str]:
    """Find a word."""
    return [word] * limit


class Clerk(Role):
    tools = [read_register, lookup]


def asks(*calls: ToolCall | tuple[str, dict[str, Any]]) -> Completion:
    """An answer that calls these tools, with ids "1", "2", …"""
    made = [
        call if isinstance(call, ToolCall) else ToolCall(*call, str(number))
        for number, call in enumerate(calls, 1)
    ]
    return Completion(text="", tool_calls=made, finish_reason="tool_calls")


def told(model: FunctionModel, call: int = -1) -> list[str]:
    """What the model was told last when it was asked this time: the results of tools."""
    return [message.content for message in model.calls[call].messages if message.role == "tool"]


# --- the conversation -------------------------------------------------------------------------


async def test_a_role_with_tools_needs_nothing_else() -> None:
    model = ScriptedModel([asks(("read_register", {"name": "b"})), "It holds 2."])
    message = await Clerk(model=model).run("What does b hold?")
    assert str(message) == "Clerk: It holds 2."
    first, second = model.calls
    assert [spec.name for spec in first.tools] == ["read_register", "lookup"]
    assert first.tools[0].parameters["properties"]["name"]["description"] == "a letter."
    assert [(m.role, m.content) for m in second.messages] == [
        ("user", "What does b hold?"),
        ("assistant", ""),
        ("tool", "2"),
    ]
    assert second.messages[-1].metadata == {"tool_call_id": "1"}


async def test_results_come_in_the_order_of_the_calls_and_as_json() -> None:
    model = ScriptedModel(
        [
            asks(
                ("lookup", {"word": "ä", "limit": 1}),
                ("read_register", {"name": "a"}),
                ("lookup", {"word": "b", "limit": 0}),
            ),
            "Done.",
        ]
    )
    await Clerk(model=model).run("go")
    assert told(model) == ['["ä"]', "1", "[]"]


async def test_the_model_is_asked_as_often_as_it_calls() -> None:
    model = ScriptedModel(
        [asks(("read_register", {"name": "a"})), asks(("read_register", {"name": "b"})), "3"]
    )
    role = Clerk(model=model)
    assert str(await role.run("a + b?")) == "Clerk: 3"
    assert told(model) == ["1", "2"]
    assert [event.kind for event in role.trajectory.events] == [
        "message",
        "action",
        "model_call",
        "tool_call",
        "tool_result",
        "model_call",
        "tool_call",
        "tool_result",
        "model_call",
        "message",
    ]


async def test_later_runs_know_what_was_said_before_with_the_roles_own_words_as_its() -> None:
    model = ScriptedModel(["Hello.", "As I said."])
    role = Clerk(model=model)
    await role.run("Hi")
    role.put_message(Message("Be brief", role="Boss", sent_from="Boss"))
    await role.run("Again")
    assert [(m.role, m.content) for m in model.calls[1].messages] == [
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "Boss: Be brief"),
        ("user", "Again"),
    ]


async def test_what_the_role_itself_said_last_is_put_to_the_model_as_anothers_words() -> None:
    """Some models refuse a conversation that ends with their own turn."""

    class Draft(Action):
        async def run(self) -> str:
            return "a draft"

    model = ScriptedModel(["better"])
    await Clerk(model=model, actions=[Draft, UseTools]).run("Write")
    last = model.calls[0].messages[-1]
    assert (last.role, last.content) == ("user", "Clerk: a draft")


async def test_tools_beside_actions_are_for_the_action_that_uses_them() -> None:
    class Thank(Action):
        async def run(self, history: Sequence[Message]) -> str:
            return f"Thanks for: {history[-1].content}"

    model = ScriptedModel([asks(("read_register", {"name": "a"})), "1"])
    role = Clerk(model=model, actions=[UseTools(max_steps=2), Thank])
    assert str(await role.run("a?")) == "Clerk: Thanks for: 1"
    assert [action.name for action in Clerk().actions] == ["UseTools"]
    assert Role(name="Ann").actions == ()


async def test_tools_can_be_given_set_and_changed_while_the_role_runs() -> None:
    """The next call of the model offers what the role has then."""

    @tool(repeat="freely")
    def shelf(here: Action) -> str:
        """Open the shelf."""
        here.role.tools = [*here.role.tools, lookup]
        return "open"

    model = ScriptedModel([asks(("shelf", {})), asks(("lookup", {"word": "x", "limit": 1})), "ok"])
    role = Role(tools=[shelf], model=model)
    await role.run("go")
    assert [[spec.name for spec in call.tools] for call in model.calls] == [
        ["shelf"],
        ["shelf", "lookup"],
        ["shelf", "lookup"],
    ]
    assert told(model) == ["open", '["x"]']


async def test_one_tool_can_be_several_roles() -> None:
    """The class's list is shared; each call belongs to the role that makes it."""

    @tool
    async def who(here: Action) -> str:
        await asyncio.sleep(0)
        return str(here.role.name)

    class Asker(Role):
        tools = [who]

    model = ScriptedModel(per_role={name: [asks(("who", {})), "done"] for name in "AB"})
    env = Environment([Asker(name="A"), Asker(name="B")], model=model)
    env.publish_message("go")
    await env.run()
    results = [(event.role, event.content) for event in env.trajectory.of("tool_result")]
    assert results == [("A", "A"), ("B", "B")]


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([lookup, tool(name="lookup")(read_register.function)], "Two tools are named 'lookup'"),
        ([lookup.function], r"`tools` holds <function lookup.*make one with `@tool`"),
        ([UseTools], r"`tools` holds <class .*UseTools.*put an action into `actions`"),
    ],
)
def test_what_is_no_set_of_tools_is_refused(tools: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Role(tools=tools)


# --- errors that the model can mend -----------------------------------------------------------


@tool
def fail() -> None:
    """Raises."""
    raise ValueError("no such page")


@tool
async def refuse() -> None:
    """Says why not."""
    raise ToolError("The shelf is locked; ask for `key` first.")


@tool(timeout=0.01)
async def hang() -> None:
    """Never returns."""
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            ("nothing", {}),
            "Error: `nothing` was called wrongly: Tool 'nothing' is not known. Known",
        ),
        (("lokup", {"word": "a"}), "Did you mean 'lookup'?"),
        (("lookup", {}), "Error: `lookup` was called wrongly: `word` is missing. Its parameters:"),
        (("lookup", {"word": "a", "limit": "x"}), "`limit`: Input should be a valid integer"),
        (("lookup", {"word": "a", "self": 1}), "`self` is no parameter"),
        (
            ToolCall("lookup", {}, "1", incomplete=True, raw='{"word": "a'),
            'its arguments are no JSON object: \'{"word": "a\'',
        ),
        (("fail", {}), "Error: ValueError: no such page"),
        (("refuse", {}), "Error: The shelf is locked; ask for `key` first."),
        (("hang", {}), "Error: Action 'hang' of role 'Clerk' did not end within 0.01 s"),
    ],
)
async def test_what_the_model_can_mend_goes_back_to_it(call: Any, text: str) -> None:
    model = ScriptedModel([asks(call), "Sorry."])
    role = Clerk(model=model, tools=[lookup, fail, refuse, hang])
    assert str(await role.run("go")) == "Clerk: Sorry."
    (error,) = told(model)
    assert text in error
    (called,) = role.trajectory.of("tool_call")
    (result,) = role.trajectory.of("tool_result")
    assert (result.data["ok"], result.cause) == (False, called.seq)
    assert result.content
    assert result.content in error
    assert not list(role.trajectory.of("error"))


async def test_a_failing_call_leaves_those_beside_and_after_it_alone() -> None:
    calls = [("read_register", {"name": name}) for name in "azb"]
    model = ScriptedModel([asks(*calls, ("fail", {}), ("lookup", {"word": "x", "limit": 1})), "ok"])
    await Clerk(model=model, tools=[read_register, fail, lookup]).run("go")
    assert told(model) == [
        "1",
        "Error: KeyError: 'z'",
        "2",
        "Error: ValueError: no such page",
        '["x"]',
    ]


async def test_a_call_that_a_person_refuses_is_told_to_the_model() -> None:
    paid = []

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay.

        In euros.
        """
        paid.append(amount)
        return "paid"

    requests = []

    def allow(asked: ApprovalNeeded) -> bool:
        requests.append(asked.request)
        return "amount=5)" in asked.request

    model = ScriptedModel([asks(("pay", {"amount": 500}), ("pay", {"amount": 5})), "ok"])
    env = Environment([Role(name="Ann", tools=[pay])], model=model, approver=allow)
    env.publish_message("go")
    await env.run()
    assert requests == ["pay(amount=500) Pay.", "pay(amount=5) Pay."]
    assert paid == [5]
    refused, done = told(model)
    assert refused.startswith("Error: Action 'pay' of role 'Ann' was not allowed")
    assert done == "paid"


# --- what ends the run ------------------------------------------------------------------------


async def test_a_model_that_calls_tools_without_end_is_stopped() -> None:
    model = FunctionModel(lambda call: asks(("read_register", {"name": "a"})))
    role = Clerk(model=model, actions=[UseTools(max_steps=3)])
    with pytest.raises(
        StepLimitReached, match=r"'UseTools' of role 'Clerk' asked its model 3"
    ) as e:
        await role.run("go")
    assert (e.value.role, e.value.action, e.value.steps) == ("Clerk", "UseTools", 3)
    assert len(model.calls) == len(list(role.trajectory.of("tool_result"))) == 3


async def test_a_limit_that_a_tool_crosses_ends_the_run() -> None:
    @tool
    async def think(here: Action) -> str:
        return await here.ask("Think")

    model = ScriptedModel([asks(("think", {}), ("think", {})), "Hm."])
    env = Environment([Role(name="Ann", tools=[think])], model=model, limits=Limits(calls=2))
    env.publish_message("go")
    with pytest.raises(LimitReached, match="calls"):
        await env.run()
    assert [event.content for event in env.trajectory.of("tool_result")] == ["Hm."]


async def test_a_fault_of_the_program_ends_the_run() -> None:
    """The model could do nothing about it, and must not learn to live with it."""

    @tool
    def wrong() -> Any:
        return object()

    @tool
    async def script(here: Action) -> str:
        return await here.ask("The script is used up")

    for broken, kind in ((wrong, UsageError), (script, UnexpectedModelCall)):
        role = Role(model=ScriptedModel([asks((broken.name, {}))]), tools=[broken])
        with pytest.raises(kind):
            await role.run("go")
        assert [event.data["type"] for event in role.trajectory.of("error")] == [kind.__name__]


async def test_the_action_limit_holds_for_calls_too() -> None:
    calls = [("read_register", {"name": "a"})] * 5
    role = Clerk(model=ScriptedModel([asks(*calls)]), max_actions=3)
    with pytest.raises(ActionLimitReached, match="started 3 actions in one run"):
        await role.run("go")
    assert [event.content for event in role.trajectory.of("tool_result")] == ["1", "1"]


async def test_a_run_cancelled_half_way_cancels_what_its_tools_do() -> None:
    begun, ended = asyncio.Event(), []

    @tool(parallel=True)
    async def wait(name: str) -> None:
        if name == "b":
            begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    role = Role(
        model=ScriptedModel([asks(("wait", {"name": "a"}), ("wait", {"name": "b"}))]), tools=[wait]
    )
    run = asyncio.create_task(role.run("go"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert sorted(ended) == ["a", "b"]


# --- side by side -----------------------------------------------------------------------------


class Meeting:
    """Tools that note who is inside together with whom."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.seen: list[frozenset[str]] = []

    async def enter(self, name: str) -> str:
        self.inside.add(name)
        for _ in range(3):
            await asyncio.sleep(0)
        self.seen.append(frozenset(self.inside))
        self.inside.discard(name)
        return name


async def test_only_consecutive_parallel_tools_run_side_by_side() -> None:
    meeting = Meeting()
    beside = tool(name="beside", parallel=True)(meeting.enter)
    alone = tool(name="alone")(meeting.enter)
    order = [("beside", "a"), ("beside", "b"), ("alone", "c"), ("alone", "d"), ("beside", "e")]
    model = ScriptedModel([asks(*((name, {"name": who}) for name, who in order)), "ok"])
    await Role(model=model, tools=[beside, alone]).run("go")
    assert told(model) == list("abcde")
    assert set(meeting.seen) == {
        frozenset("ab"),
        frozenset("b"),
        frozenset("c"),
        frozenset("d"),
        frozenset("e"),
    }


async def test_a_fatal_error_beside_others_waits_for_them_and_comes_out() -> None:
    """What was begun has its effects; its results are in the record."""
    done: list[str] = []

    @tool(parallel=True)
    async def slow() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append("slow")
        return "slow"

    @tool(parallel=True)
    async def broken() -> None:
        raise UsageError("mine")

    role = Role(model=ScriptedModel([asks(("broken", {}), ("slow", {}))]), tools=[slow, broken])
    with pytest.raises(UsageError, match="mine"):
        await role.run("go")
    assert done == ["slow"]
    assert [event.content for event in role.trajectory.of("tool_result")] == ["slow"]


async def test_the_record_is_the_same_however_long_parallel_tools_take() -> None:
    """Each has its place in the order of the calls, with all that it records."""

    def record(yields: Callable[[], int]) -> Awaitable[list[bytes]]:
        @tool(parallel=True)
        async def work(name: str, here: Action) -> str:
            for _ in range(yields()):
                await asyncio.sleep(0)
            here.record_check(name, passed=True)
            for _ in range(yields()):
                await asyncio.sleep(0)
            if name == "c":
                raise KeyError(name)
            return name

        async def run() -> list[bytes]:
            model = ScriptedModel([asks(*(("work", {"name": name}) for name in "abcd")), "ok"])
            env = Environment([Role(name="Ann", tools=[work])], model=model)
            env.publish_message("go")
            await env.run()
            return [encode_event(event) for event in env.trajectory.events]

        return run()

    expected = await record(lambda: 0)
    chance = random.Random(0)
    for _ in range(50):
        assert await record(lambda: chance.randrange(4)) == expected


# --- own actions with tools -------------------------------------------------------------------


async def test_an_own_action_chooses_tools_and_what_the_model_is_told() -> None:
    class Research(UseTools):
        """Look things up before answering."""

        tools = [lookup]
        max_steps = 4

        def conversation(self, history: Sequence[Message]) -> list[Message]:
            return [Message(f"Look up: {history[-1].content}")]

    def answer(call: ModelCall) -> str | Completion:
        return "found" if told(model) else asks(("lookup", {"word": "x", "limit": 1}))

    model = FunctionModel(answer)
    role = Role(name="Ann", model=model, actions=[Research])
    assert str(await role.run("x")) == "Ann: found"
    assert model.calls[0].messages[0].content == "Look up: x"
