"""`rolecraft rollout`: results as they end, a folder that is gone on with, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.trajectories import load

SCENARIO = """
import asyncio, os
from pathlib import Path
from rolecraft import Action, FunctionModel, Role, Task, TaskEnvironment
from rolecraft.errors import ModelUnavailable
from rolecraft.rewards import reward
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal

HERE = Path(__file__).parent

async def answer(call):
    word = call.messages[-1].content
    with (HERE / "asked").open("a") as file:
        file.write(word + "\\n")
    asked = len((HERE / "asked").read_text().splitlines())
    while asked > 10 and (HERE / "only ten").exists():
        await asyncio.sleep(0.01)
    if (HERE / "down").exists() and "3" in word:
        raise ModelUnavailable("the line is dead", status=400)
    return word.upper()

class Shout(Action):
    async def run(self, history):
        return await self.ask(history[-1].content)

class Ann(Role):
    actions = [Shout]

class Place(TaskEnvironment):
    async def grade(self):
        return [Signal("good", 1.0)]

class Words:
    def sample(self, count, *, seed=0, split="train"):
        return [Task(f"word/{n}", f"word {n} {seed} {split}") for n in range(min(count, 60))]

@reward
def good(signals):
    return signals["good"]

def words():
    return Scenario(name="words", team=lambda: [Ann(model=FunctionModel(answer))],
                    environment=Place, tasks=Words(), reward=good)

def nobody():
    return Scenario(name="nobody", team=lambda: [Ann()],
                    environment=Place, tasks=Words(), reward=good)
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    (tmp_path / "words.py").write_text(textwrap.dedent(SCENARIO))
    return f"{tmp_path / 'words.py'}:words"


def rolecraft(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["rollout", *map(str, words)])


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_every_attempt_has_its_line_and_its_journal(scenario: str, tmp_path: Path) -> None:
    done = rolecraft(scenario, "--tasks", "4", "--attempts", "3", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    lines = rows(tmp_path / "out")
    assert sorted((row["task"], row["attempt"]) for row in lines) == [
        (f"word/{n}", k) for n in range(4) for k in (1, 2, 3)
    ]
    assert {(row["ended"], row["reward"]) for row in lines} == {("finished", 1.0)}
    for row in lines:
        record = load(tmp_path / "out" / row["journal"])
        assert (record.id, record.stop_reason) == (row["task"], "idle")
        assert record.about["task"]["id"] == row["task"], "as `rolecraft run` gives it"
    assert "12 of 12 rollouts are over: 12 finished" in done.output


def test_where_all_is_over_it_says_so_and_plays_nothing(scenario: str, tmp_path: Path) -> None:
    words: list[str | Path] = [scenario, "--tasks", "2", "--out", tmp_path / "out"]
    rolecraft(*words)
    (tmp_path / "asked").unlink()
    again = rolecraft(*words, "--resume")
    assert again.exit_code == 0, again.output
    assert "All 2 are over already: nothing is left to play." in again.output
    assert "0 of 0" not in again.output
    assert "2 of 2 rollouts are over: 2 finished" in again.output
    assert not (tmp_path / "asked").exists()


def test_json_has_a_line_a_result_and_a_summary(scenario: str, tmp_path: Path) -> None:
    done = rolecraft(scenario, "--tasks", "3", "--json", "--out", tmp_path / "out")
    *lines, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    assert (summary["over"], summary["reward"], summary["ended"]) == (3, 1.0, {"finished": 3})


def test_what_a_model_failed_is_tried_again_with_resume_and_nothing_else(
    scenario: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (tmp_path / "down").touch()
    done = rolecraft(scenario, "--tasks", "5", "--out", out)
    assert done.exit_code == 3, done.output
    assert "--resume" in done.output
    assert {row["task"]: row["ended"] for row in rows(out)}["word/3"] == "model"
    (tmp_path / "down").unlink()
    (tmp_path / "asked").unlink()
    again = rolecraft(scenario, "--tasks", "5", "--out", out, "--resume")
    assert again.exit_code == 0, again.output
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
    assert [row["ended"] for row in rows(out)] == ["finished"] * 5


def test_a_folder_with_rollouts_wants_resume_and_the_same_plan(
    scenario: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    rolecraft(scenario, "--tasks", "2", "--out", out)
    refused = rolecraft(scenario, "--tasks", "2", "--out", out)
    assert refused.exit_code == 1
    assert "--resume" in refused.output
    other = rolecraft(scenario, "--tasks", "2", "--seed", "5", "--out", out, "--resume")
    assert other.exit_code == 1
    assert "`seed` is 5 and was 0" in other.output


@pytest.mark.parametrize("left", ["", '{"id": "word/0-r1", "ended": "fini', "no json\n"])
def test_a_line_that_was_cut_off_is_no_result(scenario: str, tmp_path: Path, left: str) -> None:
    out = tmp_path / "out"
    rolecraft(scenario, "--tasks", "3", "--out", out)
    whole = (out / "results.jsonl").read_text().splitlines(keepends=True)
    (out / "results.jsonl").write_text("".join(whole[1:]) + left)
    (tmp_path / "asked").unlink()
    assert rolecraft(scenario, "--tasks", "3", "--out", out, "--resume").exit_code == 0
    assert len(rows(out)) == 3
    assert not (tmp_path / "asked").exists(), "the journal has every answer"


def test_without_a_model_it_says_so_once(scenario: str, tmp_path: Path) -> None:
    done = rolecraft(scenario.replace(":words", ":nobody"), "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.output.count("model") < 6, done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "is not known"),
        (["relay", "--split", "both"], "train, test, all"),
        (["relay", "--role-model", "nobody=openai/x"], "nobody"),
    ],
)
def test_wrong_usage_names_the_way_out(words: list[str], says: str, tmp_path: Path) -> None:
    done = rolecraft(*words, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert says in done.output
    assert not (tmp_path / "out").exists()


def struck(command: list[str], blow: signal.Signals, there: Path) -> tuple[int, str]:
    """Start the command, which waits after ten answers, and strike it in the middle.

    Its exit status, and what it said.
    """
    (there / "only ten").touch()
    with (there / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said, cwd=there)
    results, deadline = there / "out" / "results.jsonl", time.monotonic() + 120
    while not (results.exists() and results.read_bytes().count(b"\n") >= 6):
        assert process.poll() is None, (there / "said").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(blow)
    return process.wait(120), (there / "said").read_text()


def forty(scenario: str) -> list[str]:
    words = [scenario, "--tasks", "40", "--live", "4", "--out", "out"]
    return [sys.executable, "-m", "rolecraft.cli", "rollout", *words]


def test_an_interrupted_run_says_how_to_go_on(scenario: str, tmp_path: Path) -> None:
    code, said = struck(forty(scenario), signal.SIGINT, tmp_path)
    assert code == 130, said
    again = f"rolecraft rollout {scenario} --tasks 40 --live 4 --out out --resume"
    assert f"What is over is in `out/results.jsonl`. Go on: {again}" in said


def test_a_killed_process_is_gone_on_with_and_asks_nothing_twice(
    scenario: str, tmp_path: Path
) -> None:
    out, command = tmp_path / "out", forty(scenario)
    struck(command, signal.SIGKILL, tmp_path)
    before = {row["id"]: row for row in rows(out)}
    assert 6 <= len(before) <= 10
    (tmp_path / "only ten").unlink()
    subprocess.run([*command, "--resume"], check=True, cwd=tmp_path, capture_output=True)
    after = rows(out)
    assert sorted(row["task"] for row in after) == sorted(f"word/{n}" for n in range(40))
    assert all(before.get(row["id"], row) == row for row in after), "what was over is as it was"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(set(asked)) == 40
    assert len(asked) <= 40 + 4, "only what was under way is asked again"
