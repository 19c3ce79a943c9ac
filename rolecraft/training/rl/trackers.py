"""Where the numbers of each step go besides the curve's own file: TensorBoard, wandb, trackio.

A tracker is a copy for looking at: what goes wrong with it costs no training. `training.jsonl` has
everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from rolecraft.errors import MissingExtra, UnknownName, UsageError
from rolecraft.training.rl.records import StepRecord

TrackerName = Literal["tensorboard", "wandb", "trackio"]

TENSORBOARD = "tensorboard"
"""In the folder of a training."""


class Tracker(Protocol):
    def step(self, record: StepRecord) -> None:
        """A step has ended."""
        ...

    def close(self) -> None: ...


def tracker(
    name: str,
    folder: Path,
    *,
    project: str = "rolecraft",
    after: int = 0,
    warn: Callable[[str], None] = lambda text: None,
) -> Tracker:
    """The tracker of this name for the training in `folder`, which goes on after `after` steps.

    Raises `UnknownName`, or `MissingExtra` where its library is not installed.
    """
    match name:
        case "tensorboard":
            return _Safe(name, _TensorBoard(folder, after), warn)
        case "wandb" | "trackio":
            return _Safe(name, _Hosted(name, folder, project), warn)
    raise UnknownName("Tracker", name, get_args(TrackerName))


class _Safe:
    """Gives up on a tracker that fails, and says so once."""

    def __init__(self, name: str, inner: Tracker, warn: Callable[[str], None]) -> None:
        self._name, self._warn = name, warn
        self._inner: Tracker | None = inner

    def step(self, record: StepRecord) -> None:
        self._try(lambda inner: inner.step(record))

    def close(self) -> None:
        self._try(lambda inner: inner.close())

    def _try(self, act: Callable[[Tracker], None]) -> None:
        if self._inner is None:
            return
        try:
            act(self._inner)
        except Exception as error:  # each library has errors of its own, and no copy ends a run
            self._inner = None
            self._warn(f"{self._name} gets no more values: {error}")


class _TensorBoard:
    def __init__(self, folder: Path, after: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra("tensorboard", "train", "The curves of a training") from error
        self._writer: Any = SummaryWriter(str(folder / TENSORBOARD), purge_step=after)

    def step(self, record: StepRecord) -> None:
        for name, value in record.scalars().items():
            self._writer.add_scalar(name, value, record.step)

    def close(self) -> None:
        self._writer.close()


class _Hosted:
    """wandb, or trackio, which has the same three functions."""

    def __init__(self, name: str, folder: Path, project: str) -> None:
        from importlib import import_module

        try:
            self._library: Any = import_module(name)
        except ImportError as error:
            raise UsageError(
                f"The tracker `{name}` needs a library that is not installed: pip install {name}"
            ) from error
        self._library.init(project=project, name=folder.name)

    def step(self, record: StepRecord) -> None:
        self._library.log(record.scalars(), step=record.step)

    def close(self) -> None:
        self._library.finish()
