"""A run that is killed with -9 and resumed makes the same bytes as one that is not."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.training.checkpoints import Checkpoints, damage
from rolecraft.training.sft.log import LOG, TIMES, read_log
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.training import train_on

Settings = Callable[..., SFTSettings]

# Forked, since a new process would import torch and TRL anew; it is a process of its own all the
# same, which dies of a signal without a chance to tidy up.
_FORK = multiprocessing.get_context("fork")


def _child(
    settings: SFTSettings, data: Any, tokenizer: Any, folder: Path, kill_after: int | None
) -> None:
    """A process that trains, and dies as step `kill_after` is told, if that is given."""
    from rolecraft.training.sft.listener import Listener

    class Deadly(Listener):
        def line(self, line: Any) -> None:
            if line.step == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)

    train_on(settings, data, tokenizer, folder, resume=True, listener=Deadly())
    os._exit(0)  # no test of this process goes on here


def run_process(*args: Any) -> int:
    """Its exit code; negative for a signal."""
    process = _FORK.Process(target=_child, args=args)
    process.start()
    process.join(120)
    assert process.exitcode is not None
    return process.exitcode


def curve(folder: Path) -> list[dict[str, Any]]:
    """The log without times, exactly as it is in the file."""
    records = [json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines()]
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def whole(
    settings: Settings, data: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run that nothing happened to: over an end of an epoch, with dropout."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train_on(eventful(settings), data, tokenizer, folder)
    return folder


def eventful(settings: Settings) -> SFTSettings:
    return settings(dropout=0.2, save_steps=3, epochs=3.0)


def test_a_run_that_was_killed_and_resumed_is_the_same_byte_for_byte(
    whole: Path, settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    args = (eventful(settings), data, tokenizer, tmp_path / "run")
    assert run_process(*args, 5) == -signal.SIGKILL
    assert Checkpoints(tmp_path / "run").last_good() is not None
    assert run_process(*args, None) == 0
    assert curve(tmp_path / "run") == curve(whole)
    assert weights(tmp_path / "run") == weights(whole)
    assert [line.step for line in read_log(tmp_path / "run")] == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("packing", [False, True])
def test_ten_kills_at_random_moments_change_nothing(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, packing: bool
) -> None:
    """At moments of the clock, so that reading, writing and moving of files are hit as well."""
    chosen = settings(dropout=0.2, save_steps=2, epochs=12.0, packing=packing, max_length=64)
    train_on(chosen, data, tokenizer, tmp_path / "whole")
    chance = random.Random(7)
    killed, args = 0, (chosen, data, tokenizer, tmp_path / "run")
    for _ in range(10):
        code = kill_at_some_moment(chance, *args)
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
    assert killed >= 4
    assert run_process(*args, None) == 0
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


def kill_at_some_moment(chance: random.Random, *args: Any) -> int:
    """Kill a process some steps after it went on, at no step's border; its exit code."""
    log = args[3] / LOG
    before = _steps(log)
    process = _FORK.Process(target=_child, args=(*args, None))
    process.start()
    wanted = before + chance.randint(1, 3)
    deadline = time.monotonic() + 120
    while process.is_alive() and _steps(log) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.join(chance.uniform(0, 0.2))
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join(120)
    assert process.exitcode is not None
    return process.exitcode


def _steps(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_a_half_written_checkpoint_is_skipped_by_name_and_the_one_before_taken(
    whole: Path, settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, heard: Any
) -> None:
    args = (eventful(settings), data, tokenizer, tmp_path / "run")
    assert run_process(*args, 8) == -signal.SIGKILL
    checkpoints = Checkpoints(tmp_path / "run", heard.warn)
    assert [found.step for found in checkpoints.all()] == [3, 6]
    state = checkpoints.path(6) / "optimizer.pt"
    state.write_bytes(state.read_bytes()[:-100])
    (checkpoints.folder / ".writing-checkpoint-9").mkdir()
    train_on(*args, resume=True, listener=heard)
    assert any("checkpoint-6` is skipped: `optimizer.pt` has" in w for w in heard.warnings)
    assert any("`checkpoint-9` was half written" in w for w in heard.warnings)
    assert any("checkpoint-3" in note for note in heard.notes)
    assert curve(tmp_path / "run") == curve(whole)
    assert weights(tmp_path / "run") == weights(whole)
    assert all(not damage(found.path) for found in checkpoints.all())


def test_what_a_checkpoint_can_suffer_is_seen(whole: Path, tmp_path: Path) -> None:
    import shutil

    good = Checkpoints(whole).last_good()
    assert good is not None
    for name, harm, told in [
        ("manifest.json", lambda p: p.unlink(), "no `manifest.json`"),
        ("manifest.json", lambda p: p.write_text("[1]"), "cannot be read"),
        ("scheduler.pt", lambda p: p.unlink(), "`scheduler.pt` cannot be read"),
        ("optimizer.pt", _flip, "`optimizer.pt` has other bytes"),
    ]:
        copy = tmp_path / "copy"
        shutil.copytree(good.path, copy)
        assert damage(copy) == ""
        harm(copy / name)  # type: ignore[no-untyped-call]
        assert told in damage(copy)
        shutil.rmtree(copy)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_finished_run_is_not_trained_again(
    whole: Path, settings: Settings, tokenizer: Any
) -> None:
    nothing = SimpleNamespace(train=[], eval=None)
    again = train_on(eventful(settings), nothing, tokenizer, whole, resume=True)
    assert again.summary is not None
    assert again.summary.steps == 12


def test_checkpoints_are_kept_up_to_their_number(whole: Path) -> None:
    assert [found.step for found in Checkpoints(whole).all()] == [3, 6, 9, 12]


def test_a_damaged_checkpoint_ahead_of_the_run_costs_none_that_is_good(tmp_path: Path) -> None:
    """Stopped at step 11, damaged since, gone on with from 8: with one to keep, 10 is kept."""
    checkpoints = Checkpoints(tmp_path)
    for step in (8, 11):
        write_checkpoint(checkpoints, step)
    (checkpoints.path(11) / "weights").write_bytes(b"")
    write_checkpoint(checkpoints, 10)
    checkpoints.prune(1, at=10)
    last = checkpoints.last_good()
    assert last is not None
    assert last.step == 10
    write_checkpoint(checkpoints, 12)
    checkpoints.prune(1, at=12)
    assert [found.step for found in checkpoints.all()] == [12]


def write_checkpoint(checkpoints: Checkpoints, step: int) -> None:
    with checkpoints.write(step) as staging:
        (staging / "weights").write_bytes(b"w" * step)


def test_a_run_that_is_asked_to_stop_ends_with_a_checkpoint_and_goes_on_to_the_same_bytes(
    whole: Path, settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, heard: Any
) -> None:
    args = (eventful(settings), data, tokenizer, tmp_path / "run")
    stopped = train_on(*args, listener=heard, stop=lambda: len(heard.lines) >= 4)
    assert stopped.summary is None
    last = Checkpoints(tmp_path / "run").last_good()
    assert last is not None
    assert last.step == 5  # the fourth line is told as the fifth step begins
    finished = train_on(*args, resume=True)
    assert finished.summary is not None
    assert curve(tmp_path / "run") == curve(whole)
    assert weights(tmp_path / "run") == weights(whole)
