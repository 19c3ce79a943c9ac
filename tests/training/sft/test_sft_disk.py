"""A disk that is full when a checkpoint is due: real small file systems, inside bubblewrap.

The rule: what is half written is removed and the last good checkpoint stays. The run goes on once,
since room may be made meanwhile; the second time in a row it stops.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.training.checkpoints import CheckpointError, Checkpoints

ROOM = 4 << 20
CALL = """
import pathlib, runpy, sys
runpy.run_path(sys.argv[1])[sys.argv[2]](pathlib.Path(sys.argv[3]))
"""

OnSmallDisk = Callable[[Callable[[Path], None]], None]


@pytest.fixture
def on_small_disk(needs_program: Any, tmp_path: Path) -> OnSmallDisk:
    """Calls a function of this file in a process that has a disk of 4 MiB for it."""
    command = [str(needs_program("bwrap", package="bubblewrap")), "--bind", "/", "/"]
    command += ["--dev-bind", "/dev", "/dev"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"bubblewrap may not mount here: {tried.stderr.strip()}")
    folder = tmp_path / "disk"
    folder.mkdir()
    command += ["--size", str(ROOM), "--tmpfs", str(folder), sys.executable, "-c", CALL, __file__]

    def call(function: Callable[[Path], None]) -> None:
        argv = [*command, function.__name__, str(folder)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return call


def full_at_a_checkpoint(folder: Path) -> None:
    checkpoints = Checkpoints(folder)
    with checkpoints.write(1) as staging:
        (staging / "weights").write_bytes(b"w" * 1_600_000)
    with pytest.raises(CheckpointError) as caught:
        too_much(checkpoints)
    error = caught.value
    assert "`checkpoint-2` could not be written to" in str(error)
    assert f"{folder}/checkpoints`: No space left on device" in str(error)
    assert error.written >= 1_200_000
    assert f"{error.written:,} bytes of it were written and are removed" in str(error)
    assert error.free >= 2_000_000
    last = checkpoints.last_good()
    assert last is not None
    assert last.step == 1
    assert [path.name for path in checkpoints.folder.iterdir()] == ["checkpoint-1"]


def too_much(checkpoints: Checkpoints) -> None:
    with checkpoints.write(2) as staging:
        (staging / "weights").write_bytes(b"w" * 1_200_000)
        (staging / "optimizer").write_bytes(b"o" * 3_600_000)


def test_what_is_half_written_is_removed_and_the_error_names_folder_and_bytes(
    on_small_disk: OnSmallDisk,
) -> None:
    on_small_disk(full_at_a_checkpoint)


def full_log(folder: Path) -> None:
    from rolecraft.training.sft.log import Log, LogLine, read_log

    told: list[str] = []
    log = Log(folder, warn=told.append)
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    for step in range(1, 100):
        log.add(LogLine(step=step, steps=100, epoch=0.1, loss=1.0))
    assert len(told) == 1
    assert "No space left on device" in told[0]
    filler.unlink()
    log.add(LogLine(step=100, steps=100, epoch=0.1, loss=1.0))
    log.close()
    assert [line.step for line in read_log(folder)] == list(range(1, 101))


def test_lines_of_the_log_wait_for_room(on_small_disk: OnSmallDisk) -> None:
    on_small_disk(full_log)


def test_a_log_that_found_no_room_does_not_hide_what_ended_the_run(
    tmp_path: Path, heard: Any
) -> None:
    from rolecraft.training.sft.log import LogLine
    from rolecraft.training.sft.reporting import Reporter

    trainer: Any = SimpleNamespace(is_world_process_zero=lambda: True, tokens=0, samples=0)

    def write_without_room(folder: Path) -> Iterator[None]:
        folder.mkdir()
        with Reporter(trainer, folder, 0, None, heard) as reporter:
            os.dup2(full.fileno(), reporter._log._file)  # type: ignore[union-attr]
            reporter._log.add(LogLine(step=1, steps=2, epoch=0.5))  # type: ignore[union-attr]
            yield

    with open("/dev/full", "wb", buffering=0) as full:
        with pytest.raises(CheckpointError, match=r"The end of `log\.jsonl` could not be written"):
            list(write_without_room(tmp_path / "finished"))
        with (
            pytest.raises(ValueError, match="the reason"),
            contextmanager(write_without_room)(tmp_path / "failed"),
        ):
            raise ValueError("the reason")
    assert "The end of `log.jsonl` could not be written" in heard.warnings[-1]


def something_to_train(folder: Path) -> tuple[Any, Any, Any]:
    """Settings, data and tokenizer of a run on the small disk, with a checkpoint each second step;
    the base is elsewhere, and is made if it is not there."""
    from rolecraft.models.tiny_chat import tiny_chat_model
    from rolecraft.models.torch_extra import torch
    from rolecraft.training.sft.libraries import datasets
    from rolecraft.training.sft.loading import load_tokenizer
    from rolecraft.training.sft.settings import SFTSettings

    torch.set_num_threads(1)
    base, run = folder.parent / "base", folder / "run"
    if not base.exists():
        tiny_chat_model(hidden=32, heads=2).save(base)
    rows = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}] * 8
    data = SimpleNamespace(train=datasets.Dataset.from_list(rows), eval=None)
    settings = SFTSettings(
        model=str(base), data=("x",), output=run, batch=1, accumulate=1, max_steps=8, save_steps=2
    )
    return settings, data, load_tokenizer(base, print)


def filling(filler: Path, *, mends: bool) -> Any:
    """Who listens fills the disk at step 3, and makes room again when told of it, if it `mends`."""
    from rolecraft.training.sft.listener import Listener

    class Filling(Listener):
        def __init__(self) -> None:
            self.warnings = list[str]()

        def line(self, line: Any) -> None:
            if line.step == 3:
                with filler.open("wb", buffering=0) as file:
                    try:
                        while True:
                            file.write(b"x" * 4096)
                    except OSError:
                        file.truncate(file.tell() - 20_000)

        def warn(self, text: str) -> None:
            self.warnings.append(text)
            if mends and "checkpoint-4" in text:
                filler.unlink()

    return Filling()


def full_run(folder: Path) -> None:
    """A run whose disk is full from its second checkpoint on, and one where room is made."""
    from rolecraft.training.sft.training import train_on

    settings, data, tokenizer = something_to_train(folder)
    filler, run = folder / "filler", settings.output
    for mends in (True, False):
        heard = filling(filler, mends=mends)
        if mends:
            done = train_on(settings, data, tokenizer, run, listener=heard)
            assert done.summary is not None
            kept = [found.step for found in Checkpoints(run).all()]
            assert kept == [2, 6, 8]
            import shutil

            shutil.rmtree(run)
        else:
            with pytest.raises(CheckpointError, match="`checkpoint-6` could not be written"):
                train_on(settings, data, tokenizer, run, listener=heard)
            last = Checkpoints(run).last_good()
            assert last is not None
            assert last.step == 2
            filler.unlink()
            done = train_on(settings, data, tokenizer, run, resume=True)
            assert done.summary is not None
            assert done.summary.steps == 8
        assert any("`checkpoint-4` could not be" in w for w in heard.warnings)
        assert any("Training goes on; it stops if" in w for w in heard.warnings)


@pytest.mark.slow
def test_a_run_goes_on_once_without_a_checkpoint_and_then_stops(on_small_disk: OnSmallDisk) -> None:
    on_small_disk(full_run)


def of_two(folder: Path) -> None:
    """One of the two processes: the disk is full from the second checkpoint on."""
    from rolecraft.training.sft.training import train_on

    heard = filling(folder / "filler", mends=False)
    with pytest.raises(CheckpointError, match="`checkpoint-6` could not be written"):
        train_on(*something_to_train(folder), folder / "run", listener=heard)
    assert any("`checkpoint-4` could not be" in w for w in heard.warnings)
    assert any("Training goes on; it stops if" in w for w in heard.warnings)


def full_run_of_two(folder: Path) -> None:
    from rolecraft.training.background import launch

    something_to_train(folder)
    assert launch([sys.executable, "-c", CALL, __file__, of_two.__name__, str(folder)], 2) == 0
    checkpoints = Checkpoints(folder / "run")
    assert [found.step for found in checkpoints.all()] == [2]
    assert checkpoints.is_good(2)
    assert not list(checkpoints.folder.glob(".*"))  # nothing half written


@pytest.mark.slow
def test_several_processes_go_on_once_without_a_checkpoint_and_then_stop_together(
    on_small_disk: OnSmallDisk,
) -> None:
    on_small_disk(full_run_of_two)
