"""`rolecraft new`: the project has the card's layout, is the user's own, and works at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from rolecraft.cli._exits import ExitCode

TOP_LEVEL = {"pyproject.toml", "roles", "actions", "environments", "failure_taxonomy", "tests"}


@pytest.fixture
def project(cli, tmp_path) -> Path:
    assert cli("new", "desk").code == ExitCode.OK
    return tmp_path / "desk"


def test_the_top_level_is_exactly_the_card(project):
    assert {path.name for path in project.iterdir()} == TOP_LEVEL


def test_the_name_is_the_projects(project):
    about = tomllib.loads((project / "pyproject.toml").read_text())
    assert about["project"]["name"] == "desk"
    assert about["project"]["dependencies"] == ["rolecraft"]
    for path in project.rglob("*"):
        assert path.is_dir() or "PROJECT_NAME" not in path.read_text("utf-8")


def test_run_annotate_and_tests_work_at_once(process, project):
    """In processes of their own, offline and without a key."""
    keys = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    env = {**os.environ, **keys}
    task = "Rain in spring and snow in summer surprise everybody in town"
    run = process(
        *("run", "environments/newsroom.py:team", "--task", task, "--json"), cwd=project, env=env
    )
    assert run.code == ExitCode.OK, run.err
    assert json.loads(run.out)["message"].startswith("Approved: ")
    assert "stand-in: no language model" in run.err

    annotated = process("annotate", "runs", "--json", cwd=project, env=env)
    assert annotated.code == ExitCode.OK, annotated.err
    assert len(annotated.lines) == 1
    modes = ("--modes", "failure_taxonomy/modes.toml")
    with_own = process("annotate", "runs", *modes, "--json", cwd=project, env=env)
    (own,) = [row for row in with_own.lines[0]["findings"] if row["mode"] == "headline.too_long"]
    assert (own["verdict"], own["code"]) == ("unknown", "")

    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert "6 passed" in tests.stdout


def test_who_has_no_pytest_is_told_how_to_get_it(cli, monkeypatch):
    assert "  python -m pytest\n" in cli("new", "desk").out
    monkeypatch.setattr("rolecraft.cli.new._has_pytest", lambda: False)
    assert "  pip install pytest && python -m pytest\n" in cli("new", "other").out


def test_import_roles_is_the_users(project):
    """Rolecraft installs no top-level `roles` that could shadow or be shadowed."""
    code = "import rolecraft, roles, actions, environments; print(roles.__file__, roles.__all__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == str(project / "roles" / "__init__.py")
    assert "Writer" in done.stdout


def test_json_names_the_files(cli, tmp_path):
    (line,) = cli("new", "desk", "--json").lines
    assert line["project"] == "desk"
    made = {str(p.relative_to(tmp_path / "desk")) for p in (tmp_path / "desk").rglob("*.*")}
    assert set(line["files"]) == made


def test_the_project_passes_the_linter(project):
    checks = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100"]
    done = subprocess.run(
        [*checks, "--select", "E,F,I,B,UP", "."],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "name", ["9lives", "my team", "naïve", "-x-", "rolecraft", "json", "class", "a/..", "end-"]
)
def test_bad_names_are_refused(cli, tmp_path, name):
    result = cli("new", "--", name)
    assert result.code == ExitCode.USAGE
    assert not any(tmp_path.rglob("pyproject.toml"))


def test_a_folder_that_is_in_use_is_refused_and_left_alone(cli, tmp_path):
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "notes.txt").write_text("mine")
    result = cli("new", "desk")
    assert result.code == ExitCode.USAGE
    assert "not empty" in result.err
    assert [path.name for path in (tmp_path / "desk").iterdir()] == ["notes.txt"]


def test_an_empty_folder_is_used(cli, tmp_path):
    (tmp_path / "desk").mkdir()
    assert cli("new", tmp_path / "desk").code == ExitCode.OK


def test_a_file_of_that_name_is_refused(cli, tmp_path):
    (tmp_path / "desk").write_text("")
    assert "is a file" in cli("new", "desk").err


def test_templates_are_no_code_of_rolecrafts():
    """Their ending keeps linters, type checkers and importers off them."""
    root = resources.files("rolecraft.cli").joinpath("project-template")
    waiting, files = [root], []
    while waiting:
        for item in waiting.pop().iterdir():
            if item.is_dir():
                waiting.append(item)
            else:
                files.append(item.name)
    assert len(files) > 10
    assert all(name.endswith(".template") for name in files)
