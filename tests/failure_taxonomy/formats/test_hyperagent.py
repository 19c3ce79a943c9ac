"""HyperAgent logs: thoughts, code, subgoals, what interns hand back, and runs that start over."""

from __future__ import annotations

import json
from pathlib import Path

from rolecraft.failure_taxonomy import read, recognise
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.trajectories import Trajectory

FILES = Path(__file__).parent / "files"
LOG = FILES / "hyperagent.log"


def read_log() -> Trajectory:
    assert recognise(LOG) == "hyperagent"
    return read(LOG)


def test_a_log_becomes_thoughts_calls_results_and_a_reset() -> None:
    trajectory = read_log()
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("thought", "Planner", None),
        ("tool_call", "Planner", None),
        ("thought", "Navigator", None),
        ("tool_call", "Navigator", None),
        ("thought", "Navigator", None),
        ("message", "Navigator", None),
        ("tool_result", "Navigator", 1),
        ("reset", "", None),
        ("thought", "Planner", None),
        ("tool_call", "Planner", None),
        ("thought", "Planner", None),
        ("tool_call", "Planner", None),
        ("thought", "Editor", None),
        ("tool_call", "Editor", None),
        ("tool_result", "Editor", 13),
        ("tool_result", "Editor", 9),
    ]
    assert not trajectory.problems


def test_a_subgoal_is_a_call_of_the_intern_and_code_a_call_of_its_tool() -> None:
    events = read_log().events
    assert events[1].data["tool"] == "Navigator"
    assert events[1].data["arguments"] == {
        "subgoal": "Find the function `count_wings`.\nLook in all modules."
    }
    assert events[6].content == "`count_wings` is in birds/wings.py."
    assert events[6].to == ("Planner",)
    code = events[3].data
    assert code["tool"] == "code_search"
    assert code["arguments"]["code"].startswith("result = code_search._run(")
    assert "# Thought: this is a comment" in code["arguments"]["code"]
    assert events[3].data["speaker"] == "Inner-Navigator-Assistant"
    assert events[13].data["tool"] == "bash"
    assert events[14].content == "1 passed"


def test_a_call_after_which_its_author_went_on_was_carried_out() -> None:
    events = read_log().events
    assert events[3].data["done"] is True
    assert "done" not in events[13].data  # its result is in the log


def test_records_that_the_log_repeats_are_marked() -> None:
    trajectory = read_log()
    assert [event.seq for event in trajectory.events if event.data.get("again")] == [10, 11]
    assert trajectory.about["repeated"] == round(1 / 9, 3)


def test_a_second_beginning_is_one_reset_however_often_it_is_logged() -> None:
    resets = [event for event in read_log().events if event.kind == "reset"]
    assert [event.content for event in resets] == ["Initialized HyperAgent instance birds__birds-7"]


def test_an_echoed_prompt_is_no_deed_but_says_what_the_intern_was_told() -> None:
    trajectory = read_log()
    roles = {role["name"]: role for role in trajectory.about["roles"]}
    assert roles["Navigator"]["system"].startswith("Use the following format")
    assert "what to do" not in "".join(event.content for event in trajectory.events)


def test_every_line_is_accounted_for_and_every_event_says_where_it_stands() -> None:
    trajectory = read_log()
    lines = LOG.read_text().splitlines()
    counts = trajectory.about["accounting"]
    assert (counts["total"], counts["unsegmented"]) == (len(lines), 0)
    for event in trajectory.events:
        first, last = event.data["lines"]
        assert 1 <= first <= last <= len(lines)
        for line in event.content.splitlines():
            assert any(line.strip() in whole for whole in lines[first - 1 : last])


def test_the_forms_of_the_mast_data_give_the_same_events(tmp_path: Path) -> None:
    """A JSON list of lines, and the same written out with an indent of two."""
    lines = LOG.read_text().splitlines()
    fields = {
        "instance_id": "birds__birds-7",
        "problem_statement": ["Wings are", "miscounted."],
        "other_data": {"correct": "SECRET"},
        "trajectory": lines,
        "note": {"text": ["SECRET"], "options": {"Trajectory restart": "yes"}},
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(fields))
    (imported,) = read_all(path)
    listed = imported.trajectory
    bare = read_log()
    assert [(e.kind, e.role, e.content) for e in listed.events] == [
        (e.kind, e.role, e.content) for e in bare.events
    ]
    assert listed.about["task"] == "Wings are\nmiscounted."
    assert listed.id == "birds__birds-7"
    (labels,) = imported.labels
    assert (labels.annotator, labels.verdict("reset")) == ("open codes", "present")
    dumped = "instance_id: birds__birds-7\nproblem_statement:\n  Wings.\ntrajectory:\n"
    dumped += "".join(f"  {line}\n" for line in lines) + "note:\n  text: SECRET\n"
    record = {"mas_name": "HyperAgent", "trace": {"trajectory": dumped}, "mast_annotation": {}}
    path.write_text(json.dumps([record]))
    written = read(path)
    assert [(e.kind, e.role, e.content) for e in written.events] == [
        (e.kind, e.role, e.content) for e in bare.events
    ]
    assert written.about["accounting"]["unsegmented"] == 0
    for trajectory in (listed, written):
        assert "SECRET" not in "".join(event.content for event in trajectory.events)


def test_what_stands_before_the_first_record_belongs_to_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("Loading the model\n\n" + LOG.read_text())
    trajectory = read(path)
    assert len(trajectory.events) == 16
    assert trajectory.about["accounting"]["header"] == 8 + 1
    assert not trajectory.problems


def test_other_records_are_kept_without_a_speaker(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "HyperAgent_x - INFO - Planner's Response: I am done.\n"
        "HyperAgent_x - ERROR - the server is gone\n"
        "HyperAgent_x - INFO - 3 files changed\n"
    )
    assert [(event.kind, event.role, event.content) for event in read(path).events] == [
        ("message", "Planner", "I am done."),
        ("error", "", "the server is gone"),
        ("message", "", "3 files changed"),
    ]
