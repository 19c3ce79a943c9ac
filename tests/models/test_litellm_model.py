"""A model behind an API: what goes out, what comes back. Every test talks HTTP to a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import LiteLLMModel, Sampling, Tool
from rolecraft.trajectories.events import Usage


async def test_an_answer_brings_text_usage_and_finish_reason(server, make_model):
    server.answers(server.chat("Rain stops play"))
    model = make_model(prices=(2.0, 10.0))
    answer = await model.session("editor").generate([Message("A headline, please")])
    assert answer.text == "Rain stops play"
    assert answer.finish_reason == "stop"
    assert answer.usage == Usage(5, 2, usd=5 * 2.0 + 2 * 10.0, calls=1)
    assert answer.tokens is None
    assert server.requests == [
        {"model": "some-model", "messages": [{"role": "user", "content": "A headline, please"}]}
    ]
    assert server.headers[0]["authorization"] == "Bearer sk-test"


async def test_a_session_sends_its_whole_history(server, make_model):
    server.answers(server.chat("one"), server.chat("two"))
    session = make_model().session("r", system="Count.")
    await session.generate([Message("first")])
    await session.generate([Message("second", role="Alice"), Message("third")])
    assert server.prompts[1] == [
        {"role": "system", "content": "Count."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "second"},
        {"role": "user", "content": "third"},
    ]


async def test_the_price_is_litellms_where_none_is_given(server, make_model):
    """`openai/gpt-4o-mini` is in LiteLLM's list, `openai/some-model` is not."""
    known = await make_model("openai/gpt-4o-mini").session().generate([Message("x")])
    unknown = await make_model().session().generate([Message("x")])
    assert known.usage.usd == pytest.approx(5 * 0.15e-6 + 2 * 0.6e-6)
    assert unknown.usage.usd is None


async def test_usage_that_the_provider_leaves_out_is_counted_here(server, make_model):
    bare = server.chat("four words of text")
    del bare.body["usage"]
    server.answers(bare)
    answer = await make_model(prices=(1.0, 1.0)).session().generate([Message("five words " * 100)])
    assert 200 <= answer.usage.prompt_tokens <= 220
    assert 4 <= answer.usage.completion_tokens <= 30
    assert answer.usage.usd == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
        ("max_tokens", "length"),
        ("end_turn", "stop"),
        ("network_error", "unknown"),
        ("insufficient_system_resource", "unknown"),
    ],
)
async def test_finish_reasons_are_ours_and_an_unknown_one_is_no_stop(
    server, make_model, said, meant
):
    server.answers(server.chat("x", finish=said))
    answer = await make_model().session().generate([Message("x")])
    assert answer.finish_reason == meant


async def test_reasoning_is_kept_apart(server, make_model):
    server.answers(server.chat("42", reasoning_content="six times seven"))
    answer = await make_model().session().generate([Message("x")])
    assert (answer.text, answer.reasoning) == ("42", "six times seven")


async def test_a_refusal_is_an_answer_that_was_withheld(server, make_model):
    server.answers(server.chat(None, refusal="I cannot help with that"))
    answer = await make_model().session().generate([Message("x")])
    assert answer.text == "I cannot help with that"
    assert answer.finish_reason == "content_filter"


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
async def test_a_filter_that_refuses_the_prompt_is_an_empty_answer(server, make_model, code):
    """Azure and OpenAI answer HTTP 400 to a prompt that their filters do not like."""
    server.answers(server.error(400, "The prompt triggered the policy", code))
    answer = await make_model().session().generate([Message("x")])
    assert (answer.text, answer.finish_reason) == ("", "content_filter")
    assert answer.usage == Usage(0, 0, 0.0, calls=1)


def call(name: str | None, arguments: str, call_id: str | None = "c1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


async def test_tools_are_offered_and_their_calls_parsed(server, make_model):
    server.answers(
        server.chat(None, finish="tool_calls", tool_calls=[call("read", '{"name": "a"}')])
    )
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}}
    tools = [
        Tool(name="read", description="Read a register.", parameters=parameters),
        Tool(name="end"),
    ]
    answer = await make_model().session().generate([Message("x")], tools=tools)
    assert answer.tool_calls == [ToolCall("read", {"name": "a"}, "c1")]
    assert (answer.text, answer.finish_reason) == ("", "tool_calls")
    offered = [tool["function"] for tool in server.requests[0]["tools"]]
    assert offered == [
        {"name": "read", "description": "Read a register.", "parameters": parameters},
        {"name": "end", "description": "", "parameters": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize("raw", ['{"name": "a', "[1]", "7", "read(a)"])
async def test_a_call_whose_arguments_are_no_object_is_incomplete_and_keeps_its_text(
    server, make_model, raw
):
    server.answers(
        server.chat(None, finish="length", tool_calls=[call("read", raw), call("end", "{}", "c2")])
    )
    answer = await make_model().session().generate([Message("x")])
    broken, good = answer.tool_calls
    assert broken == ToolCall("read", {}, "c1", incomplete=True, raw=raw)
    assert good == ToolCall("end", {}, "c2")


@pytest.mark.parametrize("raw", ["", "null", "{}"])
async def test_a_call_without_arguments_is_complete(server, make_model, raw):
    server.answers(server.chat(None, finish="tool_calls", tool_calls=[call("end", raw)]))
    answer = await make_model().session().generate([Message("x")])
    assert answer.tool_calls == [ToolCall("end", {}, "c1")]


@pytest.mark.parametrize(
    ("raw", "repair"),
    [
        ('{"name": "a",}', "trailing comma"),
        ('"{\\"name\\": \\"a\\"}"', "arguments as string"),
    ],
)
async def test_arguments_are_mended_as_those_of_local_models_are(server, make_model, raw, repair):
    server.answers(server.chat(None, finish="tool_calls", tool_calls=[call("read", raw)]))
    answer = await make_model().session().generate([Message("x")])
    assert answer.tool_calls == [ToolCall("read", {"name": "a"}, "c1", repairs=(repair,))]


async def test_tool_calls_and_results_go_back_paired_by_id(server, make_model):
    """An incomplete call goes back as a valid one: some providers refuse broken JSON."""
    calls = [call("read", '{"name": "a"}'), call("read", '{"na', "c2")]
    server.answers(server.chat(None, finish="tool_calls", tool_calls=calls), server.chat("done"))
    session = make_model().session()
    await session.generate([Message("x")])
    results = [
        Message("7", role="tool", metadata={"tool_call_id": "c1"}),
        Message("cut off", role="tool", metadata={"tool_call_id": "c2"}),
    ]
    await session.generate(results)
    asked, *answered = server.prompts[1][1:]
    assert asked.get("content") is None
    assert [(call["id"], call["function"]["arguments"]) for call in asked["tool_calls"]] == [
        ("c1", '{"name": "a"}'),
        ("c2", "{}"),
    ]
    assert answered == [
        {"role": "tool", "content": "7", "tool_call_id": "c1"},
        {"role": "tool", "content": "cut off", "tool_call_id": "c2"},
    ]


async def test_a_tools_message_must_say_which_call_it_answers(server, make_model):
    with pytest.raises(UsageError, match="tool_call_id"):
        await make_model().session().generate([Message("7", role="tool")])
    assert server.requests == []


async def test_sampling_goes_out_and_the_models_own_fills_what_a_call_leaves_open(
    server, make_model
):
    model = make_model(sampling=Sampling(temperature=0.7, max_tokens=50, stop=("END",)))
    sampling = Sampling(temperature=0.0, top_p=0.9, seed=3)
    await model.session().generate([Message("x")], sampling=sampling)
    sent = {name: server.requests[0].get(name) for name in ("temperature", "top_p", "seed", "stop")}
    assert sent == {"temperature": 0.0, "top_p": 0.9, "seed": 3, "stop": ["END"]}
    assert server.requests[0]["max_tokens"] == 50


async def test_a_sessions_seed_goes_out_and_no_seed_does_not(server, make_model):
    """Two sessions without a seed must not give the same samples."""
    model = make_model()
    await model.session(seed=2**40 + 5).generate([Message("x")])
    await model.session().generate([Message("x")])
    assert server.requests[0]["seed"] == 5
    assert "seed" not in server.requests[1]


async def test_choices_are_told_to_the_model_and_not_kept_in_the_history(server, make_model):
    server.answers(server.chat(" yes\n"))
    session = make_model().session()
    answer = await session.generate([Message("Rain?")], sampling=Sampling(choices=("yes", "no")))
    assert answer.text == "yes"
    told = server.prompts[0][-1]
    assert told["role"] == "user"
    assert told["content"].splitlines()[-2:] == ["yes", "no"]
    assert [message.content for message in session.messages] == ["Rain?", "yes"]


async def test_text_that_utf8_cannot_carry_goes_out_mended(server, make_model):
    """Half a character from another model's output must not end the run."""
    await make_model().session().generate([Message("half \ud83d, whole \ud83d\ude00")])
    assert server.prompts[0][0]["content"] == "half \ufffd, whole \U0001f600"


async def test_extra_arguments_reach_the_server_and_ours_cannot_be_overridden(server, make_model):
    extra = {"frequency_penalty": 0.5, "extra_headers": {"x-team": "red"}}
    await make_model(extra=extra).session().generate([Message("x")])
    assert server.requests[0]["frequency_penalty"] == 0.5
    assert server.headers[0]["x-team"] == "red"
    with pytest.raises(UsageError, match="'num_retries'"):
        make_model(extra={"num_retries": 3})


async def test_a_hundred_sessions_share_one_model_and_are_asked_side_by_side(server, make_model):
    # Who waits for one answer before the next asks hangs here: so many are the limiter's first.
    server.answer_when(requests=16)
    model = make_model()
    sessions = [model.session(f"role {i}") for i in range(100)]
    answers = await asyncio.gather(
        *(session.generate([Message(f"I am {i}")]) for i, session in enumerate(sessions))
    )
    assert {answer.text for answer in answers} == {"hello"}
    assert sorted(prompt[0]["content"] for prompt in server.prompts) == sorted(
        f"I am {i}" for i in range(100)
    )
    assert all(len(session.messages) == 2 for session in sessions)


async def test_a_cancelled_call_ends_at_once_and_is_not_retried(server, make_model, waits):
    server.answers(server.Answer(never=True))
    model = make_model()
    await model.prepare()
    call = asyncio.create_task(model.session().generate([Message("x")]))
    await asyncio.to_thread(server.asked.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(server.requests) == 1
    assert waits == []


async def test_closing_twice_and_closing_unused_is_harmless(server, make_model):
    unused, used = make_model(), make_model()
    await unused.aclose()
    await used.session().generate([Message("x")])
    await used.aclose()
    await used.aclose()
    await used.session().generate([Message("x")])  # opens connections again
    assert len(server.requests) == 2


async def test_closing_one_model_leaves_the_others_connected(server, make_model):
    server.answer_when(requests=2)
    one, other = make_model(), make_model(policy={"times": 0})
    await one.prepare()
    waiting = asyncio.create_task(other.session().generate([Message("x")]))
    await asyncio.to_thread(server.asked.wait)
    await one.aclose()
    await other.session().generate([Message("y")])
    assert (await waiting).text == "hello"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"name": ""}, "LiteLLMModel"),
        ({"prices": (1.0,)}, "prices"),
        ({"prices": (-1.0, 0.0)}, "prices"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "times"),
    ],
)
def test_bad_settings_are_refused_at_once(settings, named):
    with pytest.raises(UsageError, match=named):
        LiteLLMModel(**{"name": "openai/x", **settings})


def test_a_model_shows_its_name_and_not_its_key():
    model = LiteLLMModel("openai/x", api_key="sk-secret")
    assert "sk-secret" not in repr(model)
    assert "openai/x" in repr(model)
