"""`rolecraft report` and `rolecraft compare`: tables, a page, and a gate for CI."""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.labels import Labels, write_labels
from rolecraft.trajectories import Event, FailureFinding, Trajectory


@pytest.fixture
def make(tmp_path):
    """Writes a folder with a labels file: a verdict a trace for `repetition`."""

    def write(folder, signs, annotator="judge:x"):
        words = {"+": "present", "-": "absent", "?": "unknown"}
        rows = [
            Labels(
                trace=f"{folder}/{number}.jsonl",
                annotator=annotator,
                findings=(FailureFinding("repetition", words[sign]),),
            )
            for number, sign in enumerate(signs)
        ]
        (tmp_path / folder).mkdir()
        write_labels(rows, tmp_path / folder / "labels.jsonl")
        return tmp_path / folder

    return write


def test_a_report_says_what_was_judged_and_what_to_do(cli, make, tmp_path):
    result = cli("report", make("runs", "++-?"), "--out", tmp_path / "out" / "report.html")
    assert result.code == ExitCode.OK
    assert "4 traces, labelled by judge:x (4)" in result.out
    assert "2 of 3" in result.out
    assert "edit stop rule" in result.out
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "2 of 3" in page


def test_a_report_as_json_has_all_counts(cli, make):
    (line,) = cli("report", make("runs", "++-?"), "--json", "--by", "annotator").lines
    assert line["traces"] == 4
    assert line["judged_by"] == {"judge:x": 4}
    counts = {"present": 2, "absent": 1, "unknown": 1, "added": 0, "rate": 2 / 3, "found": 0.5}
    assert line["modes"]["repetition"] == counts
    assert line["groups"]["judge:x"]["modes"]["repetition"] == counts
    assert line["modes"]["reset"]["rate"] is None


def test_what_only_finders_add_is_in_no_rate_and_is_said(cli, make, tmp_path):
    """People denied it 40 times, a detector that cannot deny found it 4 times: not 9 %."""
    gold, rules = make("gold", "-" * 40, annotator="gold"), make("rules", "++++????", "detectors")
    result = cli("report", gold, rules, "--out", tmp_path / "r.html", "--by", "annotator")
    text = " ".join(result.out.split())
    assert "0 of 40 +4 0%" in text
    assert "found n times more by annotators that never deny it" in text
    page = (tmp_path / "r.html").read_text()
    assert "0 of 40 +4" in page
    assert "4 of 44" not in page
    assert "4 of 44" not in text
    (line,) = cli("report", gold, rules, "--json").lines
    assert line["modes"]["repetition"]["added"] == 4
    assert line["modes"]["repetition"]["rate"] == 0


def test_a_grouping_that_there_is_not_is_one_line(cli, make):
    result = cli("report", make("runs", "+"), "--by", "colour")
    assert result.code == ExitCode.USAGE
    assert "`system`" in result.err


def test_a_file_that_cannot_be_read_is_said_and_the_rest_reported(cli, make, tmp_path):
    folder = make("runs", "+")
    (folder / "broken.json").write_text("{}")
    result = cli("report", folder, "--out", tmp_path / "r.html")
    assert result.code == ExitCode.INCOMPLETE
    assert "broken.json" in result.err
    page = (tmp_path / "r.html").read_text()
    assert "could not be read" in page
    assert "broken.json" in page


def test_a_gate_fails_only_on_a_significant_increase(cli, make):
    calm, wild, mild = make("a", "-" * 8), make("b", "+" * 8), make("c", "+" + "-" * 7)
    gate = ("--fail-on-increase", "--mode", "repetition")
    result = cli("compare", calm, wild, *gate)
    assert result.code == ExitCode.GATE == 4
    assert "repetition: significantly more" in result.out
    assert "edit stop rule" in result.out
    assert cli("compare", calm, mild, *gate).code == ExitCode.OK
    assert cli("compare", wild, calm, *gate).code == ExitCode.OK
    assert cli("compare", calm, wild).code == ExitCode.OK
    assert cli("compare", calm, wild, *gate, "--alpha", "0.001").code == ExitCode.OK


def test_a_gate_that_nothing_was_judged_for_does_not_pass(cli, make):
    """Nobody looked: that must not read as no increase."""
    result = cli("compare", make("a", "????"), make("b", "++++"), "--fail-on-increase")
    assert result.code == ExitCode.USAGE
    assert "no mode was decided in both" in result.err


def test_a_gate_does_not_pass_a_mode_that_is_judged_no_more(cli, tmp_path):
    """The judge was down for the candidate, and a detector's mode was all that could be tested."""

    def labels(name, derailment):
        verdicts = {"reset": "absent", "derailment": derailment}
        rows = [FailureFinding(mode, verdict) for mode, verdict in verdicts.items()]
        listed = [Labels(trace=f"{n}.jsonl", annotator="j", findings=rows) for n in range(8)]
        return write_labels(listed, tmp_path / name)

    judged, unjudged = labels("a.jsonl", "absent"), labels("b.jsonl", "unknown")
    result = cli("compare", judged, unjudged, "--fail-on-increase")
    assert result.code == ExitCode.INCOMPLETE
    assert "nowhere in the candidate: derailment." in " ".join(result.err.split())
    assert cli("compare", unjudged, judged, "--fail-on-increase").code == ExitCode.OK
    assert cli("compare", judged, unjudged).code == ExitCode.OK


def test_a_gate_does_not_pass_a_mode_that_is_hardly_judged_any_more(cli, make):
    full, one = make("a", "-" * 20), make("b", "-" + "?" * 19)
    result = cli("compare", full, one, "--fail-on-increase")
    assert result.code == ExitCode.INCOMPLETE
    assert "repetition (20 of 20 traces, then 1 of 20)" in " ".join(result.err.split())
    result = cli("compare", full, one, "--json")
    assert result.code == ExitCode.OK
    assert result.lines[0]["judged_less"] == ["repetition"]


def test_a_gate_on_what_was_found_is_not_weakened_by_modes_that_nobody_looked_at(cli, make):
    """A mode that was found nine times as often passed, corrected over fourteen modes."""
    few, many = make("a", "+" + "?" * 19), make("b", "+" * 9 + "?" * 11)
    result = cli("compare", few, many, "--found", "--fail-on-increase")
    assert result.code == ExitCode.GATE
    assert "over 1 mode, the other 13 not tested" in " ".join(result.out.split())


def test_where_nothing_could_be_tested_the_text_says_no_more(cli, make):
    result = cli("compare", make("a", "??"), make("b", "??"))
    assert "No test: no mode was decided in both sets." in result.out
    assert "two-sided" not in result.out


def test_what_can_only_be_found_is_compared_by_how_often_it_was(cli, make):
    """A detector that never denies would look the same whatever it finds."""
    few, many = make("a", "+???????????"), make("b", "++++++++++??")
    gate = ("--fail-on-increase", "--mode", "repetition")
    result = cli("compare", few, many, *gate)
    assert result.code == ExitCode.USAGE
    assert "Found but never denied" in result.err
    assert "`--found`" in result.err
    result = cli("compare", few, many, *gate, "--found")
    assert result.code == ExitCode.GATE
    assert "1 of 12" in result.out
    assert "10 of 12" in result.out
    report = cli("report", few)
    assert "Found but never denied, so without a rate: repetition" in " ".join(report.out.split())
    assert "100%" not in report.out.split("repetition")[1].split("history_loss")[0]


def test_a_comparison_says_how_it_was_made(cli, make):
    result = cli("compare", make("a", "----?"), make("b", "++-++", annotator="judge:y"))
    assert "paired by name" in result.out
    assert "exact McNemar test, two-sided" in result.out
    assert (
        "corrected by Holm's procedure over 1 mode, the other 13 not tested; alpha 0.05"
        in " ".join(result.out.split())
    )
    assert "labelled by different annotators" in result.err
    assert "1/0" in result.out


def test_a_comparison_as_json_has_all_numbers(cli, make):
    (line,) = cli("compare", make("a", "----"), make("b", "++++++"), "--json").lines
    assert line["paired"] is False
    row = next(row for row in line["modes"] if row["mode"] == "repetition")
    assert row["test"] == "Fisher's exact test"
    assert row["p"] == pytest.approx(2 / 420)
    assert row["p_holm"] == row["p"]
    assert line["increased"] == ["repetition"]


def test_journals_are_compared_through_the_detectors(cli, tmp_path):
    for folder, ends in (("a", "finished"), ("b", "idle")):
        events = [Event("message", role="ann", content="hi"), Event("stop", data={"reason": ends})]
        for seq, event in enumerate(events):
            event.seq = seq
        about = {"roles": [{"name": "ann"}]}
        Trajectory("run", about, events).save(tmp_path / folder / "run.jsonl")
    result = cli("compare", tmp_path / "a", tmp_path / "b")
    assert result.code == ExitCode.OK
    assert "rolecraft detectors" in result.out


def test_a_page_that_cannot_be_written_is_one_line(cli, make, tmp_path):
    (tmp_path / "taken").write_text("")
    result = cli("report", make("a", "+"), "--out", tmp_path / "taken" / "r.html")
    assert result.code == ExitCode.USAGE
    assert "cannot be written" in result.err


def test_folders_of_outputs_are_made(cli, make, tmp_path):
    """One rule for all commands that write a file."""
    labels = make("a", "+")
    wide, page = tmp_path / "x" / "y" / "wide.csv", tmp_path / "z" / "w" / "page.html"
    assert cli("labels", labels, "--wide", wide).code == ExitCode.OK
    assert cli("report", labels, "--out", page).code == ExitCode.OK
    assert wide.is_file()
    assert page.is_file()
