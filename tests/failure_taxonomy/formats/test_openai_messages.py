"""Messages in OpenAI's form and its relatives: each part is an event, nothing is lost or merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import read, recognise
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.trajectories import Trajectory

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "area", "arguments": '{"side": 3}'},
}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a geometer."},
    {"role": "user", "content": "How large is it?"},
    {"role": "assistant", "content": "I'll compute it.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "9"},
    {"role": "assistant", "reasoning_content": "3 times 3.", "content": "9"},
]
TOLD = [
    ("message", "user", "How large is it?"),
    ("message", "assistant", "I'll compute it."),
    ("tool_call", "assistant", ""),
    ("tool_result", "assistant", "9"),
    ("thought", "assistant", "3 times 3."),
    ("message", "assistant", "9"),
]
ANTHROPIC = [
    {"role": "user", "content": "How large is it?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I'll compute it."},
            {"type": "tool_use", "id": "c1", "name": "area", "input": {"side": 3}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "9"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "3 times 3.", "signature": "s"},
            {"type": "text", "text": "9"},
        ],
    },
]
GEMINI = [
    {"role": "user", "parts": [{"text": "How large is it?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "I'll compute it."},
            {"functionCall": {"id": "c1", "name": "area", "args": {"side": 3}}},
        ],
    },
    {"role": "user", "parts": [{"functionResponse": {"id": "c1", "response": "9"}}]},
    {"role": "model", "parts": [{"type": "thought", "text": "3 times 3."}, {"text": "9"}]},
]
LANGCHAIN = [
    {"type": "human", "data": {"content": "How large is it?"}},
    {
        "type": "ai",
        "data": {
            "content": "I'll compute it.",
            "tool_calls": [{"id": "c1", "name": "area", "args": {"side": 3}, "type": "tool_call"}],
        },
    },
    {"type": "tool", "data": {"content": "9", "tool_call_id": "c1"}},
    {
        "type": "ai",
        "data": {"content": "9", "additional_kwargs": {"reasoning_content": "3 times 3."}},
    },
]
RESPONSES = [
    {"role": "user", "content": "How large is it?"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I'll compute it.", "annotations": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "area",
     "arguments": '{"side": 3}'},
    {"type": "function_call_output", "call_id": "c1", "output": "9"},
    {"type": "reasoning", "id": "rs_1",
     "summary": [{"type": "summary_text", "text": "3 times 3."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "9"}]},
]  # fmt: skip


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def told(trajectory: Trajectory) -> list[tuple[str, str, str]]:
    return [(event.kind, event.role, event.content) for event in trajectory.events]


def account(trajectory: Trajectory) -> dict[str, int]:
    parts = dict(trajectory.about["accounting"])
    assert parts.pop("unit") == "element"
    assert sum(parts.values()) - parts["total"] == parts.pop("total")
    return parts


@pytest.mark.parametrize(
    "messages", [CHAT, ANTHROPIC, GEMINI, LANGCHAIN, RESPONSES], ids=lambda m: m[0].get("type", "")
)
def test_each_dialect_tells_the_same(messages: list[Any], tmp_path: Path) -> None:
    path = write(tmp_path / "chat.json", messages)
    assert recognise(path) == "openai_messages"
    trajectory = read(path)
    assert told(trajectory) == TOLD
    call, result = trajectory.events[2:4]
    assert call.data == {"tool": "area", "arguments": {"side": 3}, "id": "c1"}
    assert result.cause == call.seq
    assert trajectory.about["task"] == "How large is it?"
    assert account(trajectory)["events"] == 6
    assert not trajectory.problems


def test_a_list_an_object_and_lines_are_one_trace(tmp_path: Path) -> None:
    lines = "".join(json.dumps(message) + "\n" for message in CHAT)
    for value in (CHAT, {"messages": CHAT}, {"conversation": CHAT, "model": "gpt"}, lines):
        trajectory = read(write(tmp_path / "chat.json", value))
        assert told(trajectory) == TOLD
        assert trajectory.about["roles"][0] == {
            "name": "assistant", "system": "You are a geometer.",
        }  # fmt: skip


def test_lines_with_messages_are_traces_of_their_own(tmp_path: Path) -> None:
    rows = [{"id": "a", "messages": CHAT}, {"messages": CHAT[:2]}, {"other": 1}]
    path = write(tmp_path / "chats.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    first, second = read_all(path)
    assert (first.name, second.name) == (f"{path}#a", f"{path}#1")
    assert len(second.trajectory.events) == 1
    assert "1 records hold no messages" in first.trajectory.problems[0]


def test_a_response_with_its_input_is_one_trace(tmp_path: Path) -> None:
    given = {"object": "response", "id": "r1", "input": "How large is it?",
             "instructions": "You are a geometer.", "output": RESPONSES[1:]}  # fmt: skip
    trajectory = read(write(tmp_path / "response.json", given))
    assert told(trajectory) == TOLD
    assert trajectory.about["roles"][0]["system"] == "You are a geometer."


def test_agents_are_told_apart_by_their_names(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "name": "Planner", "content": "Coder, write it."},
        {"role": "user", "name": "Coder", "content": "Written."},
        {"role": "Tester", "content": "It fails."},
    ]
    trajectory = read(write(tmp_path / "chat.json", chat))
    assert [event.role for event in trajectory.events] == ["user", "Planner", "Coder", "Tester"]


def test_what_is_said_twice_is_told_twice(tmp_path: Path) -> None:
    """A list of messages is no history of calls: every one of them was sent."""
    again = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Done."}] * 2
    assert len(read(write(tmp_path / "chat.json", again)).events) == 4


def test_other_fields_are_labels(tmp_path: Path) -> None:
    given = {"messages": CHAT, "reward": 0.0, "reference_outputs": "SECRET", "tools": []}
    trajectory = read(write(tmp_path / "chat.json", given))
    assert trajectory.about["labels"] == {"reward": 0.0, "reference_outputs": "SECRET"}
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])


def test_odd_messages_are_kept_and_named(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "Hi."},
        {"what": "is this"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{broken"}}]},
        {"role": "system", "content": "First."},
        {"role": "system", "content": "Now be brief."},
    ]
    lines = "".join(json.dumps(message) + "\n" for message in chat)
    trajectory = read(write(tmp_path / "chat.jsonl", lines))
    assert [(event.kind, event.role, event.content) for event in trajectory.events] == [
        ("message", "user", "Hi."),
        ("message", "", '{"what": "is this"}'),
        ("message", "assistant", ""),
        ("message", "assistant", "[image_url]"),
        ("tool_call", "assistant", ""),
        ("message", "environment", "Now be brief."),
    ]
    assert trajectory.events[4].data["arguments"] == "{broken"
    assert "message 1 is none that is known" in trajectory.problems[0]
    assert account(trajectory) == {
        "events": 5, "header": 1, "labels": 0, "blank": 0, "unsegmented": 1, "repeated": 0,
    }  # fmt: skip


def test_a_file_without_messages_is_one_clear_error(tmp_path: Path) -> None:
    for value in ("[]", "{}", '{"messages": []}'):
        with pytest.raises(TraceError, match="messages"):
            read(write(tmp_path / "chat.json", value), format="openai_messages")
