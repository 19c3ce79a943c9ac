"""ChatDev logs: phases, turns, what they leave, and the runs of the software."""

from __future__ import annotations

from pathlib import Path

from rolecraft.failure_taxonomy import read, recognise
from rolecraft.trajectories import Trajectory

LOG = Path(__file__).parent / "files" / "chatdev.log"


def read_log() -> Trajectory:
    assert recognise(LOG) == "chatdev"
    return read(LOG)


def test_a_turn_is_an_action_of_its_phase_and_the_message_that_it_wrote() -> None:
    trajectory = read_log()
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("message", "Code Reviewer", None),
        ("action", "Programmer", None),
        ("message", "Programmer", 1),
        ("artifact", "Programmer", 2),
        ("artifact", "Programmer", 2),
        ("tool_result", "environment", None),
        ("tool_call", "Programmer", 2),
        ("action", "Software Test Engineer", None),
        ("message", "Software Test Engineer", 7),
        ("artifact", "Software Test Engineer", 8),
        ("stop", "", None),
    ]
    assert trajectory.events[1].data["action"] == "CodeReviewModification"
    assert trajectory.events[2].to == ("Code Reviewer",)
    assert trajectory.events[0].to == ("Programmer",)
    assert trajectory.events[0].content == "Fix the clock: it stands still."
    assert trajectory.events[2].content.startswith("main.py\n```python\nimport time")
    assert trajectory.stop_reason == "finished"
    assert not trajectory.problems


def test_a_system_prompt_is_kept_with_the_role_it_is_for() -> None:
    trajectory = read_log()
    roles = {role["name"]: role.get("system", "") for role in trajectory.about["roles"]}
    assert roles["Programmer"].endswith("You are Programmer. we are both working at ChatDev.")
    assert "You are Code Reviewer." in roles["Code Reviewer"]
    assert "ChatDev is a company" not in "".join(event.content for event in trajectory.events)


def test_what_a_phase_leaves_is_an_artifact_and_told_once() -> None:
    events = read_log().events
    conclusion, code, other = events[3], events[4], events[9]
    assert conclusion.artifact is not None
    assert code.artifact is not None
    assert other.artifact is not None
    assert conclusion.artifact.name == "CodeReviewModification"
    assert conclusion.content == ""  # the message before it says the same
    assert code.artifact.name == "main.py"
    assert "+import time" in code.content
    assert other.content.strip() == "<INFO> Install the module `clock`."


def test_tests_and_commands_are_tool_events() -> None:
    events = read_log().events
    assert events[5].data["ok"] is False
    assert "ModuleNotFoundError" in events[5].content
    assert events[6].data["arguments"] == {"command": "[CMD] pip install clock"}


def test_a_run_without_errors_is_a_good_result(tmp_path: Path) -> None:
    path = tmp_path / "fine.log"
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'clock'"
    path.write_text(LOG.read_text().replace(trace, "The software run successfully without errors."))
    assert read(path).events[5].data["ok"] is True


def test_the_task_and_the_tokens_are_read() -> None:
    trajectory = read_log()
    assert trajectory.about["task"] == "Write a clock.\nIt shows the time."
    assert (trajectory.usage.prompt_tokens, trajectory.usage.completion_tokens) == (40, 2)


def test_every_line_is_accounted_for() -> None:
    counts = read_log().about["accounting"]
    assert counts["total"] == len(LOG.read_text().splitlines())
    assert counts["unsegmented"] == 0


def test_other_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "Some banner\n"
        "[2025-17-01 11:36:43 INFO] **[Seminar Conclusion]**:\n\n <INFO> Clock\n"
        "[2025-17-01 11:36:43 ERROR] it broke\n  deeply\n"
        "[2025-17-01 11:36:43 INFO] **[Git Log]**\n\nfirst commit\n"
        "[2025-17-01 11:36:43 INFO] 3 files read from /w\n"
    )
    trajectory = read(path)
    assert [(event.kind, event.role, event.content) for event in trajectory.events] == [
        ("artifact", "", " <INFO> Clock"),
        ("error", "", "it broke\n  deeply"),
        ("message", "", "first commit"),
        ("message", "", "3 files read from /w"),
    ]
    assert trajectory.about["accounting"]["header"] == 1
