"""`--model FILE.py:NAME` is a stand-in of the user's own, in every command that plays."""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode

STAND_INS = """
from rolecraft import FunctionModel


def first(call):
    return call.sampling.choices[0]


model = FunctionModel(first, name="a model")
number = 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(STAND_INS)


@pytest.mark.parametrize("name", ["first", "model"])
@pytest.mark.parametrize("command", ["run", "rollout"])
def test_a_stand_in_of_a_file_plays_every_role(cli, file, tmp_path, command, name):
    (tmp_path / "game.py").write_text("from rolecraft.scenarios.relay import relay\n")
    shown = cli(command, "game.py:relay", "--model", f"mine.py:{name}", "--out", "out")
    assert shown.code == ExitCode.OK, shown.err
    journal = next(each for each in (tmp_path / "out").rglob("*.jsonl") if "relay" in str(each))
    assert '"model":"' + ("first" if name == "first" else "a model") in journal.read_text()


def test_one_role_can_have_a_stand_in(cli, file, tmp_path):
    (tmp_path / "game.py").write_text("from rolecraft.scenarios.relay import relay\n")
    both = ("--model", "mine.py:model", "--role-model", "planner=mine.py:first")
    assert cli("run", "game.py:relay", *both, "--out", "out").code == ExitCode.OK
    record = (tmp_path / "out" / "game-relay.jsonl").read_text()
    assert '"model":"first"' in record
    assert '"model":"a model"' in record


def test_what_is_no_stand_in_is_named_with_its_option(cli, file, tmp_path):
    (tmp_path / "game.py").write_text("from rolecraft.scenarios.relay import relay\n")
    refused = cli("run", "game.py:relay", "--role-model", "planner=mine.py:number")
    assert refused.code == ExitCode.USAGE
    assert "`--role-model mine.py:number`: 'number' is 3 there" in refused.err
