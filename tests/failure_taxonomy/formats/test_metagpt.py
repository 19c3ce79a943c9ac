"""MetaGPT logs: the console, the communication log of the MAST study's runs, and `team.json`.

`metagpt_console.log` and `metagpt_team.json` were made by one run of MetaGPT 0.8.2 with three
roles whose actions need no model.
"""

from __future__ import annotations

from pathlib import Path

from rolecraft.failure_taxonomy import annotate, read, recognise

FILES = Path(__file__).parent / "files"
ACT = "INFO     | metagpt.roles.role:_act:391 -"
CONSOLE = f"""\
2025-01-17 11:40:20.001 | INFO     | metagpt.team:invest:93 - Investment: $3.0.
2025-01-17 11:40:27.872 | {ACT} Alice(SimpleCoder): to do SimpleWriteCode(SimpleWriteCode)
```python
def double(x):
    return 2 * x
```
2025-01-17 11:40:28.001 | INFO     | metagpt.utils.cost_manager:update_cost:57 - Total: $0.1
2025-01-17 11:40:30.812 | INFO     | __main__:_act:85 - Bob(SimpleTester): to do Test(Test)
def test_double(): ...
2025-01-17 11:40:34.802 | {ACT} Charlie(SimpleReviewer): to do WriteReview(WriteReview)
2025-01-17 11:40:35.802 | ERROR    | metagpt.utils.common:wrapper:600 - Exception occurs
Traceback (most recent call last):
  no key
"""


def test_what_is_printed_after_an_action_is_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(CONSOLE)
    assert recognise(path) == "metagpt"
    trajectory = read(path)
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("action", "Alice", None),
        ("message", "Alice", 0),
        ("action", "Bob", None),
        ("message", "Bob", 2),
        ("action", "Charlie", None),
        ("error", "", None),
    ]
    assert trajectory.events[0].data["action"] == "SimpleWriteCode"
    assert trajectory.events[1].content == "```python\ndef double(x):\n    return 2 * x\n```"
    assert trajectory.events[5].content.endswith("no key")
    assert trajectory.about["roles"][1] == {"name": "Bob", "profile": "SimpleTester"}
    assert not trajectory.problems
    counts = trajectory.about["accounting"]
    assert (counts["total"], counts["header"], counts["unsegmented"]) == (13, 2, 0)


async def test_an_action_done_again_with_the_same_outcome_is_a_repetition(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    code = CONSOLE.splitlines()[1:6]
    path.write_text("\n".join([*code, *code]) + "\n")
    (found,) = (await annotate(path)).present
    assert (found.mode, found.role) == ("repetition", "Alice")


def test_the_communication_log_has_a_message_and_its_action_for_each_speaker() -> None:
    path = FILES / "metagpt_communication.log"
    assert recognise(path) == "metagpt"
    trajectory = read(path)
    assert [(event.kind, event.role, event.data.get("action")) for event in trajectory.events] == [
        ("message", "user", None),
        ("action", "SimpleCoder", "_act"),
        ("message", "SimpleCoder", None),
        ("action", "SimpleTester", "_act"),
        ("message", "SimpleTester", None),
        ("action", "SimpleReviewer", "SimpleWriteReview"),
        ("message", "SimpleReviewer", None),
    ]
    assert trajectory.about["task"] == "Write a function that doubles a number."
    assert (
        trajectory.events[2].content == "def double(x):\n    # Note: any number\n    return 2 * x"
    )
    assert sorted(trajectory.events[6].to) == ["SimpleCoder", "SimpleTester"]
    assert trajectory.stop_reason is None
    assert not trajectory.problems
    counts = trajectory.about["accounting"]
    assert counts["total"] == len(path.read_text().splitlines())
    assert counts["unsegmented"] == 0


def test_text_that_no_block_has_is_kept_and_named(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    text = (FILES / "metagpt_communication.log").read_text()
    path.write_text(text.replace("SimpleTester: \n", "who said this?\n"))
    trajectory = read(path)
    (odd,) = [event for event in trajectory.events if event.data.get("unsegmented")]
    assert odd.role == ""
    assert odd.content.startswith("who said this?")
    assert [event.seq for event in trajectory.events] == list(range(len(trajectory.events)))
    (problem,) = trajectory.problems
    first, last = odd.data["lines"]
    assert f"lines {first} to {last} could not be segmented" in problem
    assert trajectory.about["accounting"]["unsegmented"] == 3


def test_what_metagpt_itself_printed_and_stored_is_the_same_run() -> None:
    """A message's action and its text, from the console and from the roles' memories."""
    console, team = FILES / "metagpt_console.log", FILES / "metagpt_team.json"
    assert (recognise(console), recognise(team)) == ("metagpt", "metagpt_team")
    printed, stored = read(console), read(team)
    assert not printed.problems
    assert not stored.problems
    assert stored.events[0].role == "user"
    assert stored.about["task"] == "Write a function that doubles a number."
    deeds = [(event.kind, event.role, event.data.get("action")) for event in printed.events]
    assert deeds[0] == ("action", "Alice", "SimpleWriteCode")
    assert len(deeds) == 10
    assert deeds == [
        (event.kind, event.role, event.data.get("action")) for event in stored.events[1:11]
    ]
    assert [event.content for event in printed.events] == [
        event.content for event in stored.events[1:11]
    ]
    counts = printed.about["accounting"]
    assert (counts["total"], counts["unsegmented"]) == (len(console.read_text().splitlines()), 0)
    assert stored.about["accounting"]["events"] == 6


def test_warnings_before_the_first_action_belong_to_the_header(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    first, *rest = CONSOLE.splitlines()
    path.write_text("\n".join(["/lib/x.py:9: FutureWarning", first, "  import y", *rest]) + "\n")
    trajectory = read(path)
    assert trajectory.events[0].kind == "action"
    assert trajectory.about["accounting"]["header"] == 4
