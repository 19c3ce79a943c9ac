"""`rolecraft synth plant` and `rolecraft synth modifiers`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite

CODE = "def f(a):\n    if a > 1:\n        return a + 1\n    return a\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = SynthesisFolder(tmp_path / "out")
    (folder.source / "toy").mkdir(parents=True)
    (folder.source / "toy/a.py").write_text(CODE)
    project = Project(name="toy", source=str(folder.source), code=("toy/a.py",), tests=())
    Plan(project, Suite(outcomes={"t": "passed"})).save(folder)
    return folder.path


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["synth", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def test_plant_tells_by_modifier_and_names_the_next_command(out: Path) -> None:
    code, said, progress = run("plant", out, "--modifier", "change-constant")
    assert code == 0, progress
    assert "4 candidates." in said
    assert "change-constant" in said
    assert "files: 1 of 1" in progress
    assert "candidates: 4 of 4, change-constant" in progress
    assert f"Next: rolecraft synth validate {out}" in progress
    assert len(SynthesisFolder(out).candidates.read_text().splitlines()) == 4


def test_plant_goes_on_where_it_was(out: Path) -> None:
    run("plant", out, "--most", 2)
    begun = SynthesisFolder(out).candidates.read_text()
    _, said, _ = run("plant", out, "--most", 4)
    assert "4 candidates, 2 of them from before." in said
    assert SynthesisFolder(out).candidates.read_text().startswith(begun)


def test_plant_gives_a_json_line_for_each_modifier(out: Path) -> None:
    code, said, _ = run("plant", out, "--modifier", "change-constant", "--json")
    assert code == 0
    assert [json.loads(line) for line in said.splitlines()] == [
        {"modifier": "change-constant", "candidates": 4, "same": 0}
    ]


def test_plant_says_what_gave_nothing(out: Path) -> None:
    (out / "source/toy/a.py").write_text("print 'x'\n")
    code, said, progress = run("plant", out)
    assert code == 0
    assert "0 candidates." in said
    assert "Nothing from toy/a.py: line 1" in progress


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--modifier", "change-constat"], "Did you mean 'change-constant'?"),
        (["--most", "0"], "--most"),
    ],
)
def test_a_wrong_option_ends_with_2_and_one_line(out: Path, words: list[str], message: str) -> None:
    code, _, said = run("plant", out, *words)
    assert code == 2
    assert message in said
    assert "Traceback" not in said


def test_a_folder_without_a_plan_is_refused_with_the_way_out(tmp_path: Path) -> None:
    code, _, said = run("plant", tmp_path)
    assert code == 2
    assert "rolecraft synth plan PATH --out" in said


def test_modifiers_are_listed_with_what_they_do() -> None:
    code, said, _ = run("modifiers", "--json")
    listed = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert len(listed) >= 40
    assert all(each["about"].endswith(".") for each in listed)
    assert {"modifier": "invert-if", "of": ["function"], "weight": 1.0}.items() <= next(
        each for each in listed if each["modifier"] == "invert-if"
    ).items()
