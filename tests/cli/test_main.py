"""The command as a whole: help, version, exit codes, and what start-up may not load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import rolecraft
from rolecraft.cli._exits import EXIT_CODES, CommandLineError, ExitCode, of_error
from rolecraft.cli.main import app
from rolecraft.errors import RolecraftError, TraceError, UsageError
from rolecraft.trajectories import Event, Trajectory

COMMANDS = sorted(get_command(app).list_commands(None))  # type: ignore[attr-defined,arg-type]


def test_help_names_every_command_and_every_exit_code(cli):
    result = cli("--help")
    assert result.code == 0
    for command in COMMANDS:
        assert command in result.out
    words = " ".join(result.out.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code.value} {meaning.split(':')[0]}" in words


def test_the_page_of_commands_names_every_one():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    page = page.partition("## How they end")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert sorted(named) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli, command):
    assert "Usage" in cli(command, "--help").out


def test_version(cli):
    assert cli("--version").out.strip() == f"rolecraft {rolecraft.__version__}"


def test_no_command_shows_help_and_is_wrong_usage(cli):
    assert cli().code == ExitCode.USAGE


def test_unknown_commands_and_options_are_wrong_usage(cli):
    assert cli("dance").code == ExitCode.USAGE
    assert cli("demo", "--loud").code == ExitCode.USAGE
    assert cli("demo", "--tasks", "0").code == ExitCode.USAGE


HEAVY = ["torch", "transformers", "litellm", "sqlalchemy", "httpx", "numpy"]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_start_up_loads_no_heavy_library(arguments):
    code = (
        "import sys\nfrom rolecraft.cli.main import main\n"
        f"sys.argv = ['rolecraft', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["loaded:"]


def test_annotating_without_a_judge_loads_no_model_library(team_file):
    """Labels of detectors come at once: nobody waits for torch or litellm."""
    code = (
        "import sys\nfrom rolecraft.cli.main import app\n"
        "for arguments in (['run', 'crew.py:team', '--task', 'x'], ['annotate', 'runs']):\n"
        "    app(arguments, standalone_mode=False)\n"
        "print('loaded:', *[n for n in ('torch', 'transformers', 'litellm') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["loaded:"]


def test_errors_are_one_line_on_stderr(process):
    result = process("show", "nowhere.jsonl")
    assert result.code == ExitCode.USAGE
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1
    assert "nowhere.jsonl" in result.err


@pytest.mark.parametrize("where", ["before", "after"])
def test_debug_shows_the_traceback_and_keeps_the_exit_code(process, where):
    arguments = ["show", "nowhere.jsonl"]
    arguments = ["--debug", *arguments] if where == "before" else [*arguments, "--debug"]
    result = process(*arguments)
    assert result.code == ExitCode.USAGE
    assert "Traceback" in result.err
    assert "TraceError" in result.err


def test_the_exit_code_of_an_error_says_whose_mistake_it_was():
    assert of_error(CommandLineError("x")) is ExitCode.USAGE
    assert of_error(UsageError("x")) is ExitCode.ERROR
    assert of_error(TraceError("x", "y")) is ExitCode.ERROR
    assert of_error(RolecraftError("x")) is ExitCode.ERROR


def test_no_colour_where_none_is_wanted_and_none_without_a_terminal(process, team_file):
    for extra in ({}, {"NO_COLOR": "1"}):
        result = process("run", "crew.py:team", "--task", "x", env={**os.environ, **extra})
        assert result.code == 0
        assert "\x1b" not in result.out + result.err


def test_a_reader_that_closes_the_pipe_ends_a_command_that_only_reads_and_that_is_fine(tmp_path):
    """There is far more to say than a pipe holds, so it is still being said when nobody listens.

    `set -o pipefail; rolecraft show run.jsonl --events | head` is no failure.
    """
    events = [Event("message", role="a", content="x" * 100, seq=seq) for seq in range(5000)]
    Trajectory("long", {}, events).save(tmp_path / "long.jsonl")
    command = [sys.executable, "-m", "rolecraft.cli", "show", "long.jsonl", "--events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as saying:
        saying.stdout.readline()
        saying.stdout.close()
        assert saying.stderr.read() == b""
    assert saying.returncode == ExitCode.OK


def test_nor_does_one_that_never_reads_the_results(tmp_path):
    Trajectory("short", {}, [Event("message", role="a", seq=0)]).save(tmp_path / "short.jsonl")
    command = [sys.executable, "-m", "rolecraft.cli", "show", "short.jsonl", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == ExitCode.OK


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_run_goes_on_to_its_end_when_nobody_reads_what_it_says(tmp_path, how):
    """It makes something, and what it makes is in a file."""
    (tmp_path / "talk.py").write_text(
        "from rolecraft import Action, Role\n"
        "class Talk(Action):\n"
        "    async def run(self, history):\n"
        "        return 'x' * 100_000\n"
        "class Talker(Role):\n"
        "    actions = [Talk, Talk, Talk]\n"
    )
    command = [sys.executable, "-m", "rolecraft.cli", "run", "talk.py:Talker", "--task", "t", *how]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == ExitCode.OK, done.stderr
    assert Trajectory.load("runs/talk-Talker.jsonl").stop_reason == "idle"
