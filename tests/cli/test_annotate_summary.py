"""What `rolecraft annotate` says at its end: by what modes were judged, and why others were not."""

from __future__ import annotations

from rolecraft.cli._failures import coverage, failures_table, left_open
from rolecraft.cli._output import Output
from rolecraft.failure_taxonomy import MODES, Report
from rolecraft.trajectories import FailureFinding

WHY = "the format records no checks"


def report(verdicts, *, source="judge:m", reason=WHY):
    """A report with a finding for each mode: what `verdicts` says, or `unknown`."""
    findings = [
        FailureFinding(
            mode,
            verdicts.get(mode, "unknown"),
            source=source,
            reason="" if mode in verdicts else reason,
        )
        for mode in MODES
    ]
    return Report(trace="t", format="f", findings=findings)


def test_who_judged_all_modes_is_named_once():
    assert coverage([report(dict.fromkeys(MODES, "absent"))]) == (
        "14 of the 14 modes were judged, all by judge:m."
    )


def test_modes_that_the_same_source_judged_stand_together():
    first = report({"reset": "absent", "derailment": "absent"})
    second = report({"repetition": "absent"}, source="detector.repetition")
    assert coverage([first, second]) == (
        "3 of the 14 modes were judged in at least one of 2 traces: repetition by "
        "detector.repetition; reset, derailment by judge:m."
    )


def test_in_how_many_traces_modes_were_left_open_is_a_range_where_it_differs():
    others = [mode for mode in MODES if mode not in ("reset", "derailment")]
    decided = dict.fromkeys(others, "absent")
    reports = [report(decided), report(decided | {"reset": "absent"}), report(decided)]
    assert left_open(reports) == [f"Not judged: reset, derailment: {WHY} (in 2 to 3 of 3 traces)"]


def test_in_how_many_traces_modes_were_left_open_is_one_number_where_it_is_the_same():
    others = [mode for mode in MODES if mode not in ("reset", "derailment")]
    decided = dict.fromkeys(others, "absent")
    reports = [report(decided), report(dict.fromkeys(MODES, "absent")), report(decided)]
    assert left_open(reports) == [f"Not judged: reset, derailment: {WHY} (in 2 of 3 traces)"]


def test_modes_that_nobody_judged_anywhere_were_left_open_in_all_traces():
    reports = [report(dict.fromkeys(list(MODES)[1:], "absent"))] * 4
    assert left_open(reports) == [f"Not judged: {next(iter(MODES))}: {WHY} (in all 4 traces)"]


def test_the_table_says_why_it_is_a_failure(capsys):
    finding = FailureFinding(
        "repetition",
        "present",
        role="ann",
        events=(4,),
        quote="ls -l",
        source="detector.x",
        reason="done once more, with the same outcome and nothing new in between",
    )
    shown = Report(trace="t", format="f", findings=[finding])
    failures_table(shown, Output(json=False))
    words = " ".join(capsys.readouterr().out.split())
    assert "ls -l" in words
    for word in finding.reason.split():
        assert word in words
    assert words.index("ls -l") < words.index("why:")
