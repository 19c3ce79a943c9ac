"""`rolecraft runs`: what runs there are, and what can be done with them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rolecraft.cli._background import is_worker, own_command, runs_folder
from rolecraft.cli._exits import ExitCode
from rolecraft.training.background import RunError, RunRecord, name_of, start_in_background

ROOT = Path(__file__).parents[2]
COUNTING = r"""
import json, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from rolecraft.training.background import StopSignals, claim
output = Path(sys.argv[1])
with claim(output), StopSignals() as stop:
    print("resumed" if "--resume" in sys.argv else "begun")
    step = 0
    while not stop.asked:
        step += 1
        print("\rloading: %d %%" % step, end="" if step < 3 else "\n")
        with (output / "log.jsonl").open("a") as log:
            log.write(json.dumps({{"step": step, "loss": 0.5}}) + "\n")
        time.sleep(0.02)
    print("checkpoint")
    sys.exit(stop.exit_code)
"""


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ROLECRAFT_RUNS", str(tmp_path / "index"))
    return tmp_path / "index"


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, f"this did not come: {what}"
        time.sleep(0.02)


@pytest.fixture
def started(tmp_path, index):
    """`started(name)`: the output folder of a run that counts until it is told to stop."""
    program = tmp_path / "counting.py"
    program.write_text(COUNTING.format(root=str(ROOT)))
    outputs = []

    def start(name: str = "out", code: str | None = None) -> Path:
        output = tmp_path / name
        line = [sys.executable, str(program), str(output)]
        if code is not None:
            line = [sys.executable, "-c", code]
        start_in_background(line, output, index=index, watch_seconds=0 if code is None else 60)
        outputs.append(output)
        if code is None:
            wait_for((output / "log.jsonl").exists, "the first step")
        return output

    yield start
    for output in outputs:
        record = None
        with contextlib.suppress(RunError):  # broken by the test
            record = RunRecord.read(output)
        for process in (record.process, record.supervisor, *record.stale()) if record else ():
            if process is not None:
                process.send(signal.SIGKILL)
                process.wait(60)


def test_no_runs(cli) -> None:
    result = cli("runs", "list")
    assert result.code == ExitCode.OK
    assert "No runs." in result.out
    assert cli("runs", "list", "--json").lines == []


def test_a_run_is_listed_with_state_step_and_loss(cli, started) -> None:
    output = started()
    record = RunRecord.read(output)
    (row,) = cli("runs", "list", "--json").lines
    assert row["name"] == name_of(output)
    assert row["state"] == "running"
    assert row["pid"] == record.process.pid
    assert row["step"] >= 1
    assert row["loss"] == 0.5
    assert row["output"] == str(output)
    assert row["log"] == str(record.log)
    page = cli("runs", "list").out
    assert re.search(rf"{name_of(output)} +running +\S+ \S+ +\S+ +{row['pid']} +\d+ +0.5 ", page)


def test_stop_waits_for_the_checkpoint_and_resume_goes_on(cli, started, monkeypatch) -> None:
    monkeypatch.setattr("rolecraft.cli.runs.WATCHED_SECONDS", 0.0)
    output = started()
    first = RunRecord.read(output)
    result = cli("runs", "stop", output)
    assert result.code == ExitCode.OK
    assert "The run was stopped (exit code 143)." in result.out
    assert f"rolecraft runs resume {output}" in result.err
    assert "checkpoint" in first.log.read_text()
    assert cli("runs", "list", "--json").lines[0]["state"] == "stopped"
    result = cli("runs", "stop", output)
    assert result.code == ExitCode.ERROR
    assert "No run is under way" in result.err

    result = cli("runs", "resume", name_of(output), "--json")
    assert result.code == ExitCode.OK
    second = RunRecord.read(output)
    assert result.lines == [
        {"pid": second.process.pid, "log": str(second.log), "output": str(output)}
    ]
    assert second.log != first.log
    assert cli("runs", "list", "--json").lines[0]["state"] == "running"
    result = cli("runs", "resume", output)
    assert result.code == ExitCode.ERROR
    assert f"process {second.process.pid}" in result.err
    assert cli("runs", "stop", output, "--kill", "--json").lines[0]["state"] == "killed"
    shown = cli("runs", "logs", output).out
    assert shown.index("begun") < shown.index("checkpoint") < shown.index("resumed")


def test_logs_as_json_say_of_each_line_which_log_it_is_of(cli, started) -> None:
    """A log's own text is never taken for the name of another one."""
    code = "print('==> a.log <=='); print('two words'); print('half', end='')"
    output = started(code=code)
    (log,) = (output / "logs").glob("*.log")
    shown = cli("runs", "logs", output, "--json", "--follow")
    assert shown.code == ExitCode.OK
    *lines, ended = shown.lines
    assert {line["event"] for line in lines} == {"line"}
    assert {line["log"] for line in lines} == {str(log)}
    assert [line["text"] for line in lines][:2] == ["==> a.log <==", "two words"]
    assert (ended["event"], ended["state"], ended["exit_code"]) == ("ended", "finished", 0)
    assert cli("runs", "logs", output, "--json").lines == lines


def test_logs_of_a_run_are_followed_until_it_ends(started) -> None:
    """As a process of its own, so that it is the real stdout; the run is stopped meanwhile."""
    output = started()
    follower = subprocess.Popen(
        [sys.executable, "-m", "rolecraft.cli", "runs", "logs", "-f", str(output)],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killer = threading.Timer(100, follower.kill)  # so that a follower without end fails the test
    killer.start()
    assert "==> " in follower.stdout.readline()
    assert follower.stdout.readline() == "begun\n"
    process = RunRecord.read(output).process
    process.send(signal.SIGTERM)
    out, err = follower.communicate()
    killer.cancel()
    assert follower.returncode == ExitCode.OK
    assert "checkpoint\n" in out
    assert "\r" not in out
    assert "was stopped (exit code 143)" in err


def test_a_run_that_dies_at_once_on_resume_is_told_with_its_log(cli, started) -> None:
    output = started(
        "two", "import sys; sys.exit(print('no such adapter') or 5 if sys.argv[1:] else 0)"
    )
    result = cli("runs", "resume", output)
    assert result.code == ExitCode.ERROR
    assert "no such adapter\n" in result.err
    assert "exit code 5 right after its start" in result.err
    assert cli("runs", "list", "--json").lines[0]["state"] == "failed"
    assert "failed (5)" in cli("runs", "list").out


def test_stale_processes_are_named_with_what_to_do(cli, started, tmp_path) -> None:
    code = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    )
    output = started("left", code)
    (pid,) = (process.pid for process in RunRecord.read(output).stale())
    result = cli("runs", "list")
    assert re.search(r"left-\w+ +stale", result.out)
    assert f"{pid}: {sys.executable} -c import time; time.sleep(1000)" in result.err
    assert f"kill {pid}" in result.err
    os.kill(pid, 0)  # it was left alone
    assert cli("runs", "list", "--json").lines[0]["stale"] == [pid]


def test_a_run_whose_folder_has_gone_is_told_and_can_be_forgotten(cli, started) -> None:
    output = started("gone", "pass")
    output.rename(output.with_name("moved"))
    assert cli("runs", "list", "--json").lines == [
        {"name": name_of(output), "state": "gone", "output": str(output)}
    ]
    assert "gone" in cli("runs", "list").out
    assert f"`{output}` is not there any more" in cli("runs", "list", "--prune").err
    assert cli("runs", "list", "--json").lines == []


def test_what_is_broken_in_one_run_does_not_hide_the_others(cli, started, index) -> None:
    output, broken = started("good", "pass"), started("broken", "pass")
    (broken / "run.json").write_text("{")
    (index / "nonsense.json").write_text("[]")
    result = cli("runs", "list", "--json")
    assert [row["output"] for row in result.lines] == [str(output)]
    assert str(broken / "run.json") in result.err
    assert "nonsense.json" in result.err


@pytest.mark.parametrize("command", ["logs", "stop", "resume"])
def test_a_run_that_is_not_known_is_wrong_usage(cli, command) -> None:
    result = cli("runs", command, "nowhere")
    assert result.code == ExitCode.USAGE
    assert "Run 'nowhere' is not known" in result.err


def test_where_the_index_is(monkeypatch, tmp_path) -> None:
    assert runs_folder() == tmp_path / "index"
    monkeypatch.delenv("ROLECRAFT_RUNS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert runs_folder() == tmp_path / "state/rolecraft/runs"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert runs_folder() == tmp_path / ".local/state/rolecraft/runs"


@pytest.mark.parametrize(
    ("variables", "worker"),
    [
        ({}, False),
        ({"RANK": "0", "WORLD_SIZE": "1"}, False),
        ({"RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "1", "WORLD_SIZE": "2"}, True),
        ({"RANK": "0"}, False),
    ],
)
def test_a_worker_is_one_of_several_processes(monkeypatch, variables, worker) -> None:
    """One that a cluster starts alone, with a rank, has to claim its folder as any other."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_worker() is worker


def test_the_command_line_of_a_process_without_some_options() -> None:
    code = (
        "import json; from rolecraft.cli._background import own_command;"
        "print(json.dumps(own_command()))"
    )
    options = ["--background", "--processes", "4", "--out", "x", "--processes=2", "--seed", "1"]
    given = ["sft", *options]
    done = subprocess.run(
        [sys.executable, "-c", code, *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    left = ["sft", "--out", "x", "--seed", "1"]
    assert json.loads(done.stdout) == [sys.executable, "-c", code, *left]
    assert own_command()[0] == sys.executable


def test_looking_after_runs_loads_no_torch(started) -> None:
    code = (
        "import sys; from rolecraft.cli.main import app;"
        "app(['runs', 'list'], standalone_mode=False);"
        "assert not {'torch', 'transformers', 'numpy', 'litellm'} & set(sys.modules)"
    )
    started("out", "pass")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
