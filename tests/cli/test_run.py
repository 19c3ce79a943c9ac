"""`rolecraft run`: records what happens, and says how it ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from rolecraft import Action, Role, ScriptedModel, Team
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models
from rolecraft.trajectories import Trajectory, trace_files


def test_messages_are_shown_as_they_come_then_usage_and_journal(cli, team_file):
    result = cli("run", "crew.py:team", "--task", "Write a poem")
    assert result.code == ExitCode.OK
    said = [line for line in result.out.splitlines() if ": " in line]
    assert said[:3] == ["user: Write a poem", "Writer: a poem", "Reviewer: reviewed: a poem"]
    assert "1 model call" in result.out
    assert "runs/crew-team.jsonl" in result.out


def test_the_journal_is_the_run(cli, team_file):
    cli("run", "crew.py:team", "--task", "Write a poem", "--seed", "7")
    trajectory = Trajectory.load("runs/crew-team.jsonl")
    assert trajectory.id == "crew-team"
    assert trajectory.about["task"] == {"prompt": "Write a poem"}
    assert trajectory.about["seed"] == 7
    assert [event.role for event in trajectory.of("message")] == ["user", "Writer", "Reviewer"]
    assert trajectory.stop_reason == "idle"


def test_json_has_one_line_and_nothing_else_on_stdout(process, team_file):
    """Also what user code prints, and what people would read, goes to stderr."""
    result = process("run", "crew.py:team", "--task", "Write a poem", "--json")
    assert result.code == ExitCode.OK
    record = json.loads(result.out)
    assert record["stop"] == "idle"
    assert record["message"] == "reviewed: a poem"
    assert record["journal"] == "runs/crew-team.jsonl"
    assert record["usage"]["calls"] == record["roles"]["Writer"]["calls"] == 1
    assert "user code prints" in result.err
    assert "Reviewer: reviewed: a poem" in result.err


def test_further_runs_take_free_names(cli, team_file):
    for _ in range(3):
        cli("run", "crew.py:team", "--task", "x", "--out", "kept")
    found = sorted(path.name for path in trace_files(team_file.parent / "kept"))
    assert found == ["crew-team-2.jsonl", "crew-team-3.jsonl", "crew-team.jsonl"]


def test_a_journal_of_ones_own_is_not_overwritten(cli, team_file):
    assert cli("run", "crew.py:team", "--task", "x", "--journal", "logs/a.jsonl").code == 0
    first = (team_file.parent / "logs" / "a.jsonl").read_bytes()
    again = cli("run", "crew.py:team", "--task", "x", "--journal", "logs/a.jsonl")
    assert again.code == ExitCode.USAGE
    assert "exists already" in again.err
    assert (team_file.parent / "logs" / "a.jsonl").read_bytes() == first


def test_a_folder_that_cannot_be_made_is_named(cli, team_file):
    (team_file.parent / "taken").write_text("a file")
    result = cli("run", "crew.py:team", "--task", "x", "--out", "taken/runs")
    assert result.code == ExitCode.USAGE
    assert "taken" in result.err


def test_a_single_role_gets_the_task_whatever_it_watches(cli, team_file):
    result = cli("run", "crew.py:Reviewer", "--task", "this", "--json")
    assert result.lines[0]["message"] == "reviewed: this"


def test_the_round_limit_ends_a_run_with_its_own_exit_code(cli, team_file):
    result = cli("run", "crew.py:endless", "--task", "x", "--rounds", "3", "--json")
    assert result.code == ExitCode.INCOMPLETE
    assert result.lines[0]["stop"] == "rounds"
    assert Trajectory.load("runs/crew-endless.jsonl").stop_reason == "rounds"


def test_a_teams_own_limit_holds_and_is_named(cli, team_file):
    result = cli("run", "crew.py:costly", "--task", "x", "--json")
    assert result.code == ExitCode.INCOMPLETE
    assert result.lines[0]["stop"] == "limit"
    assert "0 model calls" in result.lines[0]["limit"]


def test_a_limit_that_stops_the_run_is_named_too(cli, team_file):
    result = cli("run", "crew.py:frugal", "--task", "x", "--json")
    assert result.code == ExitCode.INCOMPLETE
    assert result.lines[0]["stop"] == "limit"
    assert "0 model calls" in result.lines[0]["limit"]


def test_limits_of_the_command_line_add_to_the_teams_own(cli, team_file):
    result = cli("run", "crew.py:costly", "--task", "x", "--usd", "5", "--json")
    assert result.lines[0]["stop"] == "limit"


def test_a_task_that_nobody_takes_up_is_not_a_success(cli, team_file):
    result = cli("run", "crew.py:deaf", "--task", "x")
    assert result.code == ExitCode.ERROR
    assert "UserRequirement" in result.err


def test_an_exception_of_user_code_shows_its_lines_and_keeps_the_journal(process, team_file):
    result = process("run", "crew.py:broken", "--task", "x")
    assert result.code == ExitCode.ERROR
    assert "ValueError: the disk is on fire" in result.err
    assert "crew.py" in result.err
    assert "role 'Clumsy'" in result.err
    assert "rolecraft/roles/" not in result.err
    trajectory = Trajectory.load("runs/crew-broken.jsonl")
    assert trajectory.stop_reason == "error"


def test_an_error_that_several_roles_made_is_told_once_and_notes_to_nobody_are_not_shown(
    process, team_file
):
    result = process("run", "crew.py:silent_twins", "--task", "x")
    assert result.code == ExitCode.ERROR
    assert result.err.count("asks a model and has none") == 1
    assert "role 'Ben' also raised UsageError" in result.err
    assert "a private note" not in result.out


def test_a_team_needs_a_task(cli, team_file):
    result = cli("run", "crew.py:team")
    assert result.code == ExitCode.USAGE
    assert "--task TEXT" in result.err


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--model", "nonsense", "names no model"),
        ("--role-model", "Writer", "write ROLE=MODEL"),
        ("--role-model", "Writter=openai/x", "Did you mean 'Writer'"),
        ("--rounds", "0", "should be greater than or equal to 1"),
    ],
)
def test_bad_options_are_wrong_usage_and_record_nothing(cli, team_file, option, value, says):
    result = cli("run", "crew.py:team", "--task", "x", option, value)
    assert result.code == ExitCode.USAGE
    assert says in " ".join(result.err.replace("│", "").split())
    assert not (team_file.parent / "runs").exists()


class Ask(Action):
    async def run(self, history):
        return await self.ask("?")


def team_of_three() -> Team:
    own = ScriptedModel(["own"], name="own")
    roles = [Role(name="A", actions=[Ask], model=own), Role(name="B"), Role(name="C")]
    return Team(roles, model=ScriptedModel([], name="teams"))


def chosen(team: Team) -> list[str]:
    return [team.env.model_of(role).name for role in team.roles.values()]


def given(model: str | None, **per_role: str) -> Models:
    models = Models(None)
    if model is not None:
        models.everyone = ScriptedModel([], name=model)
    models.per_role = {role: ScriptedModel([], name=name) for role, name in per_role.items()}
    return models


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (given(None), ["own", "teams", "teams"]),
        (given("all"), ["all", "all", "all"]),
        (given("all", B="special"), ["all", "special", "all"]),
        (given(None, A="special"), ["special", "teams", "teams"]),
    ],
)
def test_model_is_everyones_and_role_model_overrides_it(models, expected):
    team = team_of_three()
    models.give_to(team)
    assert chosen(team) == expected


def test_roles_of_the_same_model_share_one_object():
    models = Models("openai/gpt-4o-mini", ["A=openai/gpt-4o-mini", "B=openai/o3"])
    assert models.per_role["A"] is models.everyone
    assert models.per_role["B"] is not models.everyone


def test_a_role_that_does_not_exist_is_named():
    with pytest.raises(CommandLineError, match="Did you mean 'A'"):
        given(None, AA="x").give_to(team_of_three())


def test_a_model_from_the_command_line_is_really_asked(cli, team_file, tmp_path):
    """A tiny local model, saved to disk, takes the place of every role's own."""
    from rolecraft.models.tiny import tiny_model

    tiny_model(["a", "poem"], name="pocket", seed=3).save(tmp_path / "model")
    result = cli(
        *("run", "crew.py:team", "--task", "a poem", "--json"),
        *("--model", f"transformers:{tmp_path / 'model'}"),
    )
    assert result.code == ExitCode.OK
    (call,) = Trajectory.load("runs/crew-team.jsonl").of("model_call")
    assert set(call.content.split()) <= {"a", "poem", "<user>", "<system>", "<assistant>", "<tool>"}
    assert len(call.tokens.sampled) > 0


# --- a server of one's own ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "name one"),
        (["--model", "transformers:./m"], "`--model transformers:./m` is no model behind an API"),
        (["--role-model", "Writer=human"], "`--role-model human` is no model behind an API"),
        (["--model", "openai/a | openai/b"], "is no model behind an API"),
        (["--model", "openai/a", "--base-url", "localhost:8000"], "write the whole address"),
    ],
)
def test_an_address_without_a_model_that_can_be_there_is_told(cli, team_file, options, says):
    address = ["--base-url", "http://127.0.0.1:1/v1"]
    result = cli("run", "crew.py:team", "--task", "x", *address, *options)
    assert result.code == ExitCode.USAGE
    assert says in result.err
    assert not (team_file.parent / "runs").exists()


# --- scenarios -----------------------------------------------------------------------------------


@pytest.fixture
def scenario_file(tmp_path):
    (tmp_path / "game.py").write_text(
        "from dataclasses import replace\n"
        "from rolecraft.models.chance import UniformModel\n"
        "from rolecraft.scenarios.relay import relay\n"
        "game = replace(relay, untrained=lambda seed: UniformModel())\n"
    )


def test_a_scenario_draws_a_task_and_says_the_reward(cli, scenario_file):
    result = cli("run", "game.py:game", "--seed", "4", "--json")
    assert result.code == ExitCode.OK
    record = result.lines[0]
    assert record["stop"] == "finished"
    assert record["reward"] == record["signals"]["relay.correct"]
    assert Trajectory.load(record["journal"]).signals


def test_a_scenarios_task_is_chosen_by_id_or_prompt(cli, scenario_file):
    by_prompt = cli("run", "game.py:game", "--task", "asked c", "--json").lines[0]["task"]
    assert "-c" in by_prompt
    by_id = cli("run", "game.py:game", "--task", by_prompt, "--json").lines[0]["task"]
    assert by_id == by_prompt


def test_a_task_is_found_where_the_other_split_is_empty(cli, scenario_file, tmp_path):
    with (tmp_path / "game.py").open("a") as file:
        file.write(
            "from rolecraft.errors import UsageError\n"
            "class OnlyTraining:\n"
            "    def sample(self, count, *, seed=0, split='train'):\n"
            "        if split == 'test':\n"
            "            raise UsageError('no task is held out')\n"
            "        return relay.tasks.sample(min(count, 3), seed=seed, split=split)\n"
            "small = replace(game, tasks=OnlyTraining())\n"
        )
    listed = cli("run", "game.py:small", "--task", "nothing")
    assert listed.code == ExitCode.USAGE
    wanted = listed.err.split("It has 3 tasks: `")[1].split("`")[0]
    record = cli("run", "game.py:small", "--task", wanted, "--json").lines[0]
    assert record["task"] == wanted
    alone = cli("run", "game.py:small", "--json")
    assert f"`{alone.lines[0]['task']}`, for training, is drawn" in alone.err


def test_where_neither_split_has_a_task_the_sources_own_reason_is_told(
    cli, scenario_file, tmp_path
):
    with (tmp_path / "game.py").open("a") as file:
        file.write(
            "from rolecraft.errors import UsageError\n"
            "class Empty:\n"
            "    def sample(self, count, *, seed=0, split='train'):\n"
            "        raise UsageError(f'no task is for {split}')\n"
            "none = replace(game, tasks=Empty())\n"
        )
    assert "no task is for test" in cli("run", "game.py:none").err


def test_an_unknown_task_of_a_scenario_is_named_with_the_nearest_and_a_few_others(
    cli, scenario_file
):
    drawn = cli("run", "game.py:game", "--json").lines[0]["task"]
    result = cli("run", "game.py:game", "--task", drawn[:-1] + "?")
    assert result.code == ExitCode.USAGE
    assert f"no task with the id or prompt '{drawn[:-1]}?'" in result.err
    assert "Did you mean `relay-test-" in result.err
    assert 3 <= result.err.count("`relay-") <= 10
    unlike = cli("run", "game.py:game", "--task", "write me a poem about the sea")
    assert "Did you mean" not in unlike.err
    assert "`relay-" in unlike.err


def test_the_run_of_a_scenario_leaves_its_times_as_that_of_a_team_does(cli, scenario_file):
    journal = cli("run", "game.py:game", "--json").lines[0]["journal"]
    trajectory = Trajectory.load(journal)
    assert set(trajectory.timings) == {event.seq for event in trajectory.events}
    assert len(trace_files("runs")) == 1


def test_a_scenario_whose_environment_has_observers_keeps_them(cli, scenario_file, tmp_path):
    with (tmp_path / "game.py").open("a") as file:
        file.write(
            "from functools import partial\n"
            "class Counts:\n"
            "    def on_event(self, event):\n"
            "        with open('heard', 'a') as file:\n"
            "            file.write(event.kind + ' ')\n"
            "watched = replace(game, environment=partial(game.environment, observers=[Counts()]))\n"
        )
    result = cli("run", "game.py:watched", "--json")
    heard = (tmp_path / "heard").read_text().split()
    assert len(heard) == len(Trajectory.load(result.lines[0]["journal"]).timings)


def test_the_same_seed_plays_the_same_run(cli, scenario_file, tmp_path):
    for name in ("one", "two"):
        cli("run", "game.py:game", "--seed", "9", "--journal", f"{name}.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_an_unknown_role_of_a_scenario_is_named(cli, scenario_file):
    result = cli("run", "game.py:game", "--role-model", "planer=openai/x")
    assert result.code == ExitCode.USAGE
    assert "Did you mean 'planner'" in result.err


def test_a_reward_of_what_could_not_be_measured_says_why(cli, scenario_file, tmp_path):
    with (tmp_path / "game.py").open("a") as file:
        file.write(
            "from rolecraft.environments.relay import RelayEnvironment\n"
            "from rolecraft.trajectories import Event\n"
            "class Broken(RelayEnvironment):\n"
            "    async def grade(self):\n"
            "        about = {'type': 'InfrastructureFailure'}\n"
            "        self.record(Event('error', content='no sandbox', data=about))\n"
            "        return []\n"
            "broken = replace(game, environment=Broken)\n"
        )
    result = cli("run", "game.py:broken")
    assert result.code == ExitCode.ERROR
    assert "There is no reward, for it was not measured. Error: Infra" in result.err
    assert "no sandbox" in result.err
    assert "rolecraft show runs/game-broken.jsonl" in result.err


# --- environments that bring a task ------------------------------------------------------------

PLACE = """
from pathlib import Path

from rolecraft import Action, Limits, Role, ScriptedModel
from rolecraft.environments import Task, TaskEnvironment
from rolecraft.trajectories import Signal


class Open(Action):
    async def run(self, history):
        return await self.ask("Which key?")


class Locksmith(Role):
    actions = [Open]


class Door(TaskEnvironment):
    opened = None

    async def setup(self):
        self.opened = open("door", "w")

    async def grade(self):
        return [Signal("door.open", float("red" in self.last_message.content))]

    async def aclose(self):
        self.opened.close()
        await super().aclose()


class Stuck(Door):
    async def setup(self):
        await super().setup()
        if Path("frost").exists():
            raise OSError("the door is stuck")


def door(kind=Door, **options):
    task = Task("door-1", "Open the door", seed=3)
    model = ScriptedModel(["the red one"])
    return kind(task, [Locksmith()], model=model, about={"outcome": OUTCOME}, **options)


OUTCOME = {"signal": "door.open", "at_least": 1}
ready = door()


def stuck():
    return door(Stuck)


def shut():
    return door(limits=Limits(calls=0))
"""


@pytest.fixture
def place_file(tmp_path):
    (tmp_path / "place.py").write_text(PLACE)


@pytest.mark.parametrize("name", ["door", "ready"])
def test_an_environment_with_a_task_is_set_up_played_graded_and_closed(cli, place_file, name):
    result = cli("run", f"place.py:{name}", "--json")
    assert result.code == ExitCode.OK, result.err
    (record,) = result.lines
    assert (record["task"], record["stop"], record["message"]) == ("door-1", "idle", "the red one")
    assert record["signals"] == {"door.open": 1.0, "turns": 1.0}
    assert "reward" not in record
    assert name == "door" or sys.modules["place"].ready.opened.closed
    trajectory = Trajectory.load(record["journal"])
    assert [signal.name for signal in trajectory.signals] == ["door.open", "turns"]
    assert set(trajectory.timings) == {event.seq for event in trajectory.events}
    shown = cli("show", record["journal"]).out
    assert "Task done: door.open = 1\nMeasured: door.open = 1, turns = 1\n" in shown


def test_an_environment_has_its_own_task_and_takes_no_other(cli, place_file):
    assert cli("run", "place.py:door", "--task", "door-1").code == ExitCode.OK
    result = cli("run", "place.py:door", "--task", "Sing")
    assert result.code == ExitCode.USAGE
    assert "a task of its own, `door-1`" in result.err


def test_an_environment_that_cannot_be_set_up_says_so_and_is_gone_on_with(
    cli, place_file, tmp_path
):
    (tmp_path / "frost").touch()
    failed = cli("run", "place.py:stuck", "--json")
    assert failed.code == ExitCode.ERROR
    assert "OSError: the door is stuck" in failed.err
    assert "Error: OSError: the door is stuck" in cli("show", "runs/place-stuck.jsonl").out
    (tmp_path / "frost").unlink()
    again = cli("run", "place.py:stuck", "--resume", "runs/place-stuck.jsonl", "--json")
    assert again.code == ExitCode.OK, again.err
    assert again.lines[0]["signals"]["door.open"] == 1.0
    for option in (["--approve", "key"], ["--rounds", "2"]):
        more = cli("run", "place.py:stuck", "--resume", "runs/place-stuck.jsonl", *option)
        assert more.code == ExitCode.USAGE
        assert option[0] in more.err


def test_a_limit_of_an_environment_is_graded_and_named(cli, place_file):
    result = cli("run", "place.py:shut")
    assert result.code == ExitCode.INCOMPLETE
    assert "Limit reached: " in result.out
    shown = cli("show", "runs/place-shut.jsonl").out
    assert "Limit reached: " in shown
    assert "Task not done: door.open = 0, wanted at least 1\n" in shown


WAITING = """
import asyncio, sys
from rolecraft import Action, Role

class Wait(Action):
    async def run(self, history):
        print("waiting", file=sys.stderr, flush=True)
        await asyncio.Event().wait()

class Patient(Role):
    actions = [Wait]
"""


def test_an_interrupted_run_leaves_its_journal_and_its_own_exit_code(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    command = [sys.executable, "-m", "rolecraft.cli", "run", "waiting.py:Patient", "--task", "x"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        while running.stderr.readline().strip() != b"waiting":
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == ExitCode.INTERRUPTED
    assert b"Traceback" not in told
    assert b"runs/waiting-Patient.jsonl" in told
    trajectory = Trajectory.load("runs/waiting-Patient.jsonl")
    assert [event.role for event in trajectory.of("message")] == ["user"]
    assert trajectory.stop_reason == "cancelled"
