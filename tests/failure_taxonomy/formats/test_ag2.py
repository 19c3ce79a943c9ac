"""AG2 chats: what AG2 keeps, what it prints, and how the MAST data write it out.

`ag2_chat.json` and `ag2_console.log` were made with AG2 0.9.10 from the agents below; where AG2 is
installed, the same chat is held anew and must be read alike.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import annotate, read, recognise
from rolecraft.failure_taxonomy.formats.logs import segment
from rolecraft.trajectories import Trajectory

FILES = Path(__file__).parent / "files"

SAID: list[Any] = [
    "Let me add the numbers.\n\n```python\nprint(sum([3, 4, 5]))\n```",
    "I check the product.\n\n```python\nprint(1 / 0)\n```",
    {
        "content": "",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weight_of", "arguments": '{"thing": "parcel"}'},
            }
        ],
    },
    "The sum is 12 and the parcel weighs 2 kg.\n\nTERMINATE",
]


def hold_a_chat(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """The chat of the fixture, held by AG2 itself: its history, and what it prints."""
    autogen = pytest.importorskip("autogen", reason="AG2 (package `ag2`) is not installed")
    said = iter(SAID)
    clerk = autogen.ConversableAgent("clerk", llm_config=False, human_input_mode="NEVER")
    clerk.register_reply(
        [autogen.ConversableAgent, None], lambda *_, **__: (True, next(said)), position=0
    )
    desk = autogen.UserProxyAgent(
        "desk",
        human_input_mode="NEVER",
        max_consecutive_auto_reply=6,
        is_termination_msg=lambda m: (m.get("content") or "").rstrip().endswith("TERMINATE"),
        code_execution_config={"work_dir": str(folder), "use_docker": False},
    )

    def weight_of(thing: str) -> str:
        return f"the {thing} weighs 2 kg"

    desk.register_for_execution(name="weight_of")(weight_of)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = desk.initiate_chat(
            clerk, message="Add 3, 4 and 5, and tell me what the parcel weighs."
        )
    return result.chat_history, printed.getvalue()


def what_happened(trajectory: Trajectory) -> list[tuple[str, str, int | None]]:
    return [(event.kind, event.role, event.cause) for event in trajectory.events]


EXPECTED = [
    ("message", "desk", None),
    ("message", "clerk", None),
    ("tool_result", "desk", 1),
    ("message", "clerk", None),
    ("tool_result", "desk", 3),
    ("tool_call", "clerk", None),
    ("tool_result", "desk", 5),
    ("message", "clerk", None),
]


@pytest.fixture(params=["of the fixture", "held now"])
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """The history of the chat and what was printed, as files."""
    if request.param == "of the fixture":
        return FILES / "ag2_chat.json", FILES / "ag2_console.log"
    history, printed = hold_a_chat(tmp_path / "work")
    kept, log = tmp_path / "chat.json", tmp_path / "chat.log"
    kept.write_text(json.dumps(history))
    log.write_text(printed)
    return kept, log


def test_a_chat_that_ag2_kept_is_read_with_code_tools_and_farewell(chat: tuple[Path, Path]) -> None:
    kept, _ = chat
    assert recognise(kept) == "ag2"
    trajectory = read(kept)
    assert what_happened(trajectory) == EXPECTED
    assert not trajectory.problems
    first, second = trajectory.events[2], trajectory.events[4]
    assert (first.data["ok"], first.data["exitcode"]) == (True, 0)
    assert (second.data["ok"], second.data["exitcode"]) == (False, 1)
    assert first.data["arguments"] == {"code": ["print(sum([3, 4, 5]))\n"]}
    call, result = trajectory.events[5:7]
    assert (call.data["tool"], call.data["arguments"]) == ("weight_of", {"thing": "parcel"})
    assert (result.content, result.data["tool"]) == ("the parcel weighs 2 kg", "weight_of")
    assert trajectory.events[7].data["farewell"] is True
    assert trajectory.about["task"].startswith("Add 3, 4 and 5")
    assert trajectory.about["roles"] == [{"name": "desk"}, {"name": "clerk"}]
    counts = trajectory.about["accounting"]
    assert (counts["unit"], counts["total"], counts["events"]) == ("element", 8, 8)


def test_what_ag2_printed_is_read_alike_and_says_how_it_ended(chat: tuple[Path, Path]) -> None:
    kept, log = chat
    assert recognise(log) == "ag2_console"
    printed = read(log)
    assert not printed.problems
    assert what_happened(printed) == [*EXPECTED, ("stop", "", None)]
    assert printed.stop_reason == "finished"
    for ours, theirs in zip(printed.events, read(kept).events, strict=False):
        assert ours.content.strip() == theirs.content.strip()
        assert ours.data.get("arguments") == theirs.data.get("arguments")
    assert printed.events[1].to == ("desk",)


def test_a_call_without_a_name_belongs_to_the_one_whose_turn_it_is() -> None:
    history = json.loads((FILES / "ag2_chat.json").read_text())
    assert "name" not in history[5]
    assert read(FILES / "ag2_chat.json").events[5].role == "clerk"


def test_a_result_of_a_chat_is_an_object_with_the_history(tmp_path: Path) -> None:
    history = json.loads((FILES / "ag2_chat.json").read_text())
    path = tmp_path / "result.json"
    result = {"chat_id": 7, "chat_history": history, "summary": "12", "cost": {}, "score": 0.5}
    path.write_text(json.dumps(result))
    trajectory = read(path)
    assert what_happened(trajectory) == EXPECTED
    assert trajectory.about["labels"] == {"score": 0.5}
    assert trajectory.about["accounting"]["total"] == 8 + 4


def test_lines_parts_and_old_function_calls_are_messages_too(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    chat = [
        {"name": "a", "role": "user", "content": ["one", "two"]},
        {"name": "b", "role": "user", "content": [{"type": "text", "text": "three"}]},
        {"name": "b", "role": "assistant", "function_call": {"name": "f", "arguments": "{oops"}},
        {"name": "f", "role": "function", "content": "Error: no"},
        {"name": "a", "role": "user", "content": {"x": 1}},
        {"role": "user", "content": "who?", "tool_calls": []},
        {"name": "a", "role": "user", "content": None},
    ]
    path.write_text(json.dumps(chat))
    trajectory = read(path, format="ag2")
    events = trajectory.events
    assert [event.content for event in events[:2]] == ["one\ntwo", "three"]
    assert events[2].data["arguments"] == {"text": "{oops"}
    assert (events[3].kind, events[3].cause, events[3].data["ok"]) == ("tool_result", 2, False)
    assert events[4].content == '{"x": 1}'
    assert [problem.split(": ", 1)[1] for problem in trajectory.problems] == [
        "message 4: its content is no text and is kept as JSON"
    ]
    assert trajectory.about["accounting"]["events"] == 7


def test_an_empty_or_foreign_file_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    for text in ("[]", "{}", '{"chat_history": 4}', "[broken"):
        path.write_text(text)
        with pytest.raises(TraceError):
            read(path, format="ag2")


def test_the_maths_proxy_reports_executions_without_an_exit_code(tmp_path: Path) -> None:
    code = {"name": "assistant", "content": "Key idea.\n```python\nprint(29.0)\n```"}
    chat = [
        {"name": "mathproxyagent", "content": "Let's solve it. ```python\n# your code\n```"},
        code,
        {"name": "mathproxyagent", "content": "29.0"},
        {"name": "assistant", "content": "\\boxed{29}"},
        {"name": "mathproxyagent", "content": "Continue. Please keep solving the problem."},
        code,
        {"name": "mathproxyagent", "content": "Error: 'x' is not defined"},
        code,
        {"name": "mathproxyagent", "content": "Continue. Please keep solving the problem."},
    ]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(chat))
    kinds = [(event.kind, event.cause, event.data.get("ok")) for event in read(path).events]
    assert kinds[2] == ("tool_result", 1, True)
    assert kinds[6] == ("tool_result", 5, False)
    assert [kind for kind, _, _ in kinds].count("tool_result") == 2


# --- written out as text --------------------------------------------------------------------------

LISTING = """\
instance_id: 02da
problem_statement:
  How many bows
  can she tie?
other_data:
  correct: SECRET True
trajectory:
      content:
            How many bows?
            ```python
            print(12)
            ```
      role: assistant
      name: mathproxyagent
      content:
            Twelve. role: clown
      role: user
      name: assistant
note:
  text:
    SECRET It was right.
  options:
    Step repetition: no
    Unaware of stopping conditions: yes
"""


def test_a_chat_written_as_dictionaries_is_read_as_the_chat(tmp_path: Path) -> None:
    history = json.loads((FILES / "ag2_chat.json").read_text())
    tricky = {"content": "I quote: {'content': 'x', 'role': 'y'}", "role": "user", "name": "clerk"}
    text = "\n".join(repr(message) for message in [*history[:5], tricky])
    log, name = segment(text, "ag2_dump")
    trajectory = log.trajectory("x", where="x")
    assert name == "ag2_dump"
    assert what_happened(trajectory)[:5] == EXPECTED[:5]
    assert trajectory.events[5].content == tricky["content"]
    assert not trajectory.problems
    assert trajectory.about["accounting"]["events"] == 6
    together, _ = segment("".join(repr(message) for message in history[:5]), "ag2_dump")
    assert what_happened(together.trajectory("x", where="x")) == EXPECTED[:5]


def test_a_chat_written_as_a_listing_is_read_without_its_labels() -> None:
    log, _ = segment(LISTING)
    trajectory = log.trajectory("x", where="x")
    assert [(event.role, event.content) for event in trajectory.events] == [
        ("mathproxyagent", "How many bows?\n```python\nprint(12)\n```"),
        ("assistant", "Twelve. role: clown"),
    ]
    assert trajectory.about["task"] == "How many bows\ncan she tie?"
    assert trajectory.about["labels"].keys() == {"other_data", "note"}
    assert trajectory.about["labels"]["note"]["options"] == {
        "Step repetition": "no",
        "Unaware of stopping conditions": "yes",
    }
    assert not trajectory.problems
    counts = trajectory.about["accounting"]
    assert (counts["total"], counts["labels"], counts["unsegmented"]) == (24, 8, 0)


async def test_a_farewell_in_a_printed_chat_ends_the_work(tmp_path: Path) -> None:
    text = (FILES / "ag2_console.log").read_text()
    rule = "-" * 80
    more = (
        f"\nclerk (to desk):\n\nOnce more:\n```python\nprint(1)\n```\n\n{rule}\n"
        f"desk (to clerk):\n\nexitcode: 0 (execution succeeded)\nCode output: \n1\n\n{rule}\n"
    )
    path = tmp_path / "on.log"
    path.write_text(text + more)
    report = await annotate(path)
    assert "termination_unaware" in {finding.mode for finding in report.present}
