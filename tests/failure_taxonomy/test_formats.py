"""Reading traces: recognition, our journals, Who&When logs, and files that are neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy import Format, annotate, read, recognise, register_format
from rolecraft.failure_taxonomy.formats import FORMATS, read_all, trace_files
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import visible
from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.jsonl import save

Make = Callable[..., Trajectory]

HAND_CRAFTED = {
    "question": "Which bird is it?",
    "question_ID": "q-7",
    "is_corrected": False,
    "ground_truth": "SECRET wren",
    "groundtruth": "SECRET wren",
    "mistake_agent": "WebSurfer",
    "mistake_step": "2",
    "mistake_reason": "SECRET It looked at the wrong page.",
    "level": 2,
    "history": [
        {"content": "Which bird is it?", "role": "human"},
        {"content": "I should ask the surfer.", "role": "Orchestrator (thought)"},
        {"content": "Find the page.", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "I found a page.", "role": "WebSurfer"},
        {"content": "Done.", "role": "Orchestrator (termination condition)"},
    ],
}


def write(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def alg(*turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"question": "q", "history": list(turns), "mistake_agent": "x", **fields}


# --- recognition ----------------------------------------------------------------------------------


def test_both_formats_are_recognised(trace: Make, tmp_path: Path) -> None:
    journal = save(trace(Event("message", role="ada", content="hi")), tmp_path / "run.jsonl")
    assert recognise(journal) == "rolecraft"
    assert recognise(write(tmp_path / "log.json", HAND_CRAFTED)) == "who_and_when"


def test_the_ending_of_a_file_does_not_matter(tmp_path: Path) -> None:
    assert recognise(write(tmp_path / "log", HAND_CRAFTED)) == "who_and_when"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"hello world", "its format is not known"),
        (b"\xff\xfe\x00", "its format is not known"),
        (b"{}", "its format is not known"),
        (b"[1, 2]", "its format is not known"),
        (b'{"history": 3}', "its format is not known"),
        (b'{"history": [{"content": "a"}', "line 1, column 30"),
        (b'{"history": ["\xff"]}', "is not UTF-8"),
        (b"[" * 100_000, "its format is not known"),
        (b'{"question": "q", "mistake_agent": "x", "history": []}', "`history` is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_clear_error(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as raised:
        read(path)
    assert reason in str(raised.value)
    assert str(path) in str(raised.value)
    if "not known" in str(raised.value):
        assert "`rolecraft`" in str(raised.value)
        assert "`who_and_when`" in str(raised.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read(tmp_path / "nothing.json")
    with pytest.raises(TraceError, match="annotate_many"):
        read(tmp_path)


def test_a_stated_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", {"history": [{"role": "a", "content": "b"}]})
    with pytest.raises(TraceError, match="not known"):
        read(path)
    assert len(read(path, format="who_and_when").events) == 1
    with pytest.raises(UnknownName, match="who_and_when"):
        read(path, format="who-and-when")


def test_a_format_of_ones_own_can_be_added(tmp_path: Path, trace: Make) -> None:
    added = Format(
        "shout",
        "lines that somebody shouts",
        lambda source: source.head.startswith(b"HEY"),
        lambda source: trace(*[Event("message", "x", str(n)) for n in range(2)]),
        (".shout",),
    )
    try:
        register_format(added)
        path = write(tmp_path / "a.shout", "HEY\nHO\n")
        assert recognise(path) == "shout"
        assert len(read(path).events) == 2
        assert path in trace_files(tmp_path)
        with pytest.raises(UsageError, match="shout"):
            register_format(added)
    finally:
        FORMATS.pop("shout", None)


def test_a_folder_is_read_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    for name in ("10.json", "2.json", "1.json", "notes.txt", ".hidden.json"):
        write(tmp_path / name, HAND_CRAFTED)
    assert [path.name for path in trace_files(tmp_path)] == ["1.json", "2.json", "10.json"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TraceError, match="json"):
        trace_files(empty)


# --- our journals ---------------------------------------------------------------------------------


def test_a_journal_with_broken_lines_is_read_and_says_so(trace: Make, tmp_path: Path) -> None:
    events = [Event("message", role="ada", content=f"word {number}") for number in range(5)]
    path = save(trace(*events, Event("stop", data={"reason": "idle"})), tmp_path / "run.jsonl")
    lines = path.read_text().splitlines()
    lines[0] = lines[0][:5]
    lines[3] = "{broken"
    path.write_text("\n".join(lines) + "\n")
    assert recognise(path) == "rolecraft"
    trajectory = read(path)
    assert [event.seq for event in trajectory.events] == [0, 1, 3, 4, 5]
    assert any(f"{path}:4" in problem for problem in trajectory.problems)


async def test_where_lines_are_lost_nothing_is_called_absent(trace: Make, tmp_path: Path) -> None:
    """The check that nobody finds may stand in the line that nobody can read."""
    path = save(
        trace(
            Event("action", role="ada", data={"action": "Write"}),
            Event("message", role="ada", content="42", cause=0),
            Event("verify", role="ben", data={"target": "answer", "passed": True}),
            Event("stop", data={"reason": "finished"}),
            goal={"answer": "ada"},
        ),
        tmp_path / "run.jsonl",
    )
    whole = await annotate(path)
    assert {"repetition", "premature_end", "verification.absent"} <= whole.judged.keys()
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:-9]
    path.write_text("\n".join(lines) + "\n")
    torn = await annotate(path)
    assert torn.judged == {}
    assert "lines of the trace are lost" in torn.summary()
    assert f"{path}:4" in torn.summary()


# --- Who&When -------------------------------------------------------------------------------------


def test_a_turn_is_an_event_with_the_same_number_and_the_text_verbatim(tmp_path: Path) -> None:
    trajectory = read(write(tmp_path / "log.json", HAND_CRAFTED))
    turns: Any = HAND_CRAFTED["history"]
    assert [event.seq for event in trajectory.events] == [0, 1, 2, 3, 4]
    assert [event.content for event in trajectory.events] == [turn["content"] for turn in turns]
    assert [(event.kind, event.role, event.to) for event in trajectory.events] == [
        ("message", "human", ("<all>",)),
        ("thought", "Orchestrator", ("<all>",)),
        ("message", "Orchestrator", ("WebSurfer",)),
        ("message", "WebSurfer", ("<all>",)),
        ("message", "Orchestrator", ("<all>",)),
    ]
    assert trajectory.events[2].data["speaker"] == "Orchestrator (-> WebSurfer)"
    assert trajectory.id == "q-7"
    assert not trajectory.problems


def test_the_name_counts_before_the_role(tmp_path: Path) -> None:
    log = alg(
        {"content": "a", "name": "Chef", "role": "assistant"},
        {"content": "b", "role": "Baker"},
        {"content": "c", "name": "", "role": "Waiter"},
    )
    trajectory = read(write(tmp_path / "log.json", log))
    assert [event.role for event in trajectory.events] == ["Chef", "Baker", "Waiter"]
    assert trajectory.events[0].data["as"] == "assistant"


async def test_labels_are_kept_apart_from_what_is_judged(tmp_path: Path) -> None:
    history: Any = [*HAND_CRAFTED["history"], {"content": "x", "role": "y", "label": "SECRET"}]  # type: ignore[misc]
    trajectory = read(write(tmp_path / "log.json", {**HAND_CRAFTED, "history": history}))
    assert trajectory.about["labels"]["mistake_agent"] == "WebSurfer"
    assert trajectory.about["labels"]["level"] == 2
    assert trajectory.events[5].data["labels"] == {"label": "SECRET"}
    view = TraceView.of(trajectory)
    assert "SECRET" not in "".join(event.content for event in visible(view))
    assert "SECRET" not in (await annotate(trajectory)).to_json()


def test_executed_code_becomes_a_result_with_its_cause(tmp_path: Path) -> None:
    log = alg(
        {"content": "Run:\n```python\nprint(1)\n```\nand\n```sh\nls\n```", "name": "Coder"},
        {"content": "exitcode: 0 (execution succeeded)\nCode output: 1\n", "name": "Terminal"},
        {"content": "exitcode: 124 (execution failed)\nCode output: ", "name": "Terminal"},
        {"content": "There is no code for me to execute.", "name": "Terminal"},
    )
    result, orphan, notice = read(write(tmp_path / "log.json", log)).events[1:]
    assert (result.kind, result.role, result.cause) == ("tool_result", "Terminal", 0)
    assert result.data["arguments"] == {"code": ["print(1)\n", "ls\n"]}
    assert (result.data["ok"], result.data["exitcode"]) == (True, 0)
    assert result.content == log["history"][1]["content"]
    assert (orphan.kind, orphan.cause, orphan.data["ok"]) == ("tool_result", None, False)
    assert notice.kind == "message"


async def test_the_same_code_run_twice_for_nothing_is_a_repetition(tmp_path: Path) -> None:
    code = {"content": "Let me look.\n```python\nprint(1)\n```", "name": "Coder"}
    out = {"content": "exitcode: 0 (execution succeeded)\nCode output: 1\n", "name": "Terminal"}
    report = await annotate(write(tmp_path / "log.json", alg(code, out, code, out)))
    (found,) = report.present
    assert (found.mode, found.role, found.events) == ("repetition", "Coder", (2, 0))
    assert found.quote in code["content"]
    other = {"content": "Try ```python\nprint(2)\n```", "name": "Coder"}
    report = await annotate(write(tmp_path / "log.json", alg(code, out, other, out, code, out)))
    assert not report.present
    assert "repetition" in report.unjudged


async def test_code_after_the_farewell_is_a_run_that_does_not_end(tmp_path: Path) -> None:
    code = {"content": "Let me look.\n```python\nprint(1)\n```", "name": "Coder"}
    out = {"content": "exitcode: 0 (execution succeeded)\nCode output: 1\n", "name": "Terminal"}
    bye = {"content": "That is all.\n\nTERMINATE", "name": "Boss"}
    agreed = {"content": "Agreed. TERMINATE", "name": "Chef"}
    report = await annotate(write(tmp_path / "log.json", alg(bye, code, out)))
    (found,) = report.present
    assert (found.mode, found.role, found.events) == ("termination_unaware", "Coder", (1, 0))
    assert not (await annotate(write(tmp_path / "log.json", alg(code, out, bye, agreed)))).present


async def test_a_message_that_ends_an_action_is_no_farewell(tmp_path: Path) -> None:
    """`data["ends"]` says in records of ours that an action is over: it never is about the work."""
    code = {"content": "Let me look.\n```python\nprint(1)\n```", "name": "Coder"}
    out = {"content": "exitcode: 0 (execution succeeded)\nCode output: 1\n", "name": "Terminal"}
    log = read(write(tmp_path / "log.json", alg({"content": "Go.", "name": "Boss"}, code, out)))
    log.events[0].data["ends"] = True
    assert not (await annotate(log)).present


def test_odd_turns_are_kept_and_named(tmp_path: Path) -> None:
    log = alg(
        {"content": None, "name": "A"},
        {"content": [{"text": "hi"}], "name": "B"},
        {"content": "nobody said this"},
        {"content": "a number for a name", "name": 7},
    )
    trajectory = read(write(tmp_path / "log.json", log))
    assert [event.role for event in trajectory.events] == ["A", "B", "", "7"]
    assert trajectory.events[1].content == '[{"text": "hi"}]'
    assert [problem.split(": ", 1)[1] for problem in trajectory.problems] == [
        "turn 0: its content is no text and is kept as JSON",
        "turn 1: its content is no text and is kept as JSON",
        "turn 2: it names no speaker",
    ]
    stated = write(tmp_path / "odd.json", {"history": ["just a text", 5]})
    trajectory = read(stated, format="who_and_when")
    assert [event.content for event in trajectory.events] == ["just a text", "5"]


# --- folders ------------------------------------------------------------------------------------


async def test_labels_beside_their_runs_are_no_broken_traces(tmp_path: Path) -> None:
    """They are read with the runs; on their own they would be five errors in a folder of ten."""
    record = {
        "trace_id": "r1",
        "mas_name": "AG2",
        "llm_name": "m",
        "benchmark_name": "b",
        "trace": {"key": "k", "index": 0, "trajectory": "yaml\nname: ann\ncontent: hi\n"},
    }
    gold = tmp_path / "gold_labels_x.json"
    gold.write_text(json.dumps({"modes": ["FM-1.1"], "labels": {"r1": {"present": ["FM-1.1"]}}}))
    alone = tmp_path / "gold_labels_alone.json"
    alone.write_text("{}")
    runs = tmp_path / "raw_ag2_records_x.json"
    runs.write_text(json.dumps([record]))
    assert trace_files(tmp_path) == [alone, runs]  # nobody reads that one: it is an error, and said
    assert trace_files(gold) == [gold]
    with pytest.raises(TraceError, match=r"it belongs to .*raw_ag2_records_x\.json"):
        read(gold)
    (imported,) = read_all(runs)
    assert imported.labels[0].verdict("task_spec") == "present"
