"""The folder of a training: what is written there at whatever end, and what is left alone."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.cli._background import runs_folder
from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.cli._training import writing_to
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.training.background import (
    LOCK,
    LOGS,
    OF_A_RUN,
    RECORD,
    claim,
    claimant,
    forget,
)

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel

BASE = "base"
"""In the folder of a training of adapters: the scenario's own model, which they belong to."""

_OF_A_TRAINING = ("adapters", BASE, "checkpoints", "episodes", "tensorboard")


def way_on(path: Path) -> tuple[str, str]:
    """What is added to a command of a training in this folder to go on with it."""
    return ("--resume", str(path.resolve()))


def never_began(path: Path) -> bool:
    """Whether a run was started in this folder and ended before its training began."""
    return (path / RECORD).is_file() and all(each.name in OF_A_RUN for each in path.iterdir())


def check_place(path: Path, *, resume: bool) -> None:
    """Raise `OutputClaimed` where a run is under way, and `CommandLineError` for a folder that has
    something in it, unless that is gone on with. Raises `OSError`."""
    if (taken := claimant(path.resolve())) is not None:
        raise taken
    if resume or not path.exists():
        return
    if any(found.name not in OF_A_RUN for found in path.iterdir()):
        raise CommandLineError(
            f"`--out {path}` is not empty. Name another folder; or go on with the training there: "
            f"--resume."
        )


class TrainFolder:
    """Where a training goes. `train` writes curve, tasks and checkpoints; the model is written
    here, at whatever end. A run in the background has its log and its record there already."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Raises `CommandLineError` for a folder that has something or cannot be written to, and
        `OutputClaimed` for one in which a run is under way."""
        self.path = path
        self.steps = 0
        self.weights: Path | None = path
        """Where the model goes; None: it is elsewhere already."""
        self._resumed = resume
        self._empty = False
        with writing_to(path):
            self._made = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            check_place(path, resume=resume)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """The folder for this run alone, in the index of runs; of what left nothing it is taken."""
        index, record = runs_folder(), self.path / RECORD
        before = record.read_bytes() if self._resumed and record.exists() else None
        try:
            with claim(self.path, index=index, way_on=way_on(self.path)):
                yield
        except UsageError:
            if before is not None and not self.steps:  # what was refused is not the run there
                record.write_bytes(before)
            raise
        finally:
            if self._empty and not (self.path / LOGS).exists():
                forget(index, self.path.resolve())
                with contextlib.suppress(OSError):
                    for name in (RECORD, LOCK):
                        (self.path / name).unlink(missing_ok=True)
                    if self._made:
                        self.path.rmdir()

    async def save(self, model: TransformersModel) -> None:
        """Write the weights once the update under way has ended: never half of one."""
        if (weights := self.weights) is None:
            return
        from safetensors import SafetensorError

        from rolecraft.models.torch_extra import no_progress_bars

        def save() -> None:
            with no_progress_bars():
                model.save(weights)

        with writing_to(self.path):
            try:
                await model.run(save)
            except SafetensorError as error:  # how it reports a full disk
                raise OSError(str(error)) from error

    async def rescue(self, model: TransformersModel, output: Output) -> None:
        """Save what an unfinished training learnt; if that is nothing, leave nothing behind."""
        if self.steps:
            try:
                await self.save(model)
            except (CommandLineError, RolecraftError) as error:  # why training ended comes first
                output.warn(f"What was learnt is lost. {error}")
            else:
                steps = f"{self.steps} step{'s' if self.steps > 1 else ''}"
                output.note(f"What was learnt in {steps} is in `{self.path}`.")
            return
        self.clear()

    def clear(self) -> None:
        """Leave nothing behind of a training that has not learnt anything."""
        if self._resumed:
            return
        self._empty = True
        with contextlib.suppress(OSError):
            for path in self.path.iterdir():
                if path.name in OF_A_RUN:
                    continue
                if path.is_file():
                    path.unlink()
                elif path.name in _OF_A_TRAINING:
                    shutil.rmtree(path)
            if self._made:
                self.path.rmdir()
