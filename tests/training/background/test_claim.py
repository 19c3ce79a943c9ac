"""One run at a time in an output folder, however the one before it ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rolecraft.training.background import (
    OutputClaimed,
    RunError,
    RunRecord,
    claim,
    claimant,
    outputs_in,
    start_in_background,
    wait_for_claim,
)

ROOT = Path(__file__).parents[3]
HOLDS = """
import sys, time
from pathlib import Path
from rolecraft.training.background import claim
with claim(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def foreground():
    """Starts another process that claims a folder and stays."""
    started = []

    def start(output: Path) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(output)], cwd=ROOT, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"claimed\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_second_run_is_refused_with_the_pid_and_time_of_the_first(tmp_path, foreground) -> None:
    process = foreground(tmp_path)
    since = RunRecord.read(tmp_path).started
    with pytest.raises(OutputClaimed) as caught, claim(tmp_path):
        pass
    assert (caught.value.pid, caught.value.since) == (process.pid, since)
    assert caught.value.log is None
    assert f"process {process.pid}, since {since}" in str(caught.value)
    assert f"rolecraft runs stop {tmp_path}" in str(caught.value)
    with pytest.raises(OutputClaimed):
        start_in_background([sys.executable, "-c", "pass"], tmp_path)
    assert not (tmp_path / "logs").exists() or not list((tmp_path / "logs").glob("*.log"))


def test_after_kill_9_the_next_run_takes_over(tmp_path, foreground) -> None:
    process = foreground(tmp_path)
    assert RunRecord.read(tmp_path).state() == "running"
    process.kill()
    process.wait()
    assert RunRecord.read(tmp_path).state() == "killed"
    assert claimant(tmp_path) is None
    with claim(tmp_path):
        assert RunRecord.read(tmp_path).process.pid == os.getpid()


def test_the_same_process_cannot_claim_twice_at_a_time(tmp_path) -> None:
    with claim(tmp_path):
        with pytest.raises(OutputClaimed, match=f"process {os.getpid()}"), claim(tmp_path):
            pass
        assert claimant(tmp_path).pid == os.getpid()
    with claim(tmp_path):
        pass


def test_a_forked_worker_does_not_keep_the_folder(tmp_path) -> None:
    """A data loader's worker that outlives its killed run would keep the next one out."""
    pid = os.fork() if sys.platform == "linux" else pytest.skip("forks")
    if pid == 0:  # this one claims, forks a worker that stays, and is gone
        try:
            held = claim(tmp_path)
            held.__enter__()
            worker = multiprocessing.get_context("fork").Process(target=_stay)
            worker.start()
            (tmp_path / "worker").write_text(str(worker.pid))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    worker = int((tmp_path / "worker").read_text())
    try:
        os.kill(worker, 0)  # it is there
        with claim(tmp_path):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def _stay() -> None:
    signal.pause()


@pytest.mark.parametrize(
    ("error", "code", "state"),
    [
        (None, 0, "finished"),
        (ValueError("broken"), 1, "failed"),
        (SystemExit(3), 3, "failed"),
        (SystemExit(None), 0, "finished"),
        (SystemExit(143), 143, "stopped"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_a_run_in_the_foreground_says_how_it_ended(tmp_path, error, code, state) -> None:
    raised = None if error is None else type(error)
    with (
        contextlib.suppress(*filter(None, [raised])),
        claim(tmp_path / "out", index=tmp_path / "index", command=["train", "it"]),
    ):
        if error is not None:
            raise error
    record = RunRecord.read(tmp_path / "out")
    assert record.ended.exit_code == code
    assert record.state() == state
    assert record.command == ("train", "it")
    assert outputs_in(tmp_path / "index", on_error=pytest.fail) == [tmp_path / "out"]


def test_the_command_of_a_run_in_the_foreground_is_its_own_command_line(
    tmp_path, foreground
) -> None:
    foreground(tmp_path)
    assert RunRecord.read(tmp_path).command == (sys.executable, "-c", HOLDS, str(tmp_path))


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written to"), claim(tmp_path / "file"):
        pass


def test_a_folder_that_takes_no_record_is_told_and_is_free_again(tmp_path) -> None:
    """As on a full disk: the lock was had, and what is to be written down found no place."""
    (tmp_path / "run.json").mkdir()
    with pytest.raises(RunError, match="cannot be written to: Is a directory"), claim(tmp_path):
        pass
    (tmp_path / "run.json").rmdir()
    with claim(tmp_path):
        pass


def test_nobody_has_a_folder_that_nobody_claimed(tmp_path) -> None:
    assert claimant(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_workers_wait_until_their_first_process_has_the_folder(foreground, tmp_path) -> None:
    """Without asking for the lock, which would keep it from that process for a moment."""
    output = tmp_path / "out"
    with pytest.raises(RunError, match=r"has not claimed `.*` within 0 s"):
        wait_for_claim(output, seconds=0)
    waiting = threading.Thread(target=wait_for_claim, args=(output,), daemon=True)
    waiting.start()
    process = foreground(output)
    waiting.join(60)
    assert not waiting.is_alive()
    process.kill()
    process.wait()
    with pytest.raises(RunError):  # of a run that is over
        wait_for_claim(output, seconds=0)
