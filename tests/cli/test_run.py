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


def test_an_unknown_task_of_a_scenario_names_some(cli, scenario_file):
    result = cli("run", "game.py:game", "--task", "asked z")
    assert result.code == ExitCode.USAGE
    assert "relay-test-" in result.err


def test_the_same_seed_plays_the_same_run(cli, scenario_file, tmp_path):
    for name in ("one", "two"):
        cli("run", "game.py:game", "--seed", "9", "--journal", f"{name}.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_an_unknown_role_of_a_scenario_is_named(cli, scenario_file):
    result = cli("run", "game.py:game", "--role-model", "planer=openai/x")
    assert result.code == ExitCode.USAGE
    assert "Did you mean 'planner'" in result.err


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
