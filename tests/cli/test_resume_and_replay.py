"""`rolecraft run --resume` goes on with a run, `rolecraft replay` plays one again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.trajectories import Journal, Trajectory, load_timings

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


LIMITED = """
import os

from rolecraft import Action, FunctionModel, Limits, Role, Team


class Draft(Action):
    async def run(self, history):
        return await self.ask("Write.")


class Pay(Action):
    repeat = "never"

    async def run(self, history):
        if os.environ.get("KILL"):
            os._exit(9)
        return "paid"


class Publish(Action):
    approval = True

    async def run(self, history):
        return "published"


def made(actions, **options):
    model = FunctionModel(lambda call: "a poem")
    return Team([Role(name="Ann", actions=actions)], model=model, **options)


def limited():
    return made([Draft, Draft], limits=Limits(calls=1))


def poor():
    team = made([Draft, Draft])
    team.roles["Ann"].limits = Limits(calls=1)
    return team


def short():
    team = made([Draft], limits=Limits(rounds=1))
    team.hire([Role(name="Ben", actions=[Pay], watch=[Draft])])
    return team


def paying():
    return made([Draft, Pay])


def both():
    team = paying()
    team.hire([Role(name="Ben", actions=[Draft])])
    return team


def public():
    return made([Draft, Publish])


def scripted():
    return made([Draft], journal="scripted.jsonl")


if __name__ == "__main__":
    import asyncio

    asyncio.run(scripted().run("rain"))
    print("the script ran")
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "job.py").write_text(LIMITED)
    (tmp_path / "job.py").write_text(LIMITED)
    return tmp_path


def test_a_reached_limit_is_raised_from_the_command_line(cli, job):
    """The command that is told goes on, rather than into the same limit again."""
    reached = cli("run", "job.py:limited", "--task", "rain")
    command = "rolecraft run job.py:limited --resume runs/job-limited.jsonl --calls N"
    assert command in reached.out
    again = cli("run", "job.py:limited", "--resume", "runs/job-limited.jsonl", "--calls", "2")
    assert again.code == ExitCode.OK, again.err


def test_a_limit_of_one_role_is_raised_in_its_file(cli, job):
    assert "Raise `Limits(calls=...)` of role 'Ann'" in cli("run", "job.py:poor", "--task", "x").out


@pytest.mark.parametrize(("option", "value"), [("--tokens", 0), ("--seconds", 0), ("--calls", 0)])
def test_each_limit_can_be_set(cli, job, option, value):
    reached = cli("run", "job.py:paying", "--task", "rain", option, value, "--json")
    assert reached.lines[0]["stop"] == "limit"


def test_rounds_that_are_given_count_from_where_the_run_stopped(cli, job):
    """Also where the file limits them: what the command line says goes."""
    assert "--rounds N" in cli("run", "job.py:short", "--task", "rain").out
    over = cli("run", "job.py:short", "--resume", "runs/job-short.jsonl")
    assert "had played all its rounds" in over.err
    went_on = cli("run", "job.py:short", "--resume", "runs/job-short.jsonl", "--rounds", "1")
    assert went_on.code == ExitCode.OK


def test_a_run_that_was_over_says_so(cli, job):
    cli("run", "job.py:paying", "--task", "rain")
    again = cli("run", "job.py:paying", "--resume", "runs/job-paying.jsonl")
    assert again.code == ExitCode.OK
    assert "was over already (idle)" in again.err


def test_what_may_have_taken_effect_is_decided_on_the_command_line(cli, process, job, monkeypatch):
    monkeypatch.setenv("KILL", "1")
    process("run", "job.py:paying", "--task", "rain")
    monkeypatch.delenv("KILL")
    resume = ("run", "job.py:paying", "--resume", "runs/job-paying.jsonl")
    asked = cli(*resume)
    assert asked.code == ExitCode.ERROR
    assert "`--on-unknown skip`" in asked.err
    assert "To go on" not in asked.err
    done = cli(*resume, "--on-unknown", "redo", "--json")
    assert done.lines[0]["message"] == "paid"


def test_a_denial_ends_the_run_and_nobody_is_told_to_go_on(cli, job):
    cli("run", "job.py:public", "--task", "rain")
    denied = cli(
        *("run", "job.py:public", "--resume", "runs/job-public.jsonl"),
        *("--deny", "job-public/Ann/2"),
    )
    assert denied.code == ExitCode.ERROR
    assert "The denial ended the run" in denied.err
    assert "To go on" not in denied.err


def test_a_refused_resume_leaves_nothing_behind(cli, job):
    cli("run", "job.py:paying", "--task", "rain")
    times = job / "runs" / "job-paying.timings.jsonl"
    times.unlink()
    refused = cli("run", "job.py:short", "--resume", "runs/job-paying.jsonl")
    assert refused.code == ExitCode.ERROR
    assert "Make the same team" in refused.err or "this team has" in refused.err
    assert "To go on" not in refused.err
    assert not times.exists()


@pytest.mark.parametrize("way", ["script", "folder"])
def test_the_file_gets_the_module_name_that_it_had_when_it_was_recorded(process, job, way):
    """Run as a script its classes are `__main__.Draft`, from its own folder `job.Draft`."""
    if way == "script":
        done = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True)
        assert done.stdout == "the script ran\n", done.stderr
        journal = "scripted.jsonl"
    else:
        process("run", "job.py:paying", "--task", "rain", "--journal", "../own.jsonl", cwd="shop")
        journal = "own.jsonl"
    target = "job.py:scripted" if way == "script" else "shop/job.py:paying"
    (job / "pyproject.toml").touch()
    for command in (("replay", target, journal), ("run", target, "--resume", journal)):
        result = process(*command)
        assert result.code == ExitCode.OK, result.err
        assert "the script ran" not in result.out


def test_a_run_that_was_cut_off_is_shown_as_that(cli, process, job, monkeypatch):
    monkeypatch.setenv("KILL", "1")
    process("run", "job.py:both", "--task", "rain")
    shown = cli("show", "runs/job-both.jsonl")
    assert "Stopped: cut off;" in shown.out
    assert "while Pay of Ann ran" in shown.out
    assert "`runs/job-both.jsonl.pending` holds" in shown.out
    assert "rolecraft run FILE.py:NAME --resume runs/job-both.jsonl" in shown.out
    assert cli("show", "runs/job-both.jsonl", "--json").lines[0]["pending"] > 0
    beside = cli("show", "runs/job-both.jsonl.pending")
    assert beside.code == ExitCode.USAGE
    assert "`rolecraft show runs/job-both.jsonl`" in beside.err
    assert "was not over: it was cut off" in cli("replay", "job.py:both", "runs/job-both.jsonl").out


def test_a_run_that_waits_is_shown_with_its_key_and_the_command(cli, job):
    cli("run", "job.py:public", "--task", "rain")
    waits = ("Waits for permission: Publish of Ann, key job-public/Ann/2", "--approve KEY")
    shown = cli("show", "runs/job-public.jsonl", "--html", "page.html", "--json")
    page = (job / "page.html").read_text("utf-8")
    out = cli("show", "runs/job-public.jsonl").out
    assert all(text in out and text in page for text in waits)
    assert shown.lines[0]["approvals"] == [
        {"role": "Ann", "action": "Publish", "key": "job-public/Ann/2"}
    ]
    assert "stopped with 'approval'" in cli("replay", "job.py:public", "runs/job-public.jsonl").out


def test_a_run_that_goes_on_in_another_process_is_not_called_cut_off(cli, job):
    cli("run", "job.py:paying", "--task", "rain")
    path = job / "runs" / "job-paying.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with Journal(path):
        assert "still going on" in cli("show", path).out
    assert "It was cut off" in cli("show", path).out


def test_a_folder_is_answered_with_what_can_be_shown(cli, job):
    cli("run", "job.py:paying", "--task", "rain")
    result = cli("show", "runs")
    assert result.code == ExitCode.USAGE
    assert "rolecraft show runs/job-paying.jsonl" in result.err


def test_an_action_is_no_thing_to_run(cli, job):
    result = cli("run", "job.py:Draft", "--task", "rain")
    assert result.code == ExitCode.USAGE
    assert "is an action, and only a role can run one" in result.err


def test_states_of_several_roles_are_one_diagram(cli, job):
    cli("run", "job.py:both", "--task", "rain")
    out = cli("show", "runs/job-both.jsonl", "--diagram", "state").out
    assert out.count("stateDiagram-v2") == 1
    assert '    state "Ann" as r0 {' in out
