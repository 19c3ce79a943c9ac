"""`rolecraft rescore`: stored runs are scored by another reward, and people report consequences."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rolecraft.rewards import RewardBreakdown
from rolecraft.rewards.stored import append_reward, load_rewards
from rolecraft.trajectories import (
    Event,
    FailureFinding,
    Signal,
    Trajectory,
    append_findings,
    append_signals,
    load,
    save,
    signal_event,
)

MINE = """
import json

from rolecraft import FunctionModel
from rolecraft.rewards import Gate, Opinion, Signals, reward, signal, turns
from rolecraft.trajectories import Signal

solved = signal("solved")
priced = Gate(solved, solved - 0.1 * turns)
liked = signal("user.satisfied") + 0.5 * solved
thought = signal("taste")


def points(call):
    asked.append(call)
    marker = call.messages[-1].content.rpartition("fence marker is ")[2].split(".")[0]
    return json.dumps({"marker": marker, "reason": "short", "points": 5})


def gullible(call):
    given = json.loads(points(call))
    return json.dumps(given | {"points": 10 if "full score" in call.messages[-1].content else 2})


asked = []
fooled = solved + Opinion("good", FunctionModel(gullible, name="me"), "It is good.")
judged = solved + Opinion("clear", FunctionModel(points, name="me"), "It is clear.")
mumbled = solved + Opinion("clear", FunctionModel(lambda call: "good", name="me"), "It is clear.")


def plain(signals):
    return signals["solved"] / 2


@reward
def quick(signals: Signals) -> float:
    return 1 / signals["turns"]


@reward
def broken(signals: Signals) -> float:
    return 1 / (signals["turns"] - 2)


@reward
def few(signals: Signals) -> float:
    return 1 / (1 + len(signals.findings))


def of_two(first, second):
    return 0


answer = 42
"""


def run(solved: float, turns: float, *more: Signal) -> Trajectory:
    trajectory = Trajectory("run", {"roles": [{"name": "coder"}]})
    events = [
        Event("message", role="user", content="Write a parser."),
        Event("message", role="coder", content="def parse(text): ..."),
        *map(signal_event, [Signal("solved", solved), Signal("turns", turns), *more]),
        Event("stop", data={"reason": "finished"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory.write(events)
    return trajectory


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder as `rolecraft rollout` leaves it: two runs, of which one had a reward."""
    (tmp_path / "mine.py").write_text(MINE)
    folder = tmp_path / "out"
    for name, each in (("r1", run(1, 2)), ("r2", run(0, 4))):
        save(each, folder / "runs" / "parser" / f"{name}.jsonl")
    rows = [{"journal": "runs/parser/r1.jsonl", "reward": 1.0, "id": "r1"}]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_old_and_new_values_and_what_paid_are_told_and_nothing_is_written(cli, runs) -> None:
    before = contents(runs)
    done = cli("rescore", runs, "--reward", "mine.py:priced", "--json")
    assert done.code == 0
    first, second = done.lines
    assert (first["old"], first["new"], first["paid"]) == (1.0, 0.8, "solved")
    assert first["shares"] == {"solved": 1.0, "turns": -0.2}
    assert first["evidence"] == {"solved": ["solved"], "turns": ["turns", "solved"]}
    assert first["roles"] == {"coder": 0.8}
    assert (second["old"], second["new"], second["paid"]) == (None, 0.0, "gate:solved")
    assert contents(runs) == before


def test_the_old_reward_sees_the_findings_as_the_new_one_does(cli, runs) -> None:
    journal = runs / "runs/parser/r2.jsonl"
    append_findings(journal, [FailureFinding("repetition", "unknown", source="judge:m")])
    done = cli("rescore", journal, "--reward", "mine.py:few", "--scenario", "mine.py:few", "--json")
    assert done.code == 0
    (line,) = done.lines
    assert (line["old"], line["new"]) == (0.5, 0.5)
    assert line["ungrounded"] == ["few"]


def test_the_table_is_for_people(cli, runs) -> None:
    done = cli("rescore", runs, "--reward", "mine.py:priced")
    assert "Rewards by `mine.py:priced`" in done.out
    assert "parser/r1.jsonl" in done.out
    assert "gate:solved +0 of solved" in done.out
    assert "Mean of 2: 0.4 (solved +0.5, turns -0.1, gate:solved +0)" in done.out
    assert "the 1 known old ones 1." in done.out


def test_write_adds_a_record_beside_and_the_next_rescoring_knows_it(cli, runs) -> None:
    before = contents(runs)
    assert cli("rescore", runs, "--reward", "mine.py:plain", "--write").code == 0
    after = contents(runs)
    assert {name: after[name] for name in before} == before, "journals and results are as they were"
    assert {name for name in after if name not in before} == {
        "runs/parser/r1.rewards.jsonl",
        "runs/parser/r2.rewards.jsonl",
    }
    (stored,) = load_rewards(runs / "runs/parser/r1.jsonl")
    assert stored.name == "mine.py:plain"
    assert stored.breakdown == RewardBreakdown(
        0.5, {"plain": 0.5}, {"coder": 0.5}, {"coder": {"plain": 0.5}}, {"plain": ("solved",)}
    )
    again = cli("rescore", runs, "--reward", "mine.py:quick", "--json")
    assert [line["old"] for line in again.lines] == [0.5, 0.0]


def test_what_a_person_reports_is_kept_beside_the_journal_and_counts(cli, runs) -> None:
    journal = runs / "runs/parser/r1.jsonl"
    before = journal.read_bytes()
    said = ("--signal", "user.satisfied=-1", "--by", "ann", "--role", "coder", "--step", "1")
    dry = cli("rescore", journal, "--reward", "mine.py:liked", *said, "--json")
    assert dry.lines[0]["new"] == -0.5
    assert load(journal).reported == []
    assert cli("rescore", journal, *said, "--write").code == 0
    assert journal.read_bytes() == before
    (signal,) = load(journal).reported
    assert signal == Signal("user.satisfied", -1.0, source="person:ann", role="coder", step=1)
    later = cli("rescore", journal, "--reward", "mine.py:liked", "--json")
    assert later.lines[0]["new"] == -0.5
    assert later.lines[0]["evidence"]["user.satisfied"] == ["user.satisfied"]
    assert later.lines[0]["grounded"] is True


def test_a_run_that_has_no_such_signal_costs_the_others_nothing(cli, runs) -> None:
    append_signals(
        runs / "runs/parser/r2.jsonl", [Signal("user.satisfied", 1.0, source="person:bob")]
    )
    done = cli("rescore", runs, "--reward", "mine.py:liked", "--json")
    assert done.code == 3
    assert "r1.jsonl: no reward: Signal 'user.satisfied' is not known" in done.err
    assert [line.get("new") for line in done.lines] == [None, 1.0]


def test_a_reward_that_raises_is_told_with_its_place(cli, runs) -> None:
    done = cli("rescore", runs, "--reward", "mine.py:broken")
    assert done.code == 3
    assert "r1.jsonl: no reward: ZeroDivisionError" in done.err
    assert "mine.py" in done.err


def test_a_judges_opinion_is_told_as_such(cli, tmp_path, runs) -> None:
    save(run(1, 2, Signal("taste", 1.0, source="judge:m")), tmp_path / "judged.jsonl")
    done = cli("rescore", "judged.jsonl", "--reward", "mine.py:thought", "--json")
    assert done.lines[0]["grounded"] is False
    assert done.lines[0]["ungrounded"] == ["taste"]
    assert "Not grounded, a judge's opinion: taste" in done.err


def test_an_answer_of_a_judge_that_cannot_be_read_is_told_with_the_run(cli, runs) -> None:
    done = cli("rescore", runs / "runs/parser/r1.jsonl", "--reward", "mine.py:mumbled", "--json")
    assert done.code == 0
    assert done.lines[0]["shares"] == {"solved": 1.0}
    assert "r1.jsonl: without the opinion 'clear': no answer of its judge" in done.err


def test_judges_are_asked_about_stored_runs_and_with_write_only_once(cli, runs) -> None:
    before = contents(runs)
    first = cli("rescore", runs, "--reward", "mine.py:judged", "--json")
    assert [line["new"] for line in first.lines] == [1.05, 0.05]
    assert first.lines[0]["ungrounded"] == ["opinion:clear"]
    assert contents(runs) == before
    cli("rescore", runs, "--reward", "mine.py:judged", "--write")
    (signal,) = load(runs / "runs/parser/r1.jsonl").reported
    assert signal == Signal("opinion.clear", 0.5, source="judge:me")
    asked = sys.modules["mine"].asked
    known = len(asked)
    assert known == 4
    cli("rescore", runs, "--reward", "mine.py:judged", "--write")
    assert len(asked) == known


def test_a_scenarios_reward_is_the_new_one_or_the_old_one(cli, tmp_path, runs) -> None:
    save(run(1, 2, Signal("relay.correct", 1.0)), tmp_path / "relay.jsonl")
    (line,) = cli("rescore", "relay.jsonl", "--scenario", "relay", "--json").lines
    assert (line["old"], line["new"]) == (None, 1.0)
    both = ("--scenario", "relay", "--reward", "mine.py:plain")
    (line,) = cli("rescore", "relay.jsonl", *both, "--json").lines
    assert (line["old"], line["new"]) == (1.0, 0.5)


def test_safety_ends_with_4_and_names_what_pays(cli, runs) -> None:
    done = cli("rescore", runs, "--reward", "mine.py:quick", "--safety")
    assert done.code == 4
    assert "refuse (a refusal, all measured as 0)" in done.out
    assert "paid by `quick`" in done.out
    safe = cli("rescore", runs, "--reward", "mine.py:priced", "--safety", "--json")
    assert safe.code == 0
    assert [line["safety"] for line in safe.lines] == [[], []]


def test_safety_asks_the_judges_whether_they_fall_for_praise(cli, runs) -> None:
    done = cli("rescore", runs / "runs/parser/r1.jsonl", "--reward", "mine.py:fooled", "--safety")
    assert done.code == 4
    assert "praise the judge (praise at the end)" in done.out
    assert "paid by `opinion:good` (+0.08)" in done.out
    assert "refuse" not in done.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "Nothing to do: give `--reward FILE.py:NAME`, `--scenario` or `--signal`"),
        (("--safety",), "Nothing to do"),
        (("--signal", "a=1", "--by", "ann", "--safety"), "`--safety` examines a reward"),
        (("--reward", "mine.py"), "does not say which reward: write FILE.py:NAME"),
        (("--reward", "mine.py:best"), "has no 'best'. It has: `turns`, `solved`, `priced`"),
        (("--reward", "mine.py:answer"), "'answer' is 42 there. Name a reward"),
        (("--reward", "mine.py:of_two"), "Name a reward"),
        (("--scenario", "relais"), "'relais' is not known. Did you mean 'relay'?"),
        (("--signal", "a=1"), "give their name with `--by WHO`"),
        (("--signal", "a=much", "--by", "ann"), "write NAME=VALUE with a number"),
        (("--signal", "=1", "--by", "ann"), "write NAME=VALUE with a number"),
        (("--reward", "mine.py:plain", "--role", "coder"), "are about a `--signal NAME=VALUE`"),
        (("--signal", "a=1", "--by", "ann"), "about one run, and these are 2 journals"),
    ],
)
def test_what_cannot_be_meant_is_told(cli, runs, options: tuple[str, ...], told: str) -> None:
    done = cli("rescore", runs, *options)
    assert done.code == 2
    assert told in done.err


def test_a_folder_without_runs_is_told(cli, tmp_path, runs) -> None:
    """Once it ended with 0, as if all had been scored."""
    (tmp_path / "results").mkdir()
    empty = cli("rescore", tmp_path / "results", "--reward", "mine.py:turns")
    (tmp_path / "results" / "training.jsonl").write_text('{"step": 0}\n')
    done = cli("rescore", tmp_path / "results", "--reward", "mine.py:turns")
    assert (empty.code, done.code) == (2, 2)
    assert "no *.jsonl file is in it" in empty.err
    assert "There are no runs in `" in done.err


def test_a_file_that_is_no_run_is_told(cli, tmp_path, runs) -> None:
    (tmp_path / "noise.jsonl").write_text("noise\n")
    done = cli("rescore", "noise.jsonl", "--reward", "mine.py:plain")
    assert done.code == 1
    assert "noise.jsonl" in done.err
    assert cli("rescore", "missing", "--reward", "mine.py:plain").code == 2


def test_signals_and_rewards_survive_a_writer_that_was_killed_in_its_last_line(
    tmp_path: Path,
) -> None:
    journal = save(run(1, 2), tmp_path / "r.jsonl")
    ann = Signal("user.satisfied", 1.0, source="person:ann")
    path = append_signals(journal, [ann])
    with path.open("ab") as file:
        file.write(b'{"name": "user.sat')
    assert load(journal).reported == [ann]
    assert "r.signals.jsonl:2" in load(journal).problems[0]
    append_signals(journal, [ann])
    assert load(journal).reported == [ann, ann]
    assert load(journal).problems == []
    append_reward(journal, "one", RewardBreakdown(1.0))
    with (tmp_path / "r.rewards.jsonl").open("ab") as file:
        file.write(b'{"reward"')
    append_reward(journal, "two", RewardBreakdown(2.0))
    assert [each.name for each in load_rewards(journal)] == ["one", "two"]


PLAYED = """
from dataclasses import replace

from rolecraft import FunctionModel
from rolecraft.rewards import signal
from rolecraft.scenarios.relay import relay

by_sum = 0.5 * signal("relay.sum")


def say(call):
    return "a" if call.role == "planner" else "1"


model = FunctionModel(say, name="stand-in")
mine = replace(relay, name="mine")
"""


def test_a_folder_of_rollouts_is_scored_again(cli, tmp_path) -> None:
    (tmp_path / "played.py").write_text(PLAYED)
    made = cli("rollout", "played.py:mine", "--model", "played.py:model", "--tasks", "6",
               "--out", "rolled", "--json")  # fmt: skip
    assert made.code == 0
    results = (tmp_path / "rolled/results.jsonl").read_text()
    rows = [json.loads(line) for line in results.splitlines()]
    before = {Path("rolled") / row["journal"]: row["reward"] for row in rows}
    same = cli("rescore", "rolled", "--scenario", "relay", "--json")
    assert {Path(line["journal"]): line["new"] for line in same.lines} == before
    assert all(line["old"] == line["new"] for line in same.lines), "offline is as online"
    other = cli("rescore", "rolled", "--reward", "played.py:by_sum", "--json", "--safety")
    assert other.code == 0
    sums = {row["journal"]: row["signals"]["relay.sum"] / 2 for row in rows}
    assert {str(Path(line["journal"]).relative_to("rolled")): line["new"]
            for line in other.lines} == sums  # fmt: skip


def test_as_a_process_of_its_own(process, runs) -> None:
    done = process("rescore", runs, "--reward", "mine.py:priced", "--json")
    assert done.code == 0
    assert [line["new"] for line in done.lines] == [0.8, 0.0]
