"""The public test doubles: scripts that are never repeated silently, functions, recorded calls."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft.errors import UnexpectedModelCall, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall, Sampling, ScriptedModel, Tool


async def say(model, text="x", role="r", **options):
    return await model.session(role).generate([Message(text)], **options)


async def test_a_script_gives_its_replies_in_order():
    model = ScriptedModel(["one", Completion(text="two", finish_reason="length")])
    assert (await say(model)).text == "one"
    assert (await say(model)).finish_reason == "length"


async def test_a_script_that_runs_dry_is_an_error_that_says_who_asked_what():
    model = ScriptedModel(["one"], name="editor-script")
    await say(model)
    with pytest.raises(UnexpectedModelCall, match=r"1 replies.*'Bob'.*'and now\?'") as caught:
        await say(model, "and now?", role="Bob")
    assert caught.value.model == "editor-script"


async def test_roles_with_a_script_of_their_own_do_not_touch_the_others():
    model = ScriptedModel(["shared"], per_role={"A": ["a1", "a2"]})
    assert (await say(model, role="B")).text == "shared"
    assert (await say(model, role="A")).text == "a1"
    with pytest.raises(UnexpectedModelCall, match="'B'"):
        await say(model, role="B")
    assert (await say(model, role="A")).text == "a2"
    with pytest.raises(UnexpectedModelCall, match="script of role 'A'"):
        await say(model, role="A")


async def test_an_exception_in_a_script_is_raised_and_the_script_goes_on():
    model = ScriptedModel([TimeoutError("slow"), "fine"])
    session = model.session("r")
    with pytest.raises(TimeoutError, match="slow"):
        await session.generate([Message("x")])
    assert (await session.generate()).text == "fine"
    assert [message.content for message in session.messages] == ["x", "fine"]


async def test_assert_complete_names_what_nobody_asked_for():
    model = ScriptedModel(["one", "two"], per_role={"A": ["a"]})
    await say(model)
    with pytest.raises(AssertionError, match=r"'anyone': 1.*'A': 1"):
        model.assert_complete()
    await say(model)
    await say(model, role="A")
    model.assert_complete()


def test_a_text_or_a_wrong_thing_as_a_script_is_refused_when_it_is_made():
    """`ScriptedModel("hello")` would answer h, e, l, l, o."""
    with pytest.raises(UsageError, match="'hello': put it in a list"):
        ScriptedModel("hello")
    with pytest.raises(UsageError, match="got 7"):
        ScriptedModel(per_role={"A": ["a", 7]})


async def test_a_function_sees_who_asks_and_with_what():
    def answer(call: ModelCall) -> str:
        last = call.messages[-1].content
        return f"{call.role}: {last}, {call.tools[0].name}, {call.sampling.temperature}"

    answer = await say(
        FunctionModel(answer), "hi", tools=[Tool(name="read")], sampling=Sampling(temperature=0.5)
    )
    assert answer.text == "r: hi, read, 0.5"


async def test_a_function_may_be_async_and_calls_run_at_the_same_time():
    together = asyncio.Barrier(3)

    async def answer(call: ModelCall) -> str:
        await together.wait()  # hangs unless all three are asked at once
        return call.role

    model = FunctionModel(answer)
    answers = await asyncio.gather(*(say(model, role=role) for role in "abc"))
    assert [answer.text for answer in answers] == ["a", "b", "c"]


async def test_what_a_function_raises_comes_out_and_what_it_must_not_return_is_named():
    def broken(call: ModelCall) -> str:
        raise KeyError("register")

    with pytest.raises(KeyError, match="register"):
        await say(FunctionModel(broken))
    with pytest.raises(UsageError, match=r"'forgetful' returned None"):
        await say(FunctionModel(lambda call: None, name="forgetful"))
    with pytest.raises(UsageError, match="'not callable'"):
        FunctionModel("not callable")


async def test_calls_are_kept_as_they_were_asked():
    model = ScriptedModel(["one", "two"])
    session = model.session("r", system="Be brief.")
    await session.generate([Message("first")])
    await session.generate([Message("second")])
    assert [len(call.messages) for call in model.calls] == [2, 4]
    assert [message.content for message in model.calls[0].messages] == ["Be brief.", "first"]
    assert (await say(FunctionModel(lambda call: "x", keep_calls=False))).text == "x"
    forgetful = ScriptedModel(["x"], keep_calls=False)
    await say(forgetful)
    assert forgetful.calls == []


async def test_an_answer_with_tool_calls_is_in_the_history_with_them():
    call = ToolCall("read", {"name": "a"}, "c1")
    session = ScriptedModel([Completion(text="", tool_calls=[call])]).session()
    await session.generate([Message("x")])
    assert session.messages[-1].metadata == {"tool_calls": [call]}
