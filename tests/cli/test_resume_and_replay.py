"""`rolecraft run --resume` goes on with a run, `rolecraft replay` plays one again."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.trajectories import Trajectory, load_timings

CREW = """
from pathlib import Path

from rolecraft import Action, FunctionModel, Role, Team


class Draft(Action):
    async def run(self, history):
        with Path("done.txt").open("a") as done:
            done.write("draft\\n")
        return await self.ask("Write.")


class Check(Action):
    async def run(self, history):
        if not Path("ready.txt").exists():
            raise ValueError("not ready")
        return "checked"


class Publish(Action):
    approval = True

    async def run(self, history):
        return "published"


def team():
    return Team(
        [
            Role(name="Writer", actions=[Draft]),
            Role(name="Editor", actions=[Check], watch=[Draft]),
            Role(name="Press", actions=[Publish], watch=[Check]),
        ],
        model=FunctionModel(lambda call: "a poem"),
    )


def other():
    return Team([Role(name="Writer", actions=[Check])])


"""


@pytest.fixture
def crew(tmp_path):
    (tmp_path / "crew.py").write_text(CREW)
    return tmp_path


def test_a_run_that_failed_goes_on_where_it_stopped(cli, crew):
    """What was done is not done again, and the record has one run."""
    failed = cli("run", "crew.py:team", "--task", "rain")
    assert failed.code == ExitCode.ERROR
    assert "--resume runs/crew-team.jsonl" in failed.err
    (crew / "ready.txt").touch()
    waits = cli("run", "crew.py:team", "--resume", "runs/crew-team.jsonl", "--json")
    assert waits.code == ExitCode.INCOMPLETE
    assert waits.lines[0]["stop"] == "approval"
    assert (crew / "done.txt").read_text() == "draft\n"
    (waiting,) = waits.lines[0]["approvals"]
    assert (waiting["role"], waiting["action"]) == ("Press", "Publish")

    went_on = cli(
        *("run", "crew.py:team", "--resume", "runs/crew-team.jsonl"),
        *("--approve", waiting["key"], "--json"),
    )
    assert went_on.code == ExitCode.OK, went_on.err
    assert went_on.lines[0]["message"] == "published"
    run = Trajectory.load("runs/crew-team.jsonl")
    assert run.stop_reason == "idle"
    assert [e.role for e in run.of("message")] == ["user", "Writer", "Editor", "Press"]
    assert (crew / "done.txt").read_text() == "draft\n"


def test_people_are_told_how_to_go_on(cli, crew):
    (crew / "ready.txt").touch()
    out = cli("run", "crew.py:team", "--task", "rain").out
    assert "Waits for permission: Publish of Press, key " in out
    assert "rolecraft run crew.py:team --resume runs/crew-team.jsonl --approve KEY" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--resume", "gone.jsonl"], "There is no journal `gone.jsonl`"),
        (["--resume", "crew.py", "--task", "x"], "leave `--task` out"),
        (["--resume", "crew.py", "--seed", "3"], "leave `--seed` out"),
        (["--task", "x", "--approve", "1"], "for a run to `--resume`"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(cli, crew, arguments, says):
    result = cli("run", "crew.py:team", *arguments)
    assert result.code == ExitCode.USAGE
    assert says in result.err


def test_wall_times_are_taken_beside_the_journal(cli, crew):
    (crew / "ready.txt").touch()
    cli("run", "crew.py:team", "--task", "rain")
    run = Trajectory.load("runs/crew-team.jsonl")
    assert set(load_timings("runs/crew-team.jsonl")) == {event.seq for event in run.events}
    assert run.role_table()["Writer"].seconds is not None
    assert "-" not in cli("show", "runs/crew-team.jsonl").out.splitlines()[5].split()[-2:]


def played(cli, crew) -> str:
    (crew / "ready.txt").touch()
    return cli("run", "crew.py:team", "--task", "rain", "--json").lines[0]["journal"]


def test_a_replay_of_the_same_code_is_the_same(cli, crew):
    journal = played(cli, crew)
    before = (crew / journal).read_bytes()
    result = cli("replay", "crew.py:team", journal)
    assert result.code == ExitCode.OK, result.err
    assert "byte for byte" in result.out
    assert (crew / journal).read_bytes() == before
    assert (crew / "done.txt").read_text() == "draft\n", "nothing is done again"


def test_a_replay_of_another_team_says_so(cli, crew):
    result = cli("replay", "crew.py:other", played(cli, crew))
    assert result.code == ExitCode.ERROR
    assert "Make the same team as then" in result.err


def test_a_replay_that_differs_names_the_first_event(cli, crew):
    journal = played(cli, crew)
    lines = (crew / journal).read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"id":"Writer:1"' in line)
    lines[at] = lines[at].replace("Writer:1", "Writer:7")
    (crew / journal).write_text("\n".join(lines) + "\n")
    result = cli("replay", "crew.py:team", journal, "--json")
    assert result.code == ExitCode.INCOMPLETE
    assert result.lines[0]["same"] is False
    assert result.lines[0]["seq"] == json.loads(lines[at])["seq"]
    assert "differs from its record" in result.err


def test_a_journal_that_is_not_there_is_wrong_usage(cli, crew):
    assert cli("replay", "crew.py:team", "gone.jsonl").code == ExitCode.USAGE
