"""`rolecraft feedback`: what it asks, what it keeps however it ends, and what a fit tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from rolecraft.cli._exits import ExitCode
from rolecraft.cli.main import app
from rolecraft.rewards.learned import Preference, Rating, load_learned, read_feedback
from rolecraft.rewards.learned.feedback import held_out, label_of
from rolecraft.trajectories import Event, Signal, Trajectory, load, signal_event


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Twelve runs: every second passed the tests; the later ones cost more."""
    folder = tmp_path / "runs"
    for number in range(12):
        events = [
            Event("message", role="user", content="Mend the parser"),
            *[Event("message", role="dev", content=f"Draft {n}") for n in range(number % 3)],
            Event("message", role="dev", content=f"Patch {number}"),
            signal_event(Signal("tests.passed", float(number % 2))),
            signal_event(Signal("usd", 0.1 * number)),
        ]
        for seq, event in enumerate(events):
            event.seq = seq
        about = {"task": {"id": "t", "prompt": "Mend the parser"}, "roles": [{"name": "dev"}]}
        Trajectory(f"run-{number}", about, events).save(folder / f"run-{number}.jsonl")
    return folder


@pytest.fixture
def asked():
    """`asked(*arguments, answers=...)`: the command in this process, with lines to read."""

    def call(*arguments: object, answers: str) -> Any:
        return CliRunner().invoke(app, ["feedback", *map(str, arguments)], input=answers)

    return call


def passed(path: str) -> float:
    return next(each.value for each in load(path).signals if each.name == "tests.passed")


def answer_all(cli: Any, runs: Path, tmp_path: Path, *, wrongly: bool = False) -> Path:
    """Answers to the 40 questions that `--list` names, by what passed the tests, then imported."""
    listed = cli("feedback", runs, "--list", "--json", "--count", 40).lines
    answers = tmp_path / "answers.jsonl"
    rows = []
    for question in listed:
        first, second = passed(question["a"]), passed(question["b"])
        better = "equal" if first == second else "a" if (first > second) != wrongly else "b"
        rows.append({**question, "answer": better})
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return answers


def test_it_shows_two_runs_and_keeps_what_was_answered(asked: Any, runs: Path):
    result = asked(
        *(runs, "--goal", "working code", "--by", "ann", "--count", 3),
        answers="b\nwhat\nequal\nskip\n",
    )
    assert result.exit_code == ExitCode.OK
    for words in ("Question 1 of 3. What you want: working code", "tests.passed", "dev: Patch"):
        assert words in result.stdout
    assert "task: Mend the parser" in result.stdout
    assert "'what' is none of: a, b, equal, skip, q." in result.stderr
    assert "3 answers kept" in result.stdout
    kept = read_feedback("feedback/feedback.jsonl")
    assert [x.answer for x in kept if isinstance(x, Preference)] == ["b", "equal", "skip"]
    assert {x.by for x in kept} == {"ann"}
    first = kept[0]
    assert isinstance(first, Preference)
    assert first.a.goal == "working code"
    assert first.a.run.startswith(str(runs))


def test_what_was_asked_is_not_asked_again(asked: Any, runs: Path):
    for _ in range(2):
        asked(runs, "--count", 4, answers="a\na\na\nskip\n")
    questions = [label.question for label in read_feedback("feedback/feedback.jsonl")]
    assert len(questions) == len(set(questions)) == 8


@pytest.mark.parametrize("ending", ["q\n", ""])
def test_it_ends_on_q_and_at_the_end_of_the_input(asked: Any, runs: Path, ending: str):
    result = asked(runs, answers="a\n" + ending)
    assert result.exit_code == ExitCode.OK
    assert "1 answer kept" in result.stdout
    assert len(read_feedback("feedback/feedback.jsonl")) == 1


@pytest.mark.parametrize(
    "kind", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_an_answer_is_on_the_disk_before_the_next_question(runs: Path, kind: signal.Signals):
    process = subprocess.Popen(
        [sys.executable, "-m", "rolecraft.cli", "feedback", str(runs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("a\nb\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("Question 3"):
            break
    process.send_signal(kind)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert process.returncode == (-kind if kind == signal.SIGKILL else ExitCode.INTERRUPTED)
    kept = read_feedback("feedback/feedback.jsonl")
    assert [x.answer for x in kept if isinstance(x, Preference)] == ["a", "b"]


def test_single_runs_are_rated_from_1_to_5(asked: Any, runs: Path):
    result = asked(runs, "--rate", "--count", 2, answers="6\n5\n1\n")
    assert "this run: " in result.stdout
    kept = read_feedback("feedback/feedback.jsonl")
    assert [x.satisfaction for x in kept if isinstance(x, Rating)] == [5, 1]


def test_a_fit_follows_the_answers_and_says_so(cli: Any, runs: Path, tmp_path: Path):
    answers = answer_all(cli, runs, tmp_path)
    result = cli(
        "feedback", runs, "--import", answers, "--goal", "works", "--fit", "--lower", "usd"
    )
    assert result.code == ExitCode.OK
    assert "40 answers taken" in result.out
    assert "kept to examine it" in result.out
    assert "agreement 1.00" in result.out
    assert "for the goal: works" in result.out
    reward = load_learned("feedback/reward")
    weighs = reward.weigh()
    assert weighs["tests.passed"] == max(weighs.values())
    better = {each.name: each.better for each in reward.settings.directions}
    assert better == {"tests.passed": "either", "usd": "lower"}
    good, bad = (reward(load(runs / f"run-{number}.jsonl")).value for number in (3, 4))
    assert good > bad
    assert load_learned("feedback").weights.keys() == reward.weights.keys()  # this will do too


def test_with_json_stdout_has_answers_and_the_fit_and_nothing_else(
    cli: Any, runs: Path, tmp_path: Path
):
    answers = answer_all(cli, runs, tmp_path)
    result = cli("feedback", runs, "--import", answers, "--fit", "--json")
    *labels, fit = [json.loads(line) for line in result.out.splitlines()]
    assert len(labels) == 40
    assert set(labels[0]) == {"kind", "a", "b", "answer", "by"}
    assert fit["outcome"] == "accepted"
    assert fit["fitted"] + fit["after"]["labels"] == 40
    assert fit["after"]["agreement"] == 1.0
    assert set(fit["weighs"]) == {"tests.passed", "usd"}
    assert Path(fit["reward"], "reward.json").exists()


def test_adversarial_answers_are_rolled_back_and_the_reward_stays(
    cli: Any, runs: Path, tmp_path: Path
):
    """Somebody else answers everything wrongly; of what they say, nothing is kept to examine."""
    cli("feedback", runs, "--import", answer_all(cli, runs, tmp_path), "--fit")
    before = {path.name: path.read_bytes() for path in Path("feedback/reward").iterdir()}
    kept = [json.loads(line) for line in Path("feedback/feedback.jsonl").read_text().splitlines()]
    lies = []
    for record in kept:
        turned = {"a": "b", "b": "a"}.get(record["answer"], record["answer"])
        for liar in range(5):
            lie = {**record, "answer": turned, "by": f"liar {liar}"}
            lies += [] if held_out(label_of(lie)) else [json.dumps(lie) + "\n"]
    Path("lies.jsonl").write_text("".join(lies))
    result = cli("feedback", "--import", "lies.jsonl", "--fit")
    decisions = [
        json.loads(line) for line in Path("feedback/decisions.jsonl").read_text().splitlines()
    ]
    assert [row["outcome"] for row in decisions] == ["accepted", "rolled back"]
    assert result.code == ExitCode.INCOMPLETE
    assert "Rolled back" in result.err
    assert before == {path.name: path.read_bytes() for path in Path("feedback/reward").iterdir()}


def test_a_second_fit_tells_what_changed_and_what_it_does_not_look_at(
    cli: Any, runs: Path, tmp_path: Path
):
    answers = answer_all(cli, runs, tmp_path)
    cli("feedback", runs, "--import", answers, "--fit", "--higher", "tests.passed")
    first = load_learned("feedback")
    run = load(runs / "run-1.jsonl")
    run.events.append(signal_event(Signal("delay", 3.0)))
    run.events[-1].seq = 99
    run.save(runs / "run-12.jsonl")
    result = cli("feedback", runs, "--count", 0, "--fit")
    assert "Measured, and not looked at: `delay`" in result.err
    again = load_learned("feedback")
    assert again.settings == first.settings
    assert again.fits == 2
    result = cli(
        "feedback", runs, "--count", 0, "--fit", "--lower", "delay", "--lower", "run.messages"
    )
    assert "made anew" in result.err
    assert {x.name: x.better for x in load_learned("feedback").settings.directions} == {
        "delay": "lower",
        "run.messages": "lower",
        "tests.passed": "higher",
        "usd": "either",
    }


def test_what_is_no_run_is_named_and_passed_over(asked: Any, runs: Path):
    (runs / "notes.jsonl").write_text("not a run\n")
    Trajectory("mute", {}, [Event("message", role="dev", content="hm", seq=0)]).save(
        runs / "mute.jsonl"
    )
    result = asked(runs, "--count", 1, answers="a\n")
    assert result.exit_code == ExitCode.OK
    assert "Passed over" in result.stderr
    assert "notes.jsonl" in result.stderr
    assert "mute.jsonl` has no signals" in result.stderr.replace("\n", "")


def test_a_half_line_of_a_killed_process_is_named_and_the_rest_is_fitted(
    cli: Any, runs: Path, tmp_path: Path
):
    cli("feedback", runs, "--import", answer_all(cli, runs, tmp_path))
    with Path("feedback/feedback.jsonl").open("a") as file:
        file.write('{"kind": "pref')
    result = cli("feedback", "--fit")
    assert result.code == ExitCode.OK
    assert "feedback.jsonl:41: no label" in result.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"a": "nowhere.jsonl", "b": "x", "answer": "a"}', "'nowhere.jsonl' is none of the 12"),
        ('{"a": "RUN", "b": "RUN"}', "'answer' is missing"),
        ('{"a": "RUN", "b": "RUN", "answer": "both"}', "not 'both'"),
        ('{"run": "RUN", "satisfaction": 9}', "from 1 to 5, not 9"),
        ("nonsense", "not JSON"),
    ],
)
def test_answers_that_mean_nothing_are_refused_whole(
    cli: Any, runs: Path, tmp_path: Path, line: str, told: str
):
    good = json.dumps({"run": str(runs / "run-0.jsonl"), "satisfaction": 2})
    line = line.replace("RUN", str(runs / "run-1.jsonl"))
    (tmp_path / "answers.jsonl").write_text(f"{good}\n{line}\n")
    result = cli("feedback", runs, "--import", "answers.jsonl")
    assert result.code == ExitCode.USAGE
    said = " ".join(result.err.split())
    assert "line 2" in said
    assert told in said
    assert read_feedback("feedback/feedback.jsonl") == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Name runs to ask about"),
        (["--fit"], "Nothing is answered"),
        (["runs", "--lower", "usd"], "add --fit"),
        (["nowhere"], "no such file or folder"),
        (["--import", "nowhere.jsonl"], "cannot be read"),
    ],
)
def test_a_wrong_command_line_says_the_way_out(
    cli: Any, runs: Path, arguments: list[str], told: str
):
    result = cli("feedback", *arguments)
    assert result.code == ExitCode.USAGE
    assert told in " ".join(result.err.split())


def test_a_promise_for_a_signal_that_nobody_measured_is_a_mistake(
    cli: Any, runs: Path, tmp_path: Path
):
    cli("feedback", runs, "--import", answer_all(cli, runs, tmp_path))
    result = cli("feedback", "--fit", "--lower", "costs")
    assert result.code == ExitCode.USAGE
    assert "`costs` was measured in none" in " ".join(result.err.split())
