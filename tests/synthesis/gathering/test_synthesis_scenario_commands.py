"""Each command that a gathered `scenario.py` names works as it stands there."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.gathering.gather import gather

STAND_IN = """
from rolecraft.environments.software_engineering.examples.solvers import null_solver
from scenario import TASKS

model = null_solver(TASKS.instances.values())
"""


def commands(scenario: Path) -> list[list[str]]:
    """What the docstring names, in words; what is in brackets is said of it."""
    said = ast.get_docstring(ast.parse(scenario.read_text("utf-8")))
    assert said is not None
    lines = [line.strip().partition("(")[0] for line in said.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("rolecraft ")]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, without_keys: None, needs_program: Any) -> Any:
    """Calls a command where it has no key and no hub to ask."""
    needs_program("git", package="git")
    needs_program("bwrap", package="bubblewrap")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return lambda words: CliRunner().invoke(app, words)


@pytest.mark.parametrize(
    ("held_out", "kinds"),
    [
        (0.2, ["run", "run", "evaluate", "train"]),
        (0, ["run", "run", "evaluate", "train"]),
        (1, ["run", "run", "evaluate"]),
    ],
)
def test_each_command_of_a_scenario_file_gets_to_its_model(
    three_bugs, monkeypatch, called, held_out, kinds
) -> None:
    """One named a model that `train` refuses, and one a split without tasks."""
    made = three_bugs()
    gather(made.folder, held_out=held_out)
    monkeypatch.chdir(made.folder.tasks)
    named = commands(Path("scenario.py"))
    assert [words[0] for words in named] == kinds
    assert called(named[0]).exit_code == 0
    for words in named[1:]:
        done = called(words)
        assert done.exit_code != 0, words
        if words[0] == "train":
            assert "`Qwen/Qwen3-0.6B` is not in the cache" in done.stderr
        else:
            assert "OPENAI_API_KEY" in done.stderr


@pytest.mark.parametrize("held_out", [0, 0.2])
def test_the_evaluation_that_a_scenario_file_names_has_tasks(
    three_bugs, monkeypatch, called, held_out
) -> None:
    made = three_bugs()
    gather(made.folder, held_out=held_out)
    monkeypatch.chdir(made.folder.tasks)
    monkeypatch.syspath_prepend(str(made.folder.tasks))
    Path("stand_in.py").write_text(STAND_IN)
    (words,) = [words for words in commands(Path("scenario.py")) if words[0] == "evaluate"]
    words[words.index("--model") + 1] = "stand_in.py:model"
    done = called([*words, "--out", "evaluation"])
    assert done.exit_code == 0, done.output
    assert Path("evaluation/evaluation.json").exists()
