"""The whole way from a project to tasks that run, as a user goes it: command after command."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.environments.software_engineering import Grader, Instance
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.tasks import gathered_tasks

pytestmark = pytest.mark.slow

PYTHON = {
    "pyproject.toml": '[project]\nname = "purse"\nversion = "0.3"\n',
    "purse/__init__.py": "",
    "purse/money.py": '''"""Sums of money, in cents."""


def total(prices, discount=0):
    """What prices come to, less a discount in per cent."""
    if not 0 <= discount <= 100:
        raise ValueError("a discount is from 0 to 100")
    whole = sum(price for price in prices if price > 0)
    return whole - whole * discount // 100


def shares(amount, people):
    """An amount in parts that differ by one cent at most."""
    part, rest = divmod(amount, people)
    return [part + 1 if number < rest else part for number in range(people)]
''',
    "purse/text.py": '''"""Money in words."""


def shown(cents):
    """`1234` as `12.34`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def read(text):
    """`12.34` as `1234`."""
    sign = -1 if text.startswith("-") else 1
    whole, _, rest = text.strip().lstrip("-").partition(".")
    return sign * (int(whole) * 100 + int(rest.ljust(2, "0")))
''',
    "tests/test_money.py": """import pytest

from purse.money import shares, total


def test_a_total():
    assert total([100, 250]) == 350


def test_a_discount():
    assert total([100, 300], discount=25) == 300


def test_no_discount_beyond_all():
    assert total([100], discount=100) == 0
    with pytest.raises(ValueError):
        total([100], discount=101)


def test_debts_do_not_count():
    assert total([100, -50]) == 100


@pytest.mark.parametrize("people", range(1, 8))
def test_shares_come_to_the_amount(people):
    found = shares(100, people)
    assert sum(found) == 100
    assert len(found) == people
    assert max(found) - min(found) <= 1
""",
    "tests/test_text.py": """import pytest

from purse.text import read, shown


@pytest.mark.parametrize("cents", [0, 5, 10, 99, 100, 1234, -5, -1234])
def test_there_and_back(cents):
    assert read(shown(cents)) == cents


def test_shown():
    assert shown(1234) == "12.34"
    assert shown(-5) == "-0.05"


def test_read():
    assert read("3.5") == 350
""",
}
HALF = """from rolecraft.environments.software_engineering.examples import solvers


def gives_up(issues):
    return solvers.solver(issues, lambda _: [], name="gives-up")


def solves(issues):
    return solvers.solver(issues, lambda issue: solvers.patching_plan([issue]), name="solves")
"""
FIX = """\
--- a/src/area.cpp
+++ b/src/area.cpp
@@ -3,3 +3,3 @@
 int area(int side) {
-    return area(side, -2);
+    return area(side, side);
 }
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def rolecraft(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"{words}: {done.output}"
    return done.stdout


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_python_package_becomes_tasks_that_run(
    tmp_path: Path, bare_environment: Path, needs_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "purse", PYTHON)
    rolecraft("synth", "plan", "purse", "--out", "out", "--environment", str(bare_environment))
    rolecraft("synth", "plant", "out", "--most", "24")
    rolecraft("synth", "validate", "out", "--cap", "0.6")
    rolecraft("synth", "describe", "out")
    said = rolecraft("synth", "gather", "out", "--allow-missing", "--json")
    gathered = json.loads(said.splitlines()[-1])
    assert gathered["tasks"] >= 5
    assert set(gathered["splits"]) == {"train", "test"}
    ids = [*gathered_tasks(SynthesisFolder(tmp_path / "out")).instances]

    scenario = "out/tasks/scenario.py:rehearsal"
    said = rolecraft("run", scenario, "--task", ids[0], "--json")
    assert json.loads(said.splitlines()[-1])["reward"] > 0.9
    rolecraft("evaluate", scenario, "--tasks", "2", "--out", "evaluation")
    said = json.loads(rolecraft("synth", "difficulty", "out", "--from", "evaluation", "--json"))
    assert (said["added"], said["stand_ins"]) == (2, 2)
    solved = ("synth", "difficulty", "out", "--solver", "reference", "-n", "1", "--json")
    assert json.loads(rolecraft(*solved))["pass_rate"] == 1.0
    nothing = ("synth", "difficulty", "out", "--solver", "nothing", "-n", "1", "--json")
    assert json.loads(rolecraft(*nothing))["pass_rate"] == 0.0
    select = ("synth", "select", "out", "--pass-rate", "0.5", "-o", "some.jsonl", "--json")
    refused = CliRunner().invoke(app, select)
    assert refused.exit_code == 2, "nobody but stand-ins has tried"
    assert "No attempt of a solver other than Rolecraft's stand-ins was recorded" in refused.output
    write(tmp_path, {"half.py": HALF})
    play = ("--task", ids[0], "--task", ids[1], "--attempts", "1", "--json")
    for name in ("gives_up", "solves"):
        rolecraft("synth", "difficulty", "out", "--solver", f"half.py:{name}", *play)
    assert json.loads(rolecraft(*select))["tasks"] == 2, "each was solved by one of two"
    rolecraft("synth", "stats", "out", "--plot", "stats.svg")
    assert (tmp_path / "stats.svg").exists()

    before = (tmp_path / "out" / "tasks" / "tasks.jsonl").read_text()
    for step in ("plant", "validate", "describe"):
        more = ("--most", "24") if step == "plant" else ("--cap", "0.6") * (step == "validate")
        rolecraft("synth", step, "out", *more)
    shutil.rmtree(tmp_path / "out" / "attempts")
    (tmp_path / "out" / "pass_rates.jsonl").unlink()
    rolecraft("synth", "gather", "out", "--allow-missing")
    after = (tmp_path / "out" / "tasks" / "tasks.jsonl").read_text()
    assert after == before, "called again, each step finds its work done"


def test_one_command_does_all_steps_and_called_again_finds_them_done(
    tmp_path: Path, bare_environment: Path, needs_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "purse", PYTHON)
    command = ("synth", "make", "purse", "--out", "out", "--environment", str(bare_environment))
    command = (*command, "--most", "20", "--workers", "1", "--json")
    said = json.loads(rolecraft(*command).splitlines()[-1])
    rows = (tmp_path / "out/tasks/tasks.jsonl").read_text()
    assert said["tasks"] == len(rows.splitlines()) >= 3
    assert all(json.loads(row)["problem_statement"] for row in rows.splitlines())
    again = CliRunner().invoke(app, [*command[:-1]])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "out/tasks/tasks.jsonl").read_text() == rows
    assert "Next:" not in again.output, "of its steps none but the last one says what comes then"
    assert "rolecraft run out/tasks/scenario.py:tasks" in again.output


def test_a_served_model_plays_made_tasks_and_another_learns_from_them(
    tmp_path: Path,
    made: Any,
    three_bugs: Callable[[], Any],
    bare_environment: Path,
    needs_program: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By processes of their own, as a user starts them: `difficulty` asks what `serve` serves."""
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    monkeypatch.chdir(tmp_path)
    made.project["environment"] = str(bare_environment)
    three_bugs()
    rolecraft("synth", "gather", "out")
    rows = lines(tmp_path / "out/tasks/tasks.jsonl")
    tiny_chat_model(hidden=32, heads=2, context=8192, for_adapters=True).save("base")
    program = [sys.executable, "-m", "rolecraft.cli"]
    server = subprocess.Popen(
        [*program, "serve", "base", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = next(line.split()[-1] for line in server.stdout if line.startswith("Serving"))
        play = ["synth", "difficulty", "out", "--model", "openai/base", "--base-url", url]
        play += ["--task", rows[0]["instance_id"], "--attempts", "1"]
        play += ["--price", "1,1", "--json"]
        for now in (1, 0):
            ran = subprocess.run([*program, *play], capture_output=True, text=True, check=True)
            said = json.loads(ran.stdout)
            assert (said["attempts"], said["resolved"], said["failed"]) == (1, 0, 0), ran.stderr
            assert bool(said["usd"]) == bool(now), "its server has no prices of its own"
            assert said["played"] == now, "what is over is not played again"
    finally:
        server.kill()
        server.communicate()
    train = ["train", "out/tasks/scenario.py:tasks", "--model", "base", "--out", "trained"]
    train += ["--steps", "1", "--tasks-per-step", "1", "--no-checks"]
    subprocess.run([*program, *train], capture_output=True, check=True)
    seen = {line["id"] for line in lines(tmp_path / "trained/tasks.jsonl")}
    assert seen
    assert seen <= {row["instance_id"] for row in rows if row["split"] == "train"}
    weights = [tmp_path / name / "model.safetensors" for name in ("base", "trained")]
    assert [path.is_file() for path in weights] == [True, True]


def test_a_cpp_project_becomes_tasks_that_are_graded(
    tmp_path: Path,
    cmake_files: dict[str, str],
    needs_program: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for program, package in (
        ("bwrap", "bubblewrap"),
        ("git", "git"),
        ("cmake", "cmake"),
        ("c++", "g++"),
    ):
        needs_program(program, package=package)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "shapes", cmake_files)
    write(tmp_path / "patches", {"area.patch": FIX})
    command = ("synth", "make", "shapes", "--out", "out")
    refused = CliRunner().invoke(app, [*command])
    assert refused.exit_code == 2
    assert "`rolecraft synth write OUT --patches DIR`" in refused.output
    planned = CliRunner().invoke(app, ["synth", "plan", "shapes", "--out", "out"])
    assert "Next: rolecraft synth write out --patches DIR" in planned.output
    made = CliRunner().invoke(app, [*command, "--patches", "patches"])
    assert "1 task without a text: the failing tests print nothing." in made.output
    assert "no_text" in made.output, "all but the last step went through"
    rolecraft("synth", "gather", "out", "--allow-missing", "--split-by", "task")
    folder = SynthesisFolder(tmp_path / "out")
    (instance,) = gathered_tasks(folder).instances.values()
    assert (instance.runner, instance.fail_to_pass) == ("junit", ("square",))
    assert instance.pass_to_pass == ("negative", "rectangle")
    asyncio.run(grade(instance))

    scenario = "out/tasks/scenario.py:rehearsal"
    said = rolecraft("run", scenario, "--task", instance.id, "--json")
    assert json.loads(said.splitlines()[-1])["reward"] > 0.9


async def grade(instance: Instance) -> None:
    """The agent gets the bug and empty tests; the reference mends it, another patch does not."""
    bases = Bases()
    base = await bases.of(instance)
    assert "area(side, -2)" in (base.agent / "src" / "area.cpp").read_text()
    assert (base.agent / "tests" / "square.cpp").read_text() == ""
    grader = Grader(bases=bases)
    assert (await grader.grade_reference(instance)).resolved
    other = "--- a/README\n+++ b/README\n@@ -0,0 +1 @@\n+Shapes.\n"
    found = await grader.grade_text(instance, other)
    assert (found.resolved, found.fail_to_pass.failed) == (False, ("square",))
