"""`rolecraft annotate`: the same as `annotate` in Python, for files and folders."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy import MODES, annotate
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.trajectories import Event, FailureFinding, Trajectory
from rolecraft.trajectories.findings import append_findings

FINDING = {
    "mode",
    "code",
    "code_system",
    "verdict",
    "role",
    "events",
    "quote",
    "confidence",
    "source",
    "reason",
}


@pytest.fixture
def failed(tmp_path):
    """A journal in which the environment saw a rule broken."""
    events = [
        Event("message", role="user", content="read b", to=("planner",)),
        Event("message", role="planner", content="I read c", to=("<all>",), cause=0),
        Event(
            "verify",
            role="environment",
            data={"target": "read", "passed": False, "constraint": "read_b"},
            cause=1,
        ),
        Event("stop", data={"reason": "idle"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory("failed", {"roles": [{"name": "planner"}]}, events).save(
        tmp_path / "runs" / "failed.jsonl"
    )


def test_a_line_has_the_documented_fields(cli, failed):
    result = cli("annotate", failed, "--json")
    assert result.code == ExitCode.OK
    (line,) = result.lines
    assert line["trace"] == str(failed)
    assert line["format"] == "rolecraft"
    assert "task_spec" in line["judged"]
    assert {finding["mode"] for finding in line["findings"]} == set(MODES)
    for finding in line["findings"]:
        assert set(finding) == FINDING
    (present,) = [f for f in line["findings"] if f["verdict"] == "present"]
    assert present["mode"] == "task_spec"
    assert present["code"] == "1.1"
    assert present["role"] == "planner"
    assert present["events"][0] == 1
    assert present["quote"] == "I read c"


def test_it_says_the_same_as_python(cli, failed):
    (line,) = cli("annotate", failed, "--json").lines
    assert line == json.loads(asyncio.run(annotate(failed)).to_json())


def test_people_get_a_table_and_how_many_modes_were_judged(cli, failed):
    result = cli("annotate", failed)
    assert "Disobey task specification" in result.out
    assert "I read c" in result.out
    assert "of the 14 modes were judged" in result.out
    assert "task_spec by environment" in result.out


def test_stdout_has_nothing_but_json(process, failed):
    result = process("annotate", failed.parent, "--json")
    assert len(result.out.splitlines()) == len(result.lines) == 1
    assert "of the 14 modes were judged" in result.err


def test_broken_files_are_reported_and_the_others_go_on(cli, failed):
    (failed.parent / "empty.jsonl").write_text("")
    (failed.parent / "odd.json").write_text('{"hello": 1}')
    result = cli("annotate", failed.parent, "--json")
    assert result.code == ExitCode.INCOMPLETE
    assert [line["trace"] for line in result.lines] == [str(failed)]
    for name in ("empty.jsonl", "odd.json"):
        assert name in result.err
    assert "2 could not be read" in result.err


def test_findings_beside_a_journal_are_not_taken_for_a_trace(cli, failed):
    append_findings(failed, [FailureFinding("derailment", "absent", source="a person")])
    result = cli("annotate", failed.parent, "--json")
    assert result.code == ExitCode.OK
    assert [line["trace"] for line in result.lines] == [str(failed)]


def test_a_broken_line_costs_that_line_only(cli, failed):
    lines = failed.read_text().splitlines()
    lines.insert(2, "{broken")
    failed.write_text("\n".join(lines) + "\n")
    result = cli("annotate", failed, "--json")
    assert result.code == ExitCode.OK
    assert len(result.lines) == 1
    assert "failed.jsonl:3" in result.err


def test_nothing_readable_is_an_error(cli, tmp_path):
    (tmp_path / "odd.json").write_text('{"hello": 1}')
    assert cli("annotate", tmp_path / "odd.json").code == ExitCode.ERROR


def test_a_judge_that_names_no_model_is_wrong_usage(cli, failed):
    result = cli("annotate", failed, "--judge", "somebody")
    assert result.code == ExitCode.USAGE
    assert "`--judge`" in result.err


def test_a_judge_is_asked_about_what_is_open(cli, failed):
    """Tests forbid real models: that this one is refused shows that it was asked."""
    result = cli("annotate", failed, "--judge", "openai/gpt-4o-mini")
    assert result.code == ExitCode.ERROR
    assert "openai/gpt-4o-mini" in result.err


def test_a_judge_stops_before_it_costs_more_than_it_may(process, failed):
    """In a process of its own, where real models are allowed; with this key none could be paid."""
    env = {**os.environ, "OPENAI_API_KEY": "no-key"}
    arguments = ["annotate", failed, "--judge", "openai/gpt-4o-mini", "--usd", "0", "--json"]
    result = process(*arguments, env=env)
    assert result.code == ExitCode.INCOMPLETE, result.err
    assert result.out == ""
    assert "Stopped, with 1 not looked at" in result.err
    assert "$0 for the judge" in result.err


def test_a_judge_without_a_key_is_told_before_anything_is_loaded(process, failed):
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    result = process("annotate", failed, "--judge", "openai/gpt-4o-mini", env=env)
    assert result.code == ExitCode.ERROR
    assert "No API key for the model 'openai/gpt-4o-mini'" in result.err
    assert "`OPENAI_API_KEY`" in result.err


def test_why_modes_were_not_judged_is_said_once_for_each_reason(cli, failed):
    result = cli("annotate", failed)
    reasons = [line for line in result.out.splitlines() if line.startswith("Not judged: ")]
    assert reasons
    assert len({line.rpartition(": ")[2] for line in reasons}) == len(reasons)
    assert "no detector decides this mode, and no judge was given" in result.out


def test_a_limit_without_a_judge_is_wrong_usage(cli, failed):
    result = cli("annotate", failed, "--usd", "1")
    assert result.code == ExitCode.USAGE
    assert "--judge" in result.err


def test_all_real_logs_are_read(cli, data_dir):
    result = cli("annotate", data_dir / "who_and_when" / "Algorithm-Generated", "--json")
    assert result.code == ExitCode.OK
    assert len(result.lines) == 126
    assert {line["format"] for line in result.lines} == {"who_and_when"}


@pytest.mark.parametrize(
    "option",
    [
        ["--estimate"],
        ["--samples", "3"],
        ["--variant", "few-shot"],
        ["--cache", "answers"],
        ["--redact"],
        ["--redact-pattern", "Tulip"],
    ],
)
def test_an_option_about_a_judge_without_one_is_wrong_usage(cli, failed, option):
    result = cli("annotate", failed, *option)
    assert result.code == ExitCode.USAGE
    assert f"`{option[0]}` is about a judge: name one with --judge" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--variant", "ten-shot"], "write `zero-shot` or `few-shot`"),
        (["--redact-pattern", "("], "no regular expression"),
        (["--cache", "answers", "--no-cache"], "give one of them"),
    ],
)
def test_what_an_option_cannot_mean_is_told(cli, failed, options, said):
    result = cli("annotate", failed, "--judge", "openai/o3", *options)
    assert result.code == ExitCode.USAGE
    assert said in result.err


def test_labels_go_to_a_file_that_reads_back(cli, failed, tmp_path):
    out = tmp_path / "new" / "labels.jsonl"
    result = cli("annotate", failed.parent, "--out", out)
    assert result.code == ExitCode.OK
    assert f"Labels of 1 trace: {out}" in result.out
    assert "I read c" not in result.out, "the table of each trace is in the way"
    (row,) = read_labels(out)
    assert row.trace == str(failed)
    assert row.verdict("task_spec") == "present"
    assert json.loads(out.read_text()) == cli("annotate", failed, "--json").lines[0]


def test_a_trace_is_never_overwritten_by_labels(cli, failed):
    before = failed.read_bytes()
    assert cli("annotate", failed, "--out", failed).code == ExitCode.USAGE
    other = cli("annotate", failed.parent, "--out", failed)
    assert other.code == ExitCode.ERROR
    assert "Name another file" in other.err
    assert failed.read_bytes() == before


def test_the_format_can_be_stated(cli, failed):
    assert cli("annotate", failed, "--format", "rolecraft").code == ExitCode.OK
    wrong = cli("annotate", failed, "--format", "who_and_when", "--json")
    assert wrong.lines == []
    assert "could not be read" in wrong.err
    unknown = cli("annotate", failed, "--format", "rolcraft")
    assert "Did you mean 'rolecraft'" in unknown.err


def test_options_about_a_judge_are_refused_in_words(cli, failed, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    judge = ("--judge", "openai/gpt-4o-mini")
    for options, said in [
        (("--grouping", "stage"), "write `all` or `category` or `mode`"),
        (("--samples", "3", "--agree", "0.5"), "more than half have to agree"),
        (("--agreement", tmp_path / "nothing.json"), "cannot be read"),
        (("--variant", "many-shot"), "write `zero-shot` or `few-shot`"),
    ]:
        result = cli("annotate", failed, *judge, *options)
        assert result.code != 0
        assert said in result.err
    result = cli("annotate", failed, "--sees-outcome")
    assert "`--sees-outcome` is about a judge" in result.err


def test_how_far_a_judge_agrees_with_people_is_said_with_its_labels(tmp_path):
    from rolecraft.cli._judges import reliability
    from rolecraft.failure_taxonomy import Report
    from rolecraft.failure_taxonomy.judging import Measured, Opinion

    def report(**options):
        opinion = Opinion("m", windows=1, coverage=1.0, **options)
        return Report(trace="t", format="f", findings=[], opinion=opinion)

    assert reliability([]) == []
    (line,) = reliability([report(), report(dropped=["one"])])
    assert line == (
        "Judge m (zero-shot): 100% of the text covered, 1 finding dropped for want of evidence; "
        "how far this model agrees with people is unmeasured."
    )
    measured = Measured(model="m", kappa=0.5, traces=10)
    line, note = reliability([report(agreement=measured, notes=["no tools"], redacted={"key": 2})])
    assert "2 secrets taken out" in line
    assert line.endswith("measured: Cohen's kappa 0.50, on 10 traces.")
    assert note == "Judge: no tools"
