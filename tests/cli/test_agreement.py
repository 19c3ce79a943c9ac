"""`rolecraft agreement`: predictions beside gold labels, from the command line."""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.agreement import agreement
from rolecraft.failure_taxonomy.labels import Blame, Labels, read_labels, write_labels
from rolecraft.trajectories import Event, FailureFinding, Trajectory

SIGNS = {"+": "present", "-": "absent", "?": "unknown"}


def row(annotator, trace, signs, step=None):
    modes = ("reset", "verification.weak")
    found = tuple(FailureFinding(m, SIGNS[s]) for m, s in zip(modes, signs, strict=True))
    blame = None if step is None else Blame("coder", step)
    return Labels(trace=trace, annotator=annotator, findings=found, decisive=blame)


@pytest.fixture
def gold(tmp_path):
    rows = [row("ada", f"runs/{i}.jsonl", s, i) for i, s in enumerate(("+-", "+-", "--", "-+"))]
    rows += [row("bob", "runs/0.jsonl", "++", 0), row("bob", "runs/1.jsonl", "+-", 3)]
    return write_labels(rows, tmp_path / "gold.jsonl")


@pytest.fixture
def predicted(tmp_path):
    rows = [row("bot", f"x/runs/{i}.jsonl", s, i + 1) for i, s in enumerate(("+-", "--", "-?"))]
    return write_labels([*rows, row("bot", "x/7.jsonl", "++")], tmp_path / "predicted.jsonl")


def test_what_it_prints_says_everything_once(cli, gold, predicted):
    result = cli("agreement", gold, predicted, "--annotator", "ada")
    assert result.code == ExitCode.OK
    assert "3 traces; gold: ada; predicted: bot" in result.out
    (never,) = [line for line in result.out.splitlines() if "always no" in line]
    assert never.split() == ["always", "no", "0.67", "-", "0.00", "0.00", "0.00"]
    assert "1 of 6 cells were left open, 0 of them never asked about." in result.out
    assert "Cohen's kappa: ada and bob" in result.out
    assert "step, counted from 1" in result.out
    assert "gold trace has no prediction: runs/3.jsonl" in result.err
    assert "predicted trace is no gold trace, or could be several: x/7.jsonl" in result.err
    assert "The same gold labels in 2 traces" not in result.err  # bob tells them apart


def test_calibration_is_told_for_the_surest(cli, tmp_path):
    modes, sure = ("reset", "repetition", "derailment", "withholding"), (0.9, 0.8, 0.8, 0.5)
    said = [FailureFinding(m, "present", confidence=c) for m, c in zip(modes, sure, strict=True)]
    truth = [FailureFinding(m, "absent" if m == "derailment" else "present") for m in modes]
    gold = write_labels([Labels(trace="1", annotator="a", findings=tuple(truth))], tmp_path / "g")
    pred = write_labels([Labels(trace="1", annotator="b", findings=tuple(said))], tmp_path / "p")
    out = " ".join(cli("agreement", gold, pred).out.split())
    assert "Confidence of 4 verdicts: expected calibration error 0.300 (15 bins)" in out
    assert "Wrong among the surest: 0.0% of 25%, 33.3% of 75%, 25.0% of 100%." in out


def test_json_is_one_line_with_the_result_of_the_library(cli, gold, predicted):
    result = cli("agreement", gold, predicted, "--json", "--resamples", "50", "--seed", "3")
    (line,) = result.lines
    found = agreement(read_labels(gold), read_labels(predicted), resamples=50, seed=3)
    assert line.keys() == found.to_dict().keys()
    assert line["micro"]["tp"] == found.micro.counts.tp
    assert line["micro"]["intervals"]["kappa"] == list(found.micro.intervals["kappa"])
    assert (line["gold_only"], line["predicted_only"]) == (["runs/3.jsonl"], ["x/7.jsonl"])
    assert line["attribution"]["step"]["right"] == 0
    assert line["attribution"]["step_in_the_other_base"]["right"] == 2


def test_traces_matched_by_the_last_part_of_their_names_are_counted(cli, tmp_path):
    found = (FailureFinding("reset", "present"),)
    gold = [Labels(trace=f"mad.json#{n}", annotator="a", findings=found) for n in (3, 4)]
    said = [Labels(trace=f"{n}.json#{m}", annotator="b", findings=found)
            for n, m in (("other", 3), ("new", 4))]  # fmt: skip
    gold, said = write_labels(gold, tmp_path / "g"), write_labels(said, tmp_path / "p")
    err = " ".join(cli("agreement", gold, said).err.split())
    assert (
        "Matched by the last part of their names only: 2 of 2, such as gold mad.json#3 and "
        "predicted other.json#3" in err
    )


def test_the_index_base_is_stated(cli, gold, predicted):
    result = cli("agreement", gold, predicted, "--annotator", "ada", "--index-base", "1", "--json")
    blame = result.lines[0]["attribution"]
    assert (blame["index_base"], blame["step"]["right"]) == (1, 3)
    assert blame["people"]["step"] == {"right": 1, "n": 2, "share": 0.5, "interval": [0.0, 1.0]}


def test_what_annotate_prints_can_be_measured(cli, tmp_path):
    """The whole way: a run, people's labels of it, what the detectors say, the agreement."""
    broken = {"target": "read", "passed": False, "constraint": "read_b"}
    events = [
        Event("message", role="user", content="read b", to=("planner",)),
        Event("message", role="planner", content="I read c", to=("<all>",), cause=0),
        Event("verify", role="environment", data=broken, cause=1),
        Event("stop", data={"reason": "idle"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    run = Trajectory("1", {"roles": [{"name": "planner"}]}, events).save(tmp_path / "runs/1.jsonl")
    predicted = tmp_path / "predicted.jsonl"
    predicted.write_text(cli("annotate", run, "--json").out)
    people = Labels(
        trace="1.jsonl",
        annotator="ada",
        findings=tuple(
            FailureFinding(mode, "present" if mode == "task_spec" else "absent") for mode in MODES
        ),
    )
    gold = write_labels([people], tmp_path / "gold.jsonl")
    (line,) = cli("agreement", gold, predicted, "--json").lines
    assert line["modes"]["task_spec"]["tp"] == 1
    assert line["micro"]["not_asked"] == 0
    assert line["predicted"] == "rolecraft detectors"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--annotator", "joe"], ExitCode.USAGE, "'joe'"),
        (["--index-base", "2"], ExitCode.USAGE, "index-base"),
        (["--modes", "none.toml"], ExitCode.USAGE, "none.toml"),
    ],
)
def test_what_is_wrong_is_said(cli, gold, predicted, arguments, code, complaint):
    result = cli("agreement", gold, predicted, *arguments)
    assert result.code == code
    assert complaint in result.err


def test_a_file_without_labels_or_another_is_an_error(cli, gold, tmp_path):
    other = write_labels([row("bot", "nowhere", "++")], tmp_path / "other.jsonl")
    result = cli("agreement", gold, other)
    assert result.code == ExitCode.USAGE
    assert "No predicted trace is a gold trace" in result.err
    (tmp_path / "empty.jsonl").write_text("")
    assert cli("agreement", gold, tmp_path / "empty.jsonl").code == ExitCode.ERROR


def test_labels_are_listed_and_written_as_one_table(cli, gold, predicted, tmp_path):
    table = tmp_path / "wide.csv"
    result = cli("labels", gold, predicted, "--wide", table)
    assert result.code == ExitCode.OK
    head = next(line for line in result.out.splitlines() if "mode" in line and "ada" in line)
    assert head.split() == ["mode", "ada", "bob", "bot"]
    reset = next(line for line in result.out.splitlines() if line.split()[:1] == ["reset"])
    assert " ".join(reset.split()) == "reset 2 of 4 2 of 2 2 of 4"
    assert len(table.read_text().splitlines()) == 1 + 10
    assert [line["trace"] for line in cli("labels", gold, "--json").lines][:2] == [
        "runs/0.jsonl",
        "runs/1.jsonl",
    ]
    assert cli("labels", gold, "--wide", gold / "x.csv").code == ExitCode.USAGE


def test_modes_of_your_own_are_rows_too(cli, tmp_path):
    (tmp_path / "modes.toml").write_text(
        """
        [[mode]]
        id = "headline.too_long"
        name = "Headline too long"
        category = "verification"
        definition = "A headline is approved that does not fit."
        positive = "Eleven words are approved."
        near_miss = "Eleven words are sent back."
        """
    )
    line = '{"trace": "1", "findings": [{"mode": "headline.too_long", "verdict": "present"}]}\n'
    (tmp_path / "gold.jsonl").write_text(line)
    try:
        result = cli("agreement", "gold.jsonl", "gold.jsonl", "--modes", "modes.toml", "--json")
        assert result.lines[0]["modes"]["headline.too_long"]["tp"] == 1
    finally:
        MODES.pop("headline.too_long", None)
    result = cli("agreement", "gold.jsonl", "gold.jsonl")
    assert result.code == ExitCode.ERROR
    assert "--modes FILE" in result.err
