"""A format of one's own as a field mapping in YAML, TOML or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import RolecraftError, TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy import read, recognise, register_format
from rolecraft.failure_taxonomy.distribution_input import origin_of
from rolecraft.failure_taxonomy.formats import FORMATS, Format, load_mapping, read_all
from rolecraft.failure_taxonomy.formats.base import Source
from rolecraft.trajectories import Trajectory

YAML = """
name: helpdesk
traces: runs
id: run_id
task: ticket.text
events: log
event:
  role: [agent, who]
  content: text
  kind: type
  kinds: {say: message, plan: thought, use: tool_call, got: tool_result}
  to: for
  tool: call.name
  arguments: call.args
  id: call.id
  ok: fine
roles: {customer: user}
where: {version: 2}
"""
TOML = """
name = "helpdesk"
traces = "runs"
id = "run_id"
task = "ticket.text"
events = "log"
roles = { customer = "user" }
where = { version = 2 }
[event]
role = ["agent", "who"]
content = "text"
kind = "type"
kinds = { say = "message", plan = "thought", use = "tool_call", got = "tool_result" }
to = "for"
tool = "call.name"
arguments = "call.args"
id = "call.id"
ok = "fine"
"""
RUN = {
    "run_id": "r1",
    "version": 2,
    "ticket": {"text": "The lamp is broken."},
    "resolved": "SECRET no",
    "log": [
        {"who": "customer", "text": "The lamp is broken.", "type": "say"},
        {"agent": "desk", "text": "I look it up.", "type": "plan"},
        {"agent": "desk", "type": "use", "call": {"name": "stock", "args": {"x": 1}, "id": 7}},
        {"agent": "desk", "type": "got", "text": "none", "call": {"id": 7}, "fine": False},
        {"agent": "desk", "text": "Sorry.", "type": "say", "for": "customer"},
    ],
}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(("ending", "text"), [("yaml", YAML), ("toml", TOML)])
def test_a_mapping_reads_what_it_describes(ending: str, text: str, tmp_path: Path) -> None:
    form = load_mapping(write(tmp_path / f"map.{ending}", text))
    path = write(tmp_path / "runs.json", {"runs": [RUN, {**RUN, "run_id": "r2"}]})
    try:
        register_format(form)
        assert recognise(path) == "helpdesk"
        first, second = read_all(path)
    finally:
        FORMATS.pop("helpdesk", None)
    assert second.name == f"{path}#r2"
    trajectory = first.trajectory
    assert [(e.kind, e.role, e.content) for e in trajectory.events] == [
        ("message", "user", "The lamp is broken."),
        ("thought", "desk", "I look it up."),
        ("tool_call", "desk", ""),
        ("tool_result", "desk", "none"),
        ("message", "desk", "Sorry."),
    ]
    call, result = trajectory.events[2:4]
    assert call.data == {"tool": "stock", "arguments": {"x": 1}, "id": "7"}
    assert (result.cause, result.data["ok"]) == (call.seq, False)
    assert trajectory.events[4].to == ("user",)  # roles have their other names as receivers too
    assert trajectory.about["task"] == "The lamp is broken."
    assert trajectory.about["labels"] == {"version": 2, "resolved": "SECRET no"}
    assert trajectory.about["records"] == ["message", "thought", "tool_call", "tool_result"]
    assert trajectory.about["accounting"]["total"] == 5


def test_fields_beside_a_named_one_in_an_object_are_labels(tmp_path: Path) -> None:
    given = {"name": "nested", "events": "log.items", "id": "run.name", "task": "run.task.text"}
    event = {"event": {"role": "who", "content": "text"}}
    form = load_mapping(write(tmp_path / "map.json", given | event))
    log = {"items": [{"who": "desk", "text": "Sorry."}], "score": "SECRET"}
    run = {"name": "r1", "task": {"text": "Mend it.", "hint": "SECRET"}, "by": "ada"}
    trajectory = form.load(Source(write(tmp_path / "run.json", {"log": log, "run": run})))
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, trajectory.about["task"]) == ("r1", "Mend it.")
    labels = {"log": {"score": "SECRET"}, "run": {"task": {"hint": "SECRET"}, "by": "ada"}}
    assert trajectory.about["labels"] == labels
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])


def test_one_trace_a_line_needs_no_field_of_traces(tmp_path: Path) -> None:
    text = "name: a\nevents: log\nevent: {role: agent, content: text}\n"
    form = load_mapping(write(tmp_path / "map.yaml", text))
    lines = "".join(
        json.dumps({"log": [{"agent": "x", "text": f"{number}"}]}) + "\n" for number in (1, 2)
    )
    path = write(tmp_path / "runs.jsonl", lines)
    try:
        register_format(form)
        assert [each.trajectory.events[0].content for each in read_all(path)] == ["1", "2"]
        other = write(tmp_path / "other.json", {"log": [{"speaker": "x"}]})
        with pytest.raises(TraceError):
            read(other)
    finally:
        FORMATS.pop("a", None)


def test_what_a_mapping_does_not_fit_is_kept_and_named(tmp_path: Path) -> None:
    text = (
        "name: a\nevents: log\nevent: {role: agent, content: text, kind: type, kinds: {s: message}}"
    )
    form = load_mapping(write(tmp_path / "map.yaml", text))
    log = [{"agent": "x", "text": "1", "type": "odd"}, {"else": 1}, {"text": "2", "type": "s"}]
    path = write(tmp_path / "run.json", {"log": log})
    try:
        register_format(form)
        trajectory = read(path, format="a")
    finally:
        FORMATS.pop("a", None)
    assert [(e.role, e.content) for e in trajectory.events] == [
        ("x", "1"),
        ("", '{"else": 1}'),
        ("", "2"),
    ]
    assert trajectory.problems == [
        "event 0: its kind 'odd' is not in `kinds`",
        "event 1 has none of the mapped fields",
        "event 2 names no role",
    ]
    assert trajectory.about["accounting"]["unsegmented"] == 1


@contextmanager
def known(form: Format) -> Iterator[None]:
    register_format(form)
    try:
        yield
    finally:
        FORMATS.pop(form.name, None)


LINES = """
name: flow
lines: event
trace: run
task: asked
system: app.name
model: llm
scenario: kind
event: {role: who, content: said, kind: what, kinds: {call: tool_call, got: tool_result}, tool: t}
"""


def test_lines_that_are_events_are_grouped_into_traces(tmp_path: Path) -> None:
    """The commonest form of a log: one event a line, the runs of a server among each other."""
    rows: list[dict[str, Any]] = [
        {"run": "a", "who": "ann", "said": "A1", "asked": "Paint.", "app": {"name": "shop"}},
        {"run": "b", "who": "bob", "said": "B1", "llm": "gpt-x", "kind": "colours"},
        {"run": "a", "who": "ann", "what": "call", "t": "mix", "score": 0.25},
        {"run": "a", "who": "ann", "what": "got", "t": "mix", "said": "green"},
        {"who": "lost", "said": "C1"},
    ]
    path = write(tmp_path / "flow.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with known(load_mapping(write(tmp_path / "map.yaml", LINES))):
        assert recognise(path) == "flow"
        found = {each.name: each.trajectory for each in read_all(path)}
    assert list(found) == [f"{path}#a", f"{path}#b", f"{path}#2"]
    first, second, rest = found.values()
    assert [(event.kind, event.content) for event in first.events] == [
        ("message", "A1"),
        ("tool_call", ""),
        ("tool_result", "green"),
    ]
    assert first.events[2].cause == first.events[1].seq
    assert (first.about["task"], first.about["system"]) == ("Paint.", "shop")
    assert (second.about["model"], second.about["scenario"]) == ("gpt-x", "colours")
    assert origin_of(second)["scenario"] == "colours"
    assert first.problems == []
    assert rest.problems == ["its lines have no `run`"]
    assert "0.25" not in json.dumps([event.data for event in first.events])


def test_lines_without_a_field_of_traces_are_one_trace(tmp_path: Path) -> None:
    text = "name: flow\nlines: event\nevent: {role: who, content: said}\n"
    path = write(tmp_path / "run.jsonl", '{"who": "a", "said": "1"}\n{"who": "b", "said": "2"}\n')
    with known(load_mapping(write(tmp_path / "map.yaml", text))):
        trajectory = read(path)
    assert trajectory.id == "run"
    assert [event.role for event in trajectory.events] == ["a", "b"]


def test_a_trace_says_its_system_model_and_scenario(tmp_path: Path) -> None:
    text = (
        "name: a\nevents: log\nsystem: app\nmodel: meta.llm\nscenario: kind\n"
        "event: {role: who, content: text}\n"
    )
    run = {"app": "shop", "meta": {"llm": "m", "score": 1}, "kind": "k"}
    run |= {"log": [{"who": "x", "text": "1"}]}  # type: ignore[dict-item]
    with known(load_mapping(write(tmp_path / "map.yaml", text))):
        trajectory = read(write(tmp_path / "run.json", run))
    origin = origin_of(trajectory)
    assert (origin["system"], origin["model"], origin["scenario"]) == ("shop", "m", "k")
    assert trajectory.about["labels"] == {"meta": {"score": 1}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "events: stepz\nevent: {role: who, content: text}",
            "no list of events is in it (`stepz`)",
        ),
        ("events: log\nevent: {role: agentt, content: text}", "no event has a role (`agentt`)"),
        ("events: log\nevent: {role: who, content: txt}", "no event has a content (`txt`)"),
        ("events: log\ntraces: runs\nevent: {role: who, content: text}", "no list of traces is in"),
        ("events: log\nwhere: {v: 2}\nevent: {role: who, content: text}", "its `v` is not 2"),
        ("lines: event\nevent: {role: who, content: text}", "no event has a role (`who`)"),
    ],
)
def test_a_mapping_that_does_not_fit_a_file_says_why_itself(
    text: str, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "run.json", {"v": 1, "log": [{"who": "x", "text": "1"}]})
    with known(load_mapping(write(tmp_path / "map.yaml", f"name: a\n{text}\n"))):
        with pytest.raises(TraceError) as raised:
            read(path)
        assert says in str(raised.value)
        assert "the mapping `a` does not fit" in str(raised.value)
        assert "Known formats" not in str(raised.value)
        if "where" not in text:  # who names the format wants it whatever the file has to be
            with pytest.raises(TraceError, match="does not fit"):
                read(path, format="a")


def test_a_trace_without_a_list_of_events_is_counted(tmp_path: Path) -> None:
    text = "name: a\nevents: log\nevent: {role: who, content: text}\n"
    path = write(tmp_path / "run.json", [{"log": [{"who": "x", "text": "1"}]}, {"lag": []}])
    with known(load_mapping(write(tmp_path / "map.yaml", text))):
        trajectory = read(path)
    assert trajectory.problems == [f"{path}: without a list of events, and left out: 1"]


def test_json_lines_of_no_known_form_are_not_called_extra_data(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", '{"a": 1}\n{"b": 2}\n')
    with pytest.raises(TraceError, match="holds several values, the second in line 2") as raised:
        read(path)
    assert "Extra data" not in str(raised.value)
    assert "`--mapping`" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("name: a\nevents: log", UsageError, "wants a `name`"),
        ("[1, 2]", UsageError, "is an object"),
        ("name: [", UsageError, "is not valid"),
        ("name: a\nevents: l\nevent: {role: r, content: c}\nevnts: x", UnknownName, "'events'"),
        ("name: a\nevents: l\nevent: {role: r, contnt: c}", UnknownName, "'content'"),
        ("name: a\nevents: l\nevent: {role: r}", UsageError, "where `role` and `content`"),
        ("name: a\nevents: l\nevent: {role: 3, content: c}", UsageError, "a list of names, not 3"),
        ("name: a\nlines: word\nevent: {role: r, content: c}", UsageError, "not 'word'"),
        ("name: a\nlines: event\nevents: l\nevent: {role: r, content: c}", UsageError, "`events`"),
        ("name: a\nevents: l\ntrace: x\nevent: {role: r, content: c}", UsageError, "`trace` is of"),
        (
            "name: a\nevents: l\nevent: {role: r, content: c, kinds: {x: massage}}",
            UnknownName,
            "'message'",
        ),
    ],
)
def test_a_mapping_that_is_wrong_says_where(
    text: str, error: type[RolecraftError], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as raised:
        load_mapping(write(tmp_path / "map.yaml", text))
    assert says in str(raised.value)
    assert "map.yaml" in str(raised.value)


def test_a_mapping_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_mapping(tmp_path / "none.yaml")
