"""`rolecraft train` is a run as those of `sft`: in the index, alone in its folder, gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.cli._background import runs_folder
from rolecraft.cli._exits import ExitCode
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.training.background import RunRecord, claim, outputs_in, progress_of

torch.set_num_threads(1)

SHORT = ("--steps", 1, "--tasks-per-step", 1, "--no-checks")


def known() -> list[Path]:
    """The folders in the index of runs."""
    return outputs_in(runs_folder(), on_error=lambda error: pytest.fail(str(error)))


def test_a_training_in_the_foreground_is_listed_with_its_step_and_reward(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    assert cli("train", "relay", *SHORT).code == ExitCode.OK
    (row,) = cli("runs", "list", "--json").lines
    assert (row["state"], row["step"], row["output"]) == ("finished", 0, str(tmp_path / "trained"))
    assert row["reward"] == progress_of(tmp_path / "trained")["reward"]
    record = RunRecord.read(tmp_path / "trained")
    assert record is not None
    assert record.way_on == ("--resume", str(tmp_path / "trained"))


def test_a_second_one_in_the_folder_is_refused_and_the_first_ones_record_stays(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    with claim(tmp_path / "trained"):
        before = RunRecord.read(tmp_path / "trained")
        for more in ((), ("--background",)):
            refused = cli("train", "relay", *SHORT, *more)
            assert refused.code == ExitCode.ERROR
            assert "A run is under way in" in refused.err
    after = RunRecord.read(tmp_path / "trained")
    assert before is not None
    assert after is not None
    assert after.mark == before.mark


def test_a_training_that_is_refused_or_learns_nothing_is_in_no_list(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "game.py").write_text(
        "from dataclasses import replace\n"
        "from rolecraft.rewards import reward\n"
        "from rolecraft.scenarios.relay import relay\n"
        "@reward\n"
        "def breaks(signals):\n"
        "    raise ValueError('the scale is broken')\n"
        "game = replace(relay, reward=breaks)\n"
    )
    assert cli("train", "game.py:game", *SHORT).code == ExitCode.ERROR
    assert cli("train", "relay", "--freeze", "nobody", *SHORT).code == ExitCode.USAGE
    assert known() == []
    assert not (tmp_path / "trained").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("relai",), "relai"),
        (("relay", "--freeze", "planer"), "Did you mean 'planner'"),
        (("relay", "--thinking", "planer=on"), "Did you mean 'planner'"),
        (("relay", "--reward", "mine.py:none"), "mine.py"),
        (("maths_chat",), "brings no untrained model"),
    ],
)
def test_what_is_wrong_with_one_in_the_background_is_said_at_once_and_nothing_is_started(
    cli: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    refused = cli("train", *words, *SHORT, "--background")
    assert refused.code == ExitCode.USAGE, refused.err
    assert says in refused.err
    assert known() == []
    assert not (tmp_path / "trained").exists()


def test_a_refused_resume_leaves_the_record_of_the_run_that_is_there(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    assert cli("train", "relay", *SHORT).code == ExitCode.OK
    before = (tmp_path / "trained" / "run.json").read_bytes()
    refused = cli("train", "--resume", "trained", "--seed", 7, "--steps", 2)
    assert "`seed` is 7 and was 0" in refused.err
    assert (tmp_path / "trained" / "run.json").read_bytes() == before


GAME = """
from dataclasses import replace
from rolecraft.rewards import reward
from rolecraft.scenarios.relay import relay

@reward
def own(signals):
    return 0.5

game = replace(relay, name="game", reward=own)
"""


@pytest.mark.parametrize("moved", [False, True])
def test_a_training_is_gone_on_with_from_another_folder_and_after_a_move_with_its_files(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """A model, scenario and reward that were named from the folder in which it was started."""
    home = tmp_path / "home"
    (home / "relay").mkdir(parents=True)  # not where a scenario of that name is from
    (home / "game.py").write_text(GAME)
    tiny_chat_model(hidden=32, heads=2, context=512).save(home / "base")
    monkeypatch.chdir(home)
    words = ("game.py:game", "--reward", "game.py:own", "--model", "base")
    assert cli("train", *words, *SHORT).code == ExitCode.OK
    (tmp_path / "else" / "where").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "else" / "where")
    if moved:
        home = home.rename(tmp_path / "new")
    (tmp_path / "else" / "where" / "game.py").write_text("raise SystemExit('of somebody else')")
    trained = f"../../{home.name}/trained"
    for steps in (2, 3):
        went_on = cli("train", "--resume", trained, "--steps", steps, "--json")
        assert went_on.code == ExitCode.OK, went_on.err
        assert [line["reward"] for line in went_on.lines[:-1]] == [0.5]
    monkeypatch.chdir(home)
    back = cli("train", "--resume", "trained", "--steps", 4, "--reward", "game.py:own")
    assert back.code == ExitCode.OK, back.err


def test_a_run_that_ended_before_its_training_began_is_begun_by_its_command_with_resume(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    """As `runs resume` starts it. Once there was no `train.json`, and so no way on."""
    with claim(tmp_path / "trained", way_on=("--resume", "trained")):
        pass
    lost = cli("train", "--resume", "trained")
    assert lost.code == ExitCode.USAGE
    assert "ended before the training began" in lost.err
    assert "rolecraft runs resume trained" in lost.err
    begun = cli("train", "relay", *SHORT, "--resume", "trained")
    assert begun.code == ExitCode.OK, begun.err
    assert "had not begun" in begun.err
    assert progress_of(tmp_path / "trained")["step"] == 0
    went_on = cli("train", "relay", *SHORT, "--steps", 2, "--resume", "trained")
    assert went_on.code == ExitCode.OK, went_on.err
    assert progress_of(tmp_path / "trained")["step"] == 1


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    record = RunRecord.read(tmp_path / "out")
    for process in (record.process, record.supervisor, *record.stale()) if record else ():
        if process is not None:
            process.send(signal.SIGKILL)
            process.wait(60)


def rolecraft(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def steps_after(number: float, out: Path) -> float:
    """Wait until a step beyond that one is in the curve; which."""
    until = time.monotonic() + 200
    while (step := progress_of(out).get("step", -1)) <= number:
        assert time.monotonic() < until, f"no step came after {number:g}"
        time.sleep(0.2)
    return step


@pytest.mark.slow
def test_one_in_the_background_is_followed_stopped_and_gone_on_with(folder: Path) -> None:
    out = folder / "out"
    started = rolecraft(
        *("train", "relay", "--steps", 100_000, "--tasks-per-step", 1, "--out", "out"),
        "--background",
    )
    assert started.returncode == 0, started.stderr
    assert "rolecraft runs stop" in started.stdout
    reached = steps_after(0, out)
    stopped = rolecraft("runs", "stop", "out")
    assert "was stopped (exit code 143)" in stopped.stdout, stopped.stderr
    assert "goes on with: rolecraft train --resume out" in rolecraft("runs", "logs", "out").stdout
    went_on = rolecraft("runs", "resume", "out")
    assert went_on.returncode == 0, went_on.stderr
    assert steps_after(progress_of(out)["step"], out) > reached
    assert rolecraft("runs", "stop", "out").returncode == 0
    record = RunRecord.read(out)
    assert record is not None
    assert record.state() == "stopped"


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_training_began_is_begun_by_runs_resume(
    folder: Path,
) -> None:
    (folder / "slow.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from rolecraft.scenarios.relay import relay\n"
        "if Path('wait').exists():\n"
        "    Path('waiting').touch()\n"
        "    time.sleep(600)\n"
    )
    out, wait = folder / "out", folder / "wait"
    words = ("train", "slow.py:relay", "--steps", 100_000, "--tasks-per-step", 1, "--out", "out")
    start = "from rolecraft.training.background import start_in_background as start\n"
    wait.touch()
    command = [sys.executable, "-m", "rolecraft.cli", *map(str, words)]
    way_on = ("--resume", str(out))
    code = f"{start}from pathlib import Path\nstart({command!r}, Path('out'), way_on={way_on!r})"
    subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=folder,
        timeout=300,
        check=True,
    )
    until = time.monotonic() + 200
    while not (folder / "waiting").exists():
        assert time.monotonic() < until, "it does not wait"
        time.sleep(0.1)
    assert rolecraft("runs", "stop", "--kill", "out").returncode == 0
    wait.unlink()
    went_on = rolecraft("runs", "resume", "out")
    assert went_on.returncode == 0, went_on.stderr
    steps_after(-1, out)
    assert rolecraft("runs", "stop", "out").returncode == 0
