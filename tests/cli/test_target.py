"""`FILE.py:NAME`: what can be named, and what every mistake is answered with."""

from __future__ import annotations

import sys

import pytest
import typer

from rolecraft import Team
from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._target import load_file, load_target
from rolecraft.scenarios import Scenario


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("team", ["Writer", "Reviewer"]),
        ("Writer", ["Writer"]),
        ("writer", ["Writer"]),
        ("roles", ["Writer", "Reviewer"]),
    ],
)
def test_a_team_a_role_a_class_and_functions_become_teams(team_file, name, roles):
    team = load_target(f"crew.py:{name}")
    assert isinstance(team, Team)
    assert list(team.roles) == roles


def test_a_scenario_is_found(tmp_path):
    (tmp_path / "mine.py").write_text("from rolecraft.scenarios.relay import relay as game\n")
    assert isinstance(load_target("mine.py:game"), Scenario)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("crew.py", "write FILE.py:NAME. It has: `Writer`, `Reviewer`, `Endless`, `team`"),
        ("crew.py:", "has no ''"),
        ("crew.py:tema", "has no 'tema'. It has: "),
        ("crew.py:answer", "is 42; expected a `Team`"),
        ("crew.py:number", "returned 3"),
        ("crew.py:with_arguments", "takes arguments: (model)"),
        ("crew.py:later", "is an `async def`"),
        ("crow.py:team", "There is no file `crow.py`"),
        ("crew.txt:team", "is no Python file"),
        ("team", "write FILE.py:NAME"),
    ],
)
def test_mistakes_are_named_with_the_way_out(team_file, spec, says):
    with pytest.raises(CommandLineError) as caught:
        load_target(spec)
    assert says in str(caught.value)


def test_candidates_are_what_can_be_run_and_nothing_else(team_file):
    with pytest.raises(CommandLineError) as caught:
        load_target("crew.py:nothing")
    listed = str(caught.value).partition("It has: ")[2]
    assert "`team`" in listed
    for other in ("Team", "ScriptedModel", "answer", "with_arguments", "Draft"):
        assert f"`{other}`" not in listed


def test_a_file_with_nothing_to_run_says_so(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(CommandLineError, match="nothing that can be run"):
        load_target("empty.py:y")


def test_an_error_in_the_file_shows_the_users_lines_only(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    with pytest.raises(typer.Exit) as caught:
        load_target("bad.py:team")
    assert caught.value.exit_code == 1
    told = capsys.readouterr().err
    assert "helper.py" in told
    assert "ZeroDivisionError" in told
    assert "importlib" not in told
    assert "_target.py" not in told


def test_a_syntax_error_is_shown_with_its_place(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("def team(:\n")
    with pytest.raises(typer.Exit):
        load_target("bad.py:team")
    told = capsys.readouterr().err
    assert "SyntaxError" in told
    assert "bad.py" in told
    assert "line 1" in told


def test_packages_beside_the_file_are_the_users_own(tmp_path):
    """The current folder comes first, and modules get their dotted names."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("WHOSE = 'mine'\n")
    (tmp_path / "places").mkdir()
    (tmp_path / "places" / "__init__.py").write_text("")
    (tmp_path / "places" / "shop.py").write_text("from tools import WHOSE\nfrom . import __name__")
    module = load_file("places/shop.py")
    assert module.WHOSE == "mine"
    assert module.__name__ == "places"


def test_the_project_of_the_file_comes_first_wherever_one_stands(tmp_path, monkeypatch):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder, whose in ((project, "project"), (elsewhere, "elsewhere")):
        (folder / "gear").mkdir(parents=True)
        (folder / "gear" / "__init__.py").write_text(f"WHOSE = {whose!r}\n")
    (project / "pyproject.toml").write_text("")
    (project / "sub").mkdir()
    (project / "sub" / "main.py").write_text("from gear import WHOSE\n")
    monkeypatch.chdir(elsewhere)
    assert load_file("../project/sub/main.py").WHOSE == "project"


def test_a_file_named_like_a_library_is_loaded_nevertheless(tmp_path):
    (tmp_path / "json.py").write_text("MINE = True\n")
    real = sys.modules["json"]
    assert load_file("json.py").MINE
    assert sys.modules["json"] is real


def test_a_file_whose_name_is_no_identifier_is_loaded(tmp_path):
    (tmp_path / "my-team.py").write_text("MINE = True\n")
    assert load_file("my-team.py").MINE
