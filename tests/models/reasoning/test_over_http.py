"""Reasoning over the wire: read, recorded, and what a provider wants back goes back unchanged.

A real server answers in the words of each provider's own API; LiteLLM speaks for us.
"""

from __future__ import annotations

import json

import pytest

from rolecraft import Role, Team, tool
from rolecraft.errors import UnknownName
from rolecraft.messages import Message
from rolecraft.models import RESET, Tool

LOOK = Tool(name="look", parameters={"type": "object", "properties": {"at": {"type": "string"}}})
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
DETAILS = [
    {"type": "reasoning.text", "text": "why", "signature": "S", "index": 0},
    {"type": "reasoning.encrypted", "data": "E", "index": 1},
]
THINKING = [
    {"type": "thinking", "thinking": "why", "signature": "S"},
    {"type": "redacted_thinking", "data": "R"},
]
CLAUDE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        *THINKING,
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}
GEMINI = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "why", "thought": True},
                    {"text": "Looking.", "thoughtSignature": "T0"},
                    {
                        "functionCall": {"name": "look", "args": {"at": "x"}},
                        "thoughtSignature": "T1",
                    },
                ],
            },
            "index": 0,
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
}
RESPONSE = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "o3",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "why"}],
            "encrypted_content": "E",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"at": "x"}',
            "status": "completed",
        },
    ],
    "usage": {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "temperature": 1,
    "top_p": 1,
}


def events(server, *said, named=False):
    lines = [
        (f"event: {e['type']}\n" if named else "") + f"data: {json.dumps(e)}\n\n" for e in said
    ]
    return server.Answer("".join(lines).encode(), headers={"content-type": "text/event-stream"})


def claude_streams(server):
    def block(at, start, *deltas):
        yield {"type": "content_block_start", "index": at, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}

    return events(
        server,
        {"type": "message_start", "message": {**CLAUDE, "content": [], "stop_reason": None}},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "wh"},
            {"type": "thinking_delta", "thinking": "y"},
            {"type": "signature_delta", "signature": "S"},
        ),
        *block(1, THINKING[1]),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Looking."}),
        *block(
            3,
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"at": "x"}'},
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": CLAUDE["usage"]},
        {"type": "message_stop"},
        named=True,
    )  # fmt: skip


async def asked(model, *, stream=False):
    """The answer, what was heard of it, and the assistant's message of the request after it."""
    session, heard, thoughts = model.session("r"), [], []
    if stream:
        session.on_delta, session.on_reasoning = heard.append, thoughts.append
    answer = await session.generate([Message("hi")], tools=[LOOK])
    session.on_delta = session.on_reasoning = None
    told = {"tool_call_id": answer.tool_calls[0].id} if answer.tool_calls else None
    await session.generate(
        [Message("seen", role="tool" if told else "user", metadata=told)], tools=[LOOK]
    )
    return answer, "".join(heard), "".join(thoughts)


def root(server):
    return server.url.removesuffix("/v1")


# --- what goes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_signed_blocks_go_back_before_the_call(server, make_model, stream):
    server.answers(
        claude_streams(server) if stream else server.Answer(CLAUDE), server.Answer(CLAUDE)
    )
    model = make_model(
        "anthropic/claude-sonnet-4-5",
        base_url=root(server),
        extra={"thinking": {"type": "enabled", "budget_tokens": 1024}},
    )
    answer, heard, thoughts = await asked(model, stream=stream)
    assert (answer.text, answer.reasoning) == ("Looking.", "why")
    assert (heard, thoughts) == (("Looking.", "why") if stream else ("", ""))
    said = server.prompts[1][1]
    assert said["content"][:2] == THINKING
    assert [block["type"] for block in said["content"][2:]] == ["text", "tool_use"]


@pytest.mark.parametrize("stream", [False, True])
async def test_geminis_signatures_go_back_on_the_parts_that_had_them(server, make_model, stream):
    first = events(server, GEMINI) if stream else server.Answer(GEMINI)
    server.answers(first, server.Answer(GEMINI))
    model = make_model("gemini/gemini-2.5-flash", base_url=root(server))
    answer, heard, thoughts = await asked(model, stream=stream)
    assert (answer.text, answer.reasoning) == ("Looking.", "why")
    assert (heard, thoughts) == (("Looking.", "why") if stream else ("", ""))
    parts = server.requests[1]["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["T0", "T1"]


@pytest.mark.parametrize("stream", [False, True])
async def test_openrouters_details_go_back_all_and_unchanged(server, make_model, stream):
    whole = server.chat(
        None, finish="tool_calls", reasoning="why", reasoning_details=DETAILS, tool_calls=[CALL]
    )
    text = {"type": "reasoning.text", "index": 0}
    streamed = server.stream(
        deltas=[
            {"reasoning": "wh", "reasoning_details": [{**text, "text": "wh"}]},
            {"reasoning": "y", "reasoning_details": [{**text, "text": "y"}]},
            {"reasoning_details": [{**text, "signature": "S"}]},
            {"reasoning_details": [DETAILS[1]]},
            {"tool_calls": [{"index": 0, **CALL}]},
        ],
        finish="tool_calls",
    )
    server.answers(streamed if stream else whole, server.chat())
    answer, _, thoughts = await asked(make_model("openrouter/some/model"), stream=stream)
    assert answer.reasoning == "why"
    assert thoughts == ("why" if stream else "")
    assert server.prompts[1][1]["reasoning_details"] == DETAILS


async def test_openais_encrypted_items_go_back(server, make_model):
    server.answers(server.Answer(RESPONSE))
    answer, _, _ = await asked(make_model("openai/responses/o3"))
    assert answer.reasoning == "why"
    (item,) = [each for each in server.requests[1]["input"] if each.get("type") == "reasoning"]
    assert (item["id"], item["encrypted_content"]) == ("rs_1", "E")


async def test_text_goes_back_to_providers_whose_models_go_on_from_it(server, make_model):
    first = server.chat(None, finish="tool_calls", reasoning_content="why", tool_calls=[CALL])
    for name, sent in (("deepseek/deepseek-reasoner", "why"), ("openai/some-model", None)):
        server.answers(first, server.chat())
        server.requests.clear()
        answer, _, _ = await asked(make_model(name))
        assert answer.reasoning == "why"
        assert server.prompts[1][1].get("reasoning_content") == sent


async def test_another_model_that_takes_over_gets_none_of_it(server, make_model):
    whole = server.chat(None, finish="tool_calls", reasoning_details=DETAILS, tool_calls=[CALL])
    server.answers(whole, server.chat())
    session = make_model("openrouter/some/model").session()
    await session.generate([Message("hi")], tools=[LOOK])
    session.model = make_model("openrouter/other/model")
    told = Message("seen", role="tool", metadata={"tool_call_id": "c1"})
    await session.generate([told], tools=[LOOK])
    assert "reasoning_details" not in server.prompts[1][1]


@pytest.mark.parametrize(
    "content",
    [[{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
      {"type": "text", "text": "yes"}]],
)  # fmt: skip
async def test_mistrals_thinking_chunks_are_reasoning(server, make_model, content):
    server.answers(server.chat(content), server.chat())
    answer, _, _ = await asked(make_model("mistral/magistral-medium-latest"))
    assert (answer.text, answer.reasoning) == ("yes", "why")


# --- reasoning that a server leaves in the text -------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "text",
    ["<think>why</think>\n\nyes", "[THINK]why[/THINK]yes", "<seed:think>why</seed:think>yes"],
)
async def test_thoughts_at_the_beginning_of_a_text_are_taken_out(server, make_model, text, stream):
    first = server.stream(*text) if stream else server.chat(text)
    server.answers(first, server.chat())
    answer, heard, thoughts = await asked(make_model(), stream=stream)
    assert (answer.text, answer.reasoning) == ("yes", "why")
    assert (heard, thoughts) == (("yes", "why") if stream else ("", ""))
    assert server.prompts[1][1]["content"] == "yes"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "text",
    ["Write <think>a</think>.", "`<think>` opens it.", "<think> opens it.", "a</think>b", " x\n"],
)
async def test_a_text_that_speaks_of_a_marker_is_left_alone(server, make_model, text, stream):
    server.answers(server.stream(*text) if stream else server.chat(text), server.chat())
    answer, heard, _ = await asked(make_model(), stream=stream)
    assert (answer.text, answer.reasoning) == (text, "")
    assert heard.rpartition(RESET or "\0")[2] == (text if stream else "")


async def test_a_text_cut_off_in_its_thoughts_is_reasoning(server, make_model):
    server.answers(server.chat("<think>why", finish="length"), server.chat())
    answer, _, _ = await asked(make_model())
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("", "why", "length")


async def test_a_format_that_is_named_reads_a_lone_close_marker(server, make_model):
    server.answers(server.stream("why", "</think>", "yes"), server.chat())
    session = make_model(reasoning="qwen3").session()
    heard, thoughts = [], []
    session.on_delta, session.on_reasoning = heard.append, thoughts.append
    answer = await session.generate([Message("hi")])
    assert (answer.text, answer.reasoning) == ("yes", "why")
    assert heard == ["why", RESET, "yes"]
    assert thoughts == ["why"]


async def test_without_a_format_the_text_is_left_as_it_is(server, make_model):
    server.answers(server.stream("[THINK]why[/THINK]yes"), server.chat())
    session = make_model(reasoning=None).session()
    session.on_delta = lambda piece: None
    assert (await session.generate([Message("hi")])).text == "[THINK]why[/THINK]yes"


def test_a_format_that_is_not_known_is_refused_at_once(make_model):
    with pytest.raises(UnknownName, match="qwen3"):
        make_model(reasoning="qwen33")


# --- in the record ------------------------------------------------------------------------------


@tool
def look(at: str) -> str:
    """Look at something."""
    return "a mouse"


async def test_thoughts_and_what_goes_back_are_recorded_replayed_and_known_to_a_fork(
    server, make_model
):
    whole = server.chat(None, finish="tool_calls", reasoning_details=DETAILS, tool_calls=[CALL])
    server.answers(whole, server.chat("A mouse.", reasoning="seen"), server.chat("A cat."))
    model = make_model("openrouter/some/model")
    team = Team([Role(name="Eye", profile="watcher", tools=[look])], model=model)
    run = await team.run("What is there?")
    events = run.trajectory.events
    assert [each.content for each in events if each.kind == "thought"] == ["why", "seen"]
    calls = [each for each in events if each.kind == "model_call"]
    assert calls[0].data["provider_fields"]["reasoning_details"] == DETAILS
    assert "provider_fields" not in calls[1].data

    again = await team.replay(run)
    assert again.trajectory.events == events
    assert len(server.requests) == 2
    (result,) = [each.seq for each in events if each.kind == "tool_result"]
    branch = await team.fork(run, result)
    assert branch.trajectory.events[-1].kind == "stop"
    assert len(server.requests) == 3
    assert server.prompts[2] == server.prompts[1]
    assert server.prompts[2][-2]["reasoning_details"] == DETAILS
