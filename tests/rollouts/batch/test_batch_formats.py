"""R15, R19: training rows hold every answer as it was sampled, and load with one schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import get_parser
from rolecraft.rollouts.batch import formats
from rolecraft.rollouts.batch.conversations import Conversation, Lost, Turn, conversations
from rolecraft.rollouts.batch.ledger import Entry
from rolecraft.rollouts.batch.samples import Sample
from rolecraft.trajectories import Event, Trajectory

TOOL = {"name": "search", "description": "Search.", "parameters": {"type": "object"}}


def call(seq: int, content: str = "", *, messages: Any = (), **data: Any) -> Event:
    asked = [{"role": role, "content": text} for role, text in messages]
    return Event(
        "model_call", "R", content, data={"session": "R/1", "messages": asked, **data}, seq=seq
    )


def talked() -> Trajectory:
    calls = [
        {"name": "search", "arguments": {"q": "é </tool_call>"}, "id": "a"},
        {"name": "search", "arguments": {}, "incomplete": True, "raw": '{"q": '},
    ]
    return Trajectory(
        events=[
            call(
                0,
                "",
                system="You are R.",
                messages=[("user", "where?")],
                tools=[TOOL],
                tool_calls=calls,
            ),
            Event("thought", "R", "let me see", cause=0, seq=1),
            call(2, "<think>there</think>It is here.", messages=[("tool", "1"), ("tool", "2")]),
        ]
    )


def sample(talks: list[Conversation]) -> Sample:
    return Sample(entry=Entry(row="ab" * 32, ended="finished"), prompt="", conversations=talks)


def test_r19_every_answer_is_in_its_conversation_with_reasoning_and_calls() -> None:
    (talk,) = conversations(talked())
    assert [turn.role for turn in talk.turns] == [
        *("system", "user", "assistant"),
        *("tool", "tool", "assistant"),
    ]
    first, last = talk.answers
    assert (first.reasoning, last.reasoning, last.content) == ("let me see", "there", "It is here.")
    assert [(turn.tool_call_id, turn.name) for turn in talk.turns[3:5]] == [
        ("a", "search"),
        (first.tool_calls[1]["id"], "search"),
    ]
    assert Conversation.from_dict(json.loads(json.dumps(talk.to_dict()))) == talk


def test_r19_an_answer_without_a_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conversation, "answers", property(lambda talk: []))
    with pytest.raises(Lost, match="2 answers of models, the conversations 0"):
        conversations(talked())


def test_sessions_are_conversations_of_their_own_in_the_order_of_their_first_answers() -> None:
    events = [
        Event("model_call", "A", "a", data={"session": "A/1", "messages": []}, seq=0),
        Event("model_call", "B", "b", data={"session": "B/1", "messages": []}, seq=1),
        Event("model_call", "A", "c", data={"session": "A/1", "messages": []}, seq=2),
    ]
    talks = conversations(Trajectory(events=events))
    assert [(talk.role, len(talk.answers)) for talk in talks] == [("A", 2), ("B", 1)]


def test_openai_messages_have_every_key_and_arguments_as_texts() -> None:
    (row,) = formats.rows(sample(conversations(talked())), "openai", ("search", "read"))
    messages = row["messages"]
    assert len({tuple(message) for message in messages}) == 1
    made = messages[2]["tool_calls"]
    assert json.loads(made[0]["function"]["arguments"]) == {"q": "é </tool_call>"}
    assert made[1]["function"]["arguments"] == '{"q": '  # as the model wrote it
    assert messages[2]["reasoning_content"] == "let me see"
    assert row["tool_stats"] == [
        {"tool": "read", "count": 0, "success": 0, "error": 0},
        {"tool": "search", "count": 0, "success": 0, "error": 0},
    ]
    assert json.loads(row["tools"]) == [{"type": "function", "function": TOOL}]


def test_sharegpt_has_the_turns_and_marks_of_hermes() -> None:
    (row,) = formats.rows(sample(conversations(talked())), "sharegpt")
    said = row["conversations"]
    assert [turn["from"] for turn in said] == ["system", "human", "gpt", "tool", "gpt"]
    assert said[0]["value"].startswith("You are R.\n\n")
    assert '<tools>\n{"type": "function"' in said[0]["value"]
    assert said[2]["value"].startswith("<think>\nlet me see\n</think>\n<tool_call>\n{")
    assert said[3]["value"].count("<tool_response>") == 2
    assert said[4]["value"] == "<think>\nthere\n</think>\nIt is here."


def test_calls_in_sharegpt_are_read_back_by_the_parser_of_hermes() -> None:
    """The predecessor taught models an output that its own parser could not read."""
    (row,) = formats.rows(sample(conversations(talked())), "sharegpt")
    text = row["conversations"][2]["value"].split("</think>\n")[1]
    read = get_parser("hermes").parse(text)
    assert read.tool_calls[0] == ToolCall(
        "search", {"q": "é </tool_call>"}, id=read.tool_calls[0].id
    )
    example = formats.HOW_TO_CALL.format(tools="").rpartition("\n<tool_call>")
    shown = get_parser("hermes").parse("<tool_call>" + example[2])
    assert shown.tool_calls[0].arguments == {"argument": "value"}


def test_a_text_with_marks_of_sharegpt_is_refused_there_and_not_in_openai() -> None:
    talk = Conversation("s", "R", "m", [Turn("assistant", "write `<tool_call>`", sampled=True)])
    with pytest.raises(formats.Unwritable, match="<tool_call>"):
        list(formats.rows(sample([talk]), "sharegpt"))
    assert list(formats.rows(sample([talk]), "openai"))


async def test_a_sample_that_sharegpt_cannot_hold_is_aside_with_its_reason(bench: Any) -> None:
    bench.write(["<think>", "b"])
    await bench.run()
    assert len(bench.lines("sharegpt.jsonl")) == 1
    (aside,) = bench.lines("aside.jsonl")
    assert aside["status"] == "discarded:unwritable"
    await bench.run(formats=("openai",))
    assert len(bench.lines("openai.jsonl")) == 2


# --- one schema -----------------------------------------------------------------------------------


async def run_all(bench: Any, folder: Path, prompts: list[str], **options: Any) -> None:
    bench.out = folder
    bench.write(prompts)
    await bench.run(formats=("sharegpt", "openai", "parquet"), **options)


async def test_r15_output_loads_with_one_schema_whichever_tools_were_used(
    bench: Any, tmp_path: Path, answers: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    parquet = pytest.importorskip("pyarrow.parquet")
    await run_all(bench, tmp_path / "none", ["a", "b"])
    await run_all(bench, tmp_path / "some", ["find a", "b"])
    bench.model = answers(called="dig")
    await run_all(bench, tmp_path / "new", ["find a", "b \ud800 \\ud800"], keep_invented_tools=True)
    folders = [tmp_path / name for name in ("none", "some", "new")]
    schemas = [parquet.read_schema(folder / "train.parquet") for folder in folders]
    assert schemas[0].equals(schemas[1])
    assert schemas[0].equals(schemas[2])
    files = [str(folder / "train.parquet") for folder in folders]
    cache = str(tmp_path / "cache")
    whole = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    assert len(whole) == 6
    used = {tool["tool"]: tool["count"] for tool in whole[2]["tool_stats"]}
    assert used == {"read": 0, "search": 1}
    assert whole[2]["messages"][2]["tool_calls"][0]["function"]["name"] == "search"
    for name in ("sharegpt", "openai"):
        lines = [str(folder / f"{name}.jsonl") for folder in folders[1:]]
        rows = datasets.load_dataset("json", data_files=lines, split="train", cache_dir=cache)
        assert len(rows) == 4
        said = str(rows[3])
        assert "b \N{REPLACEMENT CHARACTER} \\\\ud800" in said
    # What was called and is no tool is counted too, and changes no schema.
    assert {tool["tool"] for tool in whole[4]["tool_stats"]} == {"dig", "read", "search"}


async def test_the_columns_of_parquet_are_those_of_openai(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from rolecraft.rollouts.batch.parquet import schema

    await run_all(bench, tmp_path / "out", ["find a"])
    (row,) = bench.lines("openai.jsonl")
    assert list(row) == schema().names


async def test_a_file_that_cannot_be_written_leaves_the_one_before(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(["a"])
    await bench.run()
    before = (bench.out / "openai.jsonl").read_bytes()
    bench.write(["a", "b"])

    def full(*of: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rolecraft.rollouts.batch.output._Lines.add", full)
    from rolecraft.errors import JournalError

    with pytest.raises(JournalError, match=r"No space left .* The samples are safe"):
        await bench.run()
    assert (bench.out / "openai.jsonl").read_bytes() == before
    assert not list(bench.out.glob(".*"))
    monkeypatch.undo()
    report = await bench.run()
    assert (report.ran, len(bench.samples())) == (0, 2)
