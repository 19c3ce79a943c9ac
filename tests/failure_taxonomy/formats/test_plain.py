"""Plain transcripts: who speaks, to whom, and what is no transcript."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import read, recognise

CHAT = """\
User: Which bird is it?

Ada -> Ben: Please look.
  Note: it is small.
[12:30:01] Ben -> Ada: A wren.
Note: I am sure.
**Ada**: Then it is a wren.
```
User: this is code
```
Ben (to Ada):
Agreed.
TERMINATE
Ada: Good.
"""


def test_speakers_receivers_and_times_are_read(tmp_path: Path) -> None:
    path = tmp_path / "chat.log"
    path.write_text(CHAT)
    assert recognise(path) == "text"
    trajectory = read(path)
    assert [(event.role, event.to, event.content) for event in trajectory.events[1:]] == [
        ("Ada", ("Ben",), "Please look.\n  Note: it is small."),
        ("Ben", ("Ada",), "A wren.\nNote: I am sure."),
        ("Ada", ("<all>",), "Then it is a wren.\n```\nUser: this is code\n```"),
        ("Ben", ("Ada",), "Agreed.\nTERMINATE"),
        ("Ada", ("<all>",), "Good."),
    ]
    assert trajectory.events[-2].data["farewell"] is True


def test_what_nobody_said_is_kept_and_named(tmp_path: Path) -> None:
    """`User` speaks once and without a time or an arrow: that may be any line with a colon."""
    path = tmp_path / "chat.log"
    path.write_text(CHAT)
    trajectory = read(path)
    first = trajectory.events[0]
    assert (first.role, first.content) == ("", "User: Which bird is it?")
    assert trajectory.problems == [f"{path}: line 1 could not be segmented"]
    counts = trajectory.about["accounting"]
    assert (counts["total"], counts["unsegmented"], counts["blank"]) == (14, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Hello world.\nThis is a letter.\nGoodbye.\n",
        "Note: one\nNote: two\nWarning: three\nNote: four\n",
        "name: wren\nsize: small\nname: robin\nsize: small\n",
        "Step 1: look\nStep 2: go\nStep 1: look\nStep 2: go\n",
        "Ada: I talk to myself.\nAda: Still.\nAda: And on.\nAda: Yes.\n",
        "one\n" * 50 + "Ada: a\nBen: b\nAda: c\nBen: d\n",
        "    Ada: a\n    Ben: b\n    Ada: c\n    Ben: d\n",
        "Thought: a\nAction: b\nThought: c\nAction: d\n",
    ],
)
def test_other_text_is_not_taken_for_a_transcript(tmp_path: Path, text: str) -> None:
    path = tmp_path / "letter.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match="its format is not known"):
        read(path)


def test_stated_as_text_it_is_read_whatever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Hello world.\nThis is a letter.\n")
    trajectory = read(path, format="text")
    (event,) = trajectory.events
    assert (event.role, event.content) == ("", "Hello world.\nThis is a letter.")
    assert "lines 1 to 2 could not be segmented" in trajectory.problems[0]
    path.write_text("planner: go\ncoder: done\nplanner: thanks\ncoder: bye\n")
    assert [event.role for event in read(path, format="text").events] == ["planner", "coder"] * 2


def test_the_first_word_of_a_user_is_the_task(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("user: Which bird?\nassistant: A wren.\nuser: Sure?\nassistant: Yes.\n")
    trajectory = read(path)
    assert trajectory.about["task"] == "Which bird?"
    assert [event.role for event in trajectory.events] == ["user", "assistant"] * 2


def test_executed_code_is_a_result_here_too(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(
        "Ada: Run it.\n```python\nprint(1)\n```\n"
        "Shell: exitcode: 0 (execution succeeded)\nCode output: 1\nAda: Fine.\nShell: ok\n"
    )
    result = read(path).events[1]
    assert (result.kind, result.role, result.cause) == ("tool_result", "Shell", 0)
    assert result.data["arguments"] == {"code": ["print(1)\n"]}


def test_bytes_that_are_no_text_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_bytes(b"Ada: caf\xe9\nBen: b\nAda: c\nBen: d\n")
    trajectory = read(path)
    assert trajectory.events[0].content == "caf\N{REPLACEMENT CHARACTER}"
    assert trajectory.about["warnings"] == ["1 bytes are no UTF-8 and were replaced"]
