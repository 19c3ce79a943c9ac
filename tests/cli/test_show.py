"""`rolecraft show`: a run for people to read."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.formats import FORMATS
from rolecraft.trajectories import Event, Trajectory, Usage


@pytest.fixture
def journal(tmp_path):
    events = [
        Event("message", role="user", content="A poem", to=("Writer",)),
        Event("action", role="Writer", data={"action": "Draft"}, time=1, cause=0),
        Event("model_call", role="Writer", content="Rain", usage=Usage(7, 3, 0.25), time=1),
        Event("message", role="Writer", content="Rain\nand snow", to=("<all>",), time=1, cause=1),
        Event("stop", data={"reason": "idle"}, time=1),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory("poem", {"task": {"prompt": "A poem"}}, events).save(tmp_path / "run.jsonl")


def test_a_summary_and_the_table_of_roles(cli, journal):
    out = cli("show", journal).out
    assert out.startswith("poem\nA poem\nStopped: idle; 5 events, 2 messages.\n")
    row = next(line for line in out.splitlines() if line.startswith("Writer"))
    assert row.split() == ["Writer", "1", "1", "7", "3", "$0.25", "0", "0", "-"]
    assert "starts Draft" not in out


def test_a_run_can_be_read_event_by_event_in_the_terminal(cli, journal):
    out = cli("show", journal, "--events").out
    for expected in ("poem", "round 1", "user says to Writer: A poem", "starts Draft", "and snow"):
        assert expected in out
    assert out.index("A poem") < out.index("starts Draft") < out.index("and snow")
    assert "Stopped: idle" in out


def test_failures_are_looked_for_when_asked(cli, journal):
    assert "14 modes" not in cli("show", journal).out
    out = cli("show", journal, "--failures").out
    assert "of the 14 modes were judged" in out
    assert "Not judged: verification.absent: " in out


def test_the_diagram_is_mermaid_and_nothing_else(cli, journal):
    out = cli("show", journal, "--diagram", "sequence").out
    assert out.startswith("sequenceDiagram\n")
    assert "->>" in out


def test_the_state_diagram_of_each_role_or_of_one(cli, journal):
    diagram = Trajectory.load(journal).state_diagram("Writer")
    assert cli("show", journal, "--diagram", "state").out == f"%% Writer\n{diagram}"
    assert cli("show", journal, "--diagram", "state", "--role", "Writer").out == diagram


def test_a_role_that_is_not_there_is_named(cli, journal):
    result = cli("show", journal, "--diagram", "state", "--role", "Riter")
    assert result.code == ExitCode.USAGE
    assert "Did you mean 'Writer'" in result.err
    assert cli("show", journal, "--role", "Writer").code == ExitCode.USAGE


def test_the_page_is_written(cli, journal, tmp_path):
    result = cli("show", journal, "--html", "pages/run.html", "--failures")
    assert result.code == ExitCode.OK
    page = (tmp_path / "pages" / "run.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "Rain" in page
    assert "of the 14 modes were judged" in page
    assert "The states of Writer" in page


def test_json_is_one_line(process, journal):
    result = process("show", journal, "--json")
    record = json.loads(result.out)
    assert record["trajectory"] == "poem"
    assert record["stop"] == "idle"
    assert record["usage"] == {
        "calls": 1,
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "usd": 0.25,
    }
    (row,) = record["table"]
    assert (row["role"], row["calls"], row["actions"], row["seconds"]) == ("Writer", 1, 1, None)


def test_json_has_the_diagram_when_asked(cli, journal):
    (record,) = cli("show", journal, "--json", "--diagram", "sequence").lines
    assert record["diagram"].startswith("sequenceDiagram\n")


def test_control_characters_of_strangers_do_not_reach_the_terminal(cli, journal):
    """A log may hold escape sequences that retitle or clear a terminal."""
    text = journal.read_text().replace("Rain", "\\u001b]0;owned\\u0007Rain")
    journal.write_text(text)
    out = cli("show", journal, "--events").out
    assert "Rain" in out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_markup_of_strangers_is_shown_as_it_is(cli, journal):
    journal.write_text(journal.read_text().replace("Rain", "[bold red]Rain[/] :smile:"))
    assert "[bold red]Rain[/] :smile:" in cli("show", journal, "--events").out


def test_lines_that_could_not_be_read_are_named(cli, journal):
    journal.write_text(journal.read_text() + "{broken\n")
    assert "run.jsonl:7" in cli("show", journal).out


def test_a_log_of_another_tool_can_be_shown(cli, data_dir):
    log = data_dir / "who_and_when" / "Algorithm-Generated" / "1.json"
    result = cli("show", log, "--events")
    assert result.code == ExitCode.OK
    turns = json.loads(log.read_text("utf-8"))["history"]
    assert len(turns) == sum(line[:5].strip().isdigit() for line in result.out.splitlines())


@pytest.mark.parametrize("how", [[], ["--failures"], ["--diagram", "state"], ["--html", "a.html"]])
def test_odd_values_of_a_journal_do_not_keep_it_from_being_shown(cli, tmp_path, how):
    about = {"roles": [{"name": "A", "watch": 5, "actions": 5}], "task": 5}
    events = [
        Event("message", role="B", content="hi", to=("<all>",), data={"cause_by": ["x"]}, seq=0),
        Event("verify", role="A", data={"passed": [1], "target": {}}, seq=1),
        Event("action_swap", role="A", data={"actions": 5}, seq=2),
    ]
    path = Trajectory("odd", about, events).save(tmp_path / "odd.jsonl")
    assert cli("show", path, *how).code == ExitCode.OK


def test_a_page_that_cannot_be_written_is_named(cli, journal, tmp_path):
    (tmp_path / "taken").write_text("")
    result = cli("show", journal, "--html", "taken/run.html")
    assert result.code == ExitCode.USAGE
    assert "taken" in result.err


# --- traces of other tools ----------------------------------------------------------------------

MAPPING = "name: desk\ntraces: runs\nevents: log\nevent: {role: who, content: text}\n"


@pytest.fixture
def runs(tmp_path):
    """A file of two traces, in a form that only a mapping knows."""
    listed = [
        {"id": name, "log": [{"who": "ann", "text": f"Hello from {name}."}]}
        for name in ("a", "b#2")
    ]
    (tmp_path / "map.yaml").write_text(MAPPING)
    (tmp_path / "runs.json").write_text(json.dumps({"runs": listed}))
    before = dict(FORMATS)
    yield tmp_path / "runs.json"
    FORMATS.clear()
    FORMATS.update(before)


@pytest.mark.parametrize("name", ["a", "b#2"])
def test_a_trace_is_opened_by_the_name_that_annotate_gives_it(cli, runs, tmp_path, name):
    result = cli("show", f"{runs}#{name}", "--events", "--mapping", tmp_path / "map.yaml")
    assert result.code == ExitCode.OK
    assert f"Hello from {name}." in result.out
    assert result.out.count("Hello") == 1


def test_a_file_of_several_traces_lists_them_in_words_of_commands(cli, runs, tmp_path):
    result = cli("show", runs, "--mapping", tmp_path / "map.yaml")
    assert result.code == ExitCode.USAGE
    assert "holds 2 traces" in result.err
    assert f"rolecraft show '{runs}#a'" in result.err
    assert "Their ids: a, b#2." in result.err
    assert "annotate_many" not in result.err


def test_an_id_that_is_not_in_the_file_is_named(cli, runs, tmp_path):
    result = cli("show", f"{runs}#c", "--mapping", tmp_path / "map.yaml")
    assert result.code == ExitCode.USAGE
    assert "trace 'c' is not known" in result.err


def test_a_file_with_the_sign_in_its_name_is_that_file(cli, journal, tmp_path):
    odd = journal.rename(tmp_path / "run#1.jsonl")
    assert cli("show", odd).out.startswith("poem\n")


def test_what_a_log_does_not_record_is_unknown_and_not_zero(cli, runs, tmp_path):
    """Somebody paid for the calls of a chat log; it only does not say how much."""
    result = cli("show", f"{runs}#a", "--mapping", tmp_path / "map.yaml")
    row = next(line for line in result.out.splitlines() if line.startswith("ann"))
    assert row.split() == ["ann", *["-"] * 8]
    cli("show", f"{runs}#a", "--html", "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<dt>price</dt><dd>-</dd>" in page
    assert "<dt>model calls</dt><dd>-</dd>" in page
    (line,) = cli("show", f"{runs}#a", "--json").lines
    assert set(line["usage"].values()) == {None}
    assert line["table"][0]["calls"] is None
    assert line["table"][0]["messages"] == 1


@pytest.mark.parametrize("command", ["labels", "agreement"])
def test_commands_that_read_labels_of_traces_know_mappings(cli, runs, tmp_path, command):
    """Nothing in this form has labels; but it is known, and not a broken file."""
    paths = [runs] if command == "labels" else [runs, runs]
    result = cli(command, *paths, "--mapping", tmp_path / "map.yaml")
    assert "there are no labels in it" in result.err
    assert "Known formats" not in result.err


def test_reports_and_comparisons_take_the_name_of_a_format(cli, runs, tmp_path):
    map_file = tmp_path / "map.yaml"
    for command, paths in (("report", [runs]), ("compare", [runs, runs])):
        wrong = cli(command, *paths, "--format", "otel")
        assert wrong.code != ExitCode.OK
        unknown = cli(command, *paths, "--format", "dask")
        assert "Format 'dask' is not known" in unknown.err
    assert cli("report", runs, "--mapping", map_file, "--format", "desk").code == ExitCode.OK


def test_a_run_that_failed_says_its_error_in_its_first_lines(cli, team_file):
    cli("run", "crew.py:broken", "--task", "x")
    shown = cli("show", "runs/crew-broken.jsonl")
    told = "Error in Broken of Clumsy: ValueError: the disk is on fire"
    assert told in shown.out.splitlines()[:5]
    assert cli("show", "runs/crew-broken.jsonl", "--json").lines[0]["failed"] == [told]
