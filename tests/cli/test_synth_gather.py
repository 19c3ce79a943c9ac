"""`rolecraft synth gather`, `push`, `difficulty`, `select` and `stats`, as they are called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id
from rolecraft.synthesis.difficulty.attempts import Attempt, open_attempts
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.synthesis.verdicts import Verdict

CODE = "def twice(number):\n    return number * 2\n\n\ndef half(number):\n    return number / 2\n"
TEST = """from sizes import half, twice

def test_twice():
    assert twice(3) == 6

def test_half():
    assert half(6) == 3
"""
BUGS = {"number * 2": ("number * 3", "test_twice"), "number / 2": ("number // 4", "test_half")}
SOLVER = """
from rolecraft.environments.software_engineering.examples.solvers import patching_plan, solver

def odd_ones(instances):
    first = min(each.id for each in instances)
    return solver(
        instances, lambda each: patching_plan([each]) if each.id == first else [], name="odd"
    )

def no_model(instances):
    return 3
"""


@pytest.fixture
def folder(tmp_path: Path, needs_program: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks that are not gathered yet."""
    needs_program("git", package="git")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solvers.py").write_text(SOLVER)
    out = SynthesisFolder(tmp_path / "out")
    (out.source / "tests").mkdir(parents=True)
    (out.source / "sizes.py").write_text(CODE)
    (out.source / "tests" / "test_sizes.py").write_text(TEST)
    project = Project(
        name="sizes",
        version="0.1",
        source=str(out.source),
        code=("sizes.py",),
        tests=("tests/test_sizes.py",),
    )
    tests = [f"tests/test_sizes.py::{name}" for name in ("test_twice", "test_half")]
    Plan(project, Suite(outcomes=dict.fromkeys(tests, "passed"))).save(out)
    with (
        Ledger(out.candidates, Candidate, key=lambda each: each.id) as candidates,
        Ledger(out.verdicts, Verdict, key=lambda each: each.candidate) as verdicts,
        Ledger(out.texts, IssueText, key=lambda each: each.task) as texts,
    ):
        for old, (new, test) in BUGS.items():
            start = CODE.index(old)
            edits = (Edit("sizes.py", start, start + len(old), new),)
            name = candidate_id("sizes", "op-change", edits)
            candidates.append(
                Candidate(
                    id=name, modifier="op-change", entity="sizes.py::f", edits=edits, key=name
                )
            )
            failing = (f"tests/test_sizes.py::{test}",)
            verdicts.append(Verdict(candidate=name, status="valid", fail_to_pass=failing))
            texts.append(IssueText(task=name, text=f"It is not {old[-1]}.", source="template"))
    return out.path


def synth(*words: str, code: int = 0) -> list[dict[str, Any]]:
    """What a command says as JSON lines."""
    done = CliRunner().invoke(app, ["synth", *words, "--json"])
    assert done.exit_code == code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, ["synth", *words])
    assert done.exit_code == 2, done.output
    return done.stderr


def rows(folder: Path) -> list[dict[str, Any]]:
    said = (folder / "tasks" / "tasks.jsonl").read_text("utf-8")
    return [json.loads(line) for line in said.splitlines()]


def test_gather_says_how_many_tasks_there_are_and_how_to_run_them(folder) -> None:
    (said,) = synth("gather", str(folder), "--split-by", "task")
    assert said["tasks"] == 2
    assert said["folder"] == str(folder / "tasks")
    done = CliRunner().invoke(app, ["synth", "gather", str(folder), "--split-by", "file"])
    assert done.exit_code == 0
    first = min(each["instance_id"] for each in rows(folder))
    alone = f"rolecraft run {folder}/tasks/scenario.py:rehearsal --task {first}"
    assert alone in done.stdout.replace("\n", " "), "no task is for test: one is named"
    assert "`--split-by function`" in done.stderr, "all code is in one file"


def test_gather_says_what_it_keeps_how_it_parts_and_which_tasks_change_the_split(folder) -> None:
    (said,) = synth("gather", str(folder), "--split-by", "task", "--held-out", "1")
    assert (said["settings"], said["splits"]) == (
        {"split_by": "task", "held_out": 1.0},
        {"test": 2},
    )
    synth("select", str(folder), "--lines", "1", "-o", str(folder / "tasks" / "easy.jsonl"))
    with (folder / "tasks" / "scenario.py").open("a") as file:
        file.write("mine = tasks\n")
    done = CliRunner().invoke(app, ["synth", "gather", str(folder)])
    assert "Parted with `--split-by task --held-out 1`." in done.stdout
    assert "Kept, since they are yours: `easy.jsonl`, `scenario.py`." in done.stdout
    assert "`scenario.py` is not as it was written: delete it to have a new one." in done.stdout
    assert done.stderr == "", "no task changes the split"
    done = CliRunner().invoke(app, ["synth", "gather", str(folder), "--held-out", "0"])
    assert "2 tasks changed the split: held out for test before" in done.stderr
    (said,) = synth("gather", str(folder), "--held-out", "1")
    assert sorted(said["moved"]["test"]) == sorted(row["instance_id"] for row in rows(folder))
    assert said["kept"] == ["easy.jsonl", "scenario.py"]


def test_a_folder_without_a_plan_is_refused(tmp_path) -> None:
    for command in ("gather", "stats"):
        assert "rolecraft synth plan" in refused(command, str(tmp_path))


def test_push_goes_to_the_remote_that_is_named_and_to_no_other(folder, tmp_path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "remote.git"], cwd=tmp_path, check=True)
    synth("gather", str(folder))
    assert "--remote" in refused("push", str(folder))
    (said,) = synth("push", str(folder), "--remote", str(tmp_path / "remote.git"))
    assert said["branches"] == 2


def test_a_solver_of_ones_own_is_measured_and_subsets_follow(folder, needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")
    synth("gather", str(folder))
    (said,) = synth("difficulty", str(folder), "--solver", "solvers.py:odd_ones", "-n", "1")
    assert (said["solver"], said["attempts"], said["resolved"]) == ("solvers.py:odd_ones", 2, 1)
    (found,) = synth("select", str(folder), "--pass-rate", "0.5:", "-o", "hard.jsonl")
    assert found["tasks"] == 1
    (row,) = map(json.loads, Path("hard.jsonl").read_text().splitlines())
    assert (row["pass_rate"], row["attempts"]) == (1.0, 1)
    (stats,) = synth("stats", str(folder), "--plot", "stats.svg")
    assert stats["solvers"]["solvers.py:odd_ones"]["pass_rate"] == 0.5
    assert Path("stats.svg").exists()


def test_an_empty_selection_says_what_left_the_tasks_out(folder) -> None:
    synth("gather", str(folder))
    words = ["synth", "select", str(folder), "--lines", "9:", "--modifier", "x-*", "-o", "no.jsonl"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "None of 2 tasks: left out by `--lines` 2, `--modifier` 2." in done.stderr


def test_a_built_in_solver_plays_once_and_is_no_part_of_pass_rates(folder, needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")
    synth("gather", str(folder))
    (said,) = synth("difficulty", str(folder), "--solver", "nothing")
    assert (said["attempts"], said["resolved"]) == (2, 0)
    synth("gather", str(folder))
    assert {(row["attempts"], row["pass_rate"]) for row in rows(folder)} == {(0, None)}
    assert "No attempt of a solver other than Rolecraft's stand-ins" in refused(
        "select", str(folder), "--pass-rate", "0", "-o", "x"
    )
    (found,) = synth(
        *("select", str(folder), "--pass-rate", "0", "--solver", "nothing", "-o", "none.jsonl")
    )
    assert found["tasks"] == 2


REFUSED = [
    (("difficulty", "out"), "one of `--model`, `--solver` and `--from`"),
    (("difficulty", "out", "--solver", "best"), "one of `reference`, `nothing`"),
    (("difficulty", "out", "--solver", "solvers.py:odd_ones", "--as", "nothing"), "another name"),
    (("difficulty", "out", "--solver", "solvers.py:none"), "no function 'none'"),
    (("difficulty", "out", "--solver", "solvers.py:no_model"), "returned 3"),
    (("difficulty", "out", "--solver", "nothing", "--timeout", "3"), "name it with `--model`"),
    (("difficulty", "out", "--model", "openai/m", "--price", "1"), "such as 0.15,0.6"),
    (("select", "out", "--lines", "few", "-o", "x"), "`--lines`: 'few' is no range"),
    (("select", "out", "--modifier", "op-chance", "-o", "x"), "Did you mean 'op-change'?"),
    (("select", "out", "--split", "dev", "-o", "x"), "write train or test"),
    (("stats", "out", "--plot", "stats.txt"), "is no picture by its name"),
]


def test_what_cannot_be_meant_is_refused_in_words_of_options(folder) -> None:
    synth("gather", str(folder))
    for words, says in REFUSED:
        assert says in refused(*words)


def test_figures_are_tables_for_people(folder) -> None:
    synth("gather", str(folder))
    done = CliRunner().invoke(app, ["synth", "stats", str(folder)])
    assert done.exit_code == 0
    assert "sizes: 2 candidates, 2 validated, 2 valid, 2 tasks; 2 tests." in done.stdout
    assert "op-change" in done.stdout


def test_a_pass_rate_that_is_not_the_share_of_attempts_is_explained(folder) -> None:
    """2 of 3 attempts were solved, and `stats` said 0.5 without a word on how it came by that."""
    synth("gather", str(folder))
    first, second = (row["instance_id"] for row in rows(folder))
    with open_attempts(SynthesisFolder(folder)) as attempts:
        for task, number in ((first, 1), (first, 2), (second, 1)):
            attempts.append(
                Attempt(task=task, solver="some", number=number, resolved=task == first)
            )
    done = CliRunner().invoke(app, ["synth", "stats", str(folder)])
    assert done.exit_code == 0
    (line,) = (line.split() for line in done.stdout.splitlines() if line.strip()[:5] == "some ")
    assert line[:5] == ["some", "3", "2", "2", "0.5"]
    assert "A pass rate is the mean of the tasks' own" in done.stdout


def test_without_a_model_the_tasks_are_refused_before_anything_is_recorded(folder) -> None:
    synth("gather", str(folder))
    done = CliRunner().invoke(app, ["run", f"{folder}/tasks/scenario.py:tasks"])
    assert done.exit_code == 2
    assert "asks a model and has none: say which, `--model MODEL`" in done.stderr
    assert done.stdout == ""
    assert not Path("runs").exists()


def test_the_rehearsal_runs_without_a_model(folder, needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")
    synth("gather", str(folder))
    assert {row["split"] for row in rows(folder)} == {"train"}, "all code is in one file"
    scenario = f"{folder}/tasks/scenario.py:rehearsal"
    done = CliRunner().invoke(app, ["run", scenario, "--json"])
    assert done.exit_code == 0, done.output
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["reward"] > 0.9
    drawn = {row["instance_id"] for row in rows(folder) if row["instance_id"] in done.stderr}
    assert len(drawn) == 1, done.stderr
    assert "is for test" in done.stderr
