"""The folder of a training: curve, tasks and checkpoints, and how one goes on from them.

    DIR/settings.json     what must be the same when it is gone on with
    DIR/training.jsonl    a line for each step
    DIR/tasks.jsonl       a line for each task, before it is first played
    DIR/checkpoints/      the last ones, each whole or not there

Invariant: going on from the checkpoint of step n, the files hold what they held when it was
written; what came after is played again. So a training that is killed at any moment and gone on
with leaves the same files as one that was not (but for times), where its steps do not depend on
time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.checkpoints import CheckpointError, Checkpoints, disk_errors
from rolecraft.training.rl.records import CURVE, TASKS, StepRecord, TaskRecord, curve_line
from rolecraft.training.same_settings import difference, plain
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.whole_file import write_whole

RUN = "settings.json"
STATE = "state.pt"
"""In a checkpoint: all that the training goes on from."""

LOCK = "train.lock"

Warn = Callable[[str], None]


class RunFolder:
    """`about` says what a training that goes on must have in common with the one that began here.

    Raises `UsageError` if it differs, `JournalError` while another process trains there. With
    `resume`, `records`, `tasks` and `state` are those of
    the last good checkpoint; without one, training begins anew.
    """

    def __init__(
        self,
        path: Path,
        about: dict[str, Any],
        *,
        resume: bool = False,
        keep: int = 2,
        warn: Warn = lambda text: None,
    ) -> None:
        if keep < 1:
            raise UsageError(f"`keep` is {keep!r}; at least one checkpoint is kept.")
        self.path, self._keep, self._warn = path, keep, warn
        self.checkpoints = Checkpoints(path, warn)
        self.records: list[StepRecord] = []
        self.tasks: list[TaskRecord] = []
        self.state: dict[str, Any] = {}
        """What the last checkpoint holds; empty at the beginning."""
        self._missed = 0
        """Checkpoints running that the disk did not take."""
        with disk_errors(path, "The folder of the training"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = AppendFile(path / LOCK)  # one process at a time; a kill lets go of it
            try:
                self._begin(about, resume)
            except BaseException:  # what was refused holds nothing: a notebook tries again
                self.close()
                raise
        self._synced: list[Path] = [path / CURVE, path / TASKS]

    def _begin(self, about: dict[str, Any], resume: bool) -> None:
        if resume:
            self._check(about)
            self._take_up()
        elif self.checkpoints.all():
            raise UsageError(
                f"`{self.path}` has the checkpoints of another training: go on with it (`resume`), "
                f"or name another folder."
            )
        write_whole(self.path / RUN, json.dumps(plain(about), indent=1) + "\n")
        for name, lines in ((CURVE, self._curve()), (TASKS, self._tasks())):
            write_whole(self.path / name, lines)

    def close(self) -> None:
        """Let another training have the folder."""
        self._lock.close()

    def add_tasks(self, tasks: Sequence[TaskRecord]) -> None:
        self.tasks += tasks
        self._append(TASKS, "".join(task.line() for task in tasks))

    def add(self, record: StepRecord) -> None:
        self.records.append(record)
        self._append(CURVE, curve_line(record))

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Write the state after the last step that was added.

        A disk that does not take it costs this checkpoint, with a warning; when it refuses the
        next one too, `CheckpointError` is raised. The one before stays in either case.
        """
        step = len(self.records)
        whole = {**state, "records": step, "tasks": len(self.tasks)}
        try:
            with disk_errors(self.path, f"The checkpoint of step {step}"):
                for path in self._synced:
                    _sync(path)
                with self.checkpoints.write(step) as folder, (folder / STATE).open("wb") as file:
                    torch.save(whole, file)
        except CheckpointError as error:
            self._missed += 1
            if self._missed > 1:
                raise
            self._warn(f"{error} The training goes on, and ends if the next one fails too.")
            return
        self._missed = 0
        for old in self.checkpoints.all()[: -self._keep]:
            shutil.rmtree(old.path, ignore_errors=True)

    def _check(self, about: dict[str, Any]) -> None:
        path = self.path / RUN
        try:
            before = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return  # it was killed before it had begun
        except ValueError as error:
            raise UsageError(f"`{path}` cannot be read: {error}.") from error
        for name in {**before, **about}:
            if found := difference(before.get(name), about.get(name), name):
                raise UsageError(
                    f"`{self.path}` has another training than this: `{found.name}` is {found.now} "
                    f"and was {found.was}. Go on with the same, or name another folder."
                )

    def _take_up(self) -> None:
        self.checkpoints.clean()
        last = self.checkpoints.last_good()
        if last is None:
            return
        self.state = torch.load(last.path / STATE, map_location="cpu", weights_only=True)
        curve = _lines(self.path / CURVE, self.state["records"])
        tasks = _lines(self.path / TASKS, self.state["tasks"])
        self.records = [StepRecord.of_record(line) for line in curve]
        self.tasks = [TaskRecord(**line) for line in tasks]
        if len(curve) < self.state["records"] or len(tasks) < self.state["tasks"]:
            raise UsageError(
                f"`{self.path}`: `{CURVE}` and `{TASKS}` have fewer lines than `{last.path.name}` "
                f"was written after. They were shortened; put them back to go on."
            )

    def _curve(self) -> str:
        return "".join(map(curve_line, self.records))

    def _tasks(self) -> str:
        return "".join(task.line() for task in self.tasks)

    def _append(self, name: str, text: str) -> None:
        with disk_errors(self.path, f"A line of `{name}`"), (self.path / name).open("ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))


def _lines(path: Path, count: int) -> list[dict[str, Any]]:
    """The first objects of a JSONL file, without a last line that was cut off."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data.split(b"\n")[:-1][:count]]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
