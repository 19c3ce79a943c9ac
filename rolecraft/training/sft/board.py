"""TensorBoard's curves of a run, in the folder `tensorboard`.

They are written by a thread of TensorBoard's own. A kill may lose what waits for it, which
`log.jsonl` has as well; after a `flush` nothing waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rolecraft.errors import MissingExtra
from rolecraft.training.sft.log import LogLine

TENSORBOARD = "tensorboard"
"""In the folder of a run."""

_SCALARS = {
    "train/loss": "loss",
    "train/perplexity": "perplexity",
    "train/accuracy": "accuracy",
    "train/learning_rate": "learning_rate",
    "train/grad_norm": "grad_norm",
    "eval/loss": "eval_loss",
    "eval/perplexity": "eval_perplexity",
    "eval/accuracy": "eval_accuracy",
    "speed/tokens_per_second": "tokens_per_second",
    "speed/samples_per_second": "samples_per_second",
    "progress/epoch": "epoch",
    "progress/flops": "flops",
}


class Board:
    """TensorBoard's files. `purge` is the first step that a resumed run computes again."""

    def __init__(self, folder: Path, purge: int, warn: Callable[[str], None]) -> None:
        try:
            from tensorboard.compat.proto.summary_pb2 import (  # type: ignore[import-untyped]
                Summary,
            )
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra("tensorboard", "train", "The curves of a run") from error

        self._warn, self._summary = warn, Summary
        self._writer: Any = SummaryWriter(str(folder / TENSORBOARD), purge_step=purge)

    def add(self, line: LogLine) -> None:
        """All values of a step in one record: for each one TensorBoard opens its file anew."""
        values = [
            self._summary.Value(tag=tag, simple_value=value)
            for tag, name in _SCALARS.items()
            if (value := getattr(line, name)) is not None
        ]
        with self._tolerant():
            if self._writer is not None:
                summary = self._summary(value=values)
                self._writer.file_writer.add_summary(summary, line.step)

    def flush(self) -> None:
        with self._tolerant():
            if self._writer is not None:
                self._writer.flush()

    def close(self) -> None:
        with self._tolerant():
            if self._writer is not None:
                self._writer.close()

    @contextlib.contextmanager
    def _tolerant(self) -> Any:
        """A full disk costs TensorBoard its curves, which `log.jsonl` has as well, and no run."""
        try:
            yield
        except OSError as error:
            self._writer = None
            self._warn(f"TensorBoard gets no more values: {error.strerror or error}.")
