"""`log.jsonl`: one line for each step that is logged, whatever became of the processes.

Invariant: its lines have rising steps, each once. A run that goes on from a checkpoint drops what
was logged after it, since those steps are computed again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError

LOG = "log.jsonl"
"""In the folder of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """What is known after a step. Losses are in nats per token; None: not measured there."""

    step: int
    """Of the optimiser, from 1."""
    steps: int
    """That there will be."""
    epoch: float
    """Passes over the data so far."""
    loss: float | None = None
    """Mean over the trained tokens, and over the steps since the line before."""
    perplexity: float | None = None
    """exp(loss)."""
    accuracy: float | None = None
    """Share of the trained tokens that were the likeliest."""
    learning_rate: float | None = None
    grad_norm: float | None = None
    """Before it was clipped."""
    eval_loss: float | None = None
    """Mean over the trained tokens of the evaluation data."""
    eval_perplexity: float | None = None
    eval_accuracy: float | None = None
    tokens: int = 0
    """Tokens seen since the run began, padding not counted."""
    samples: int = 0
    """Likewise."""
    flops: float = 0.0
    """Since the run began: 6 for each token and weight (arXiv 2001.08361, section 2.1)."""
    seconds: float = 0.0
    """Of training, in the processes whose steps counted."""
    tokens_per_second: float = 0.0
    """Since this process began to train."""
    samples_per_second: float = 0.0
    seconds_left: float = 0.0

    def record(self) -> dict[str, Any]:
        """As JSON has it: without what was not measured, null for what is no number."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name in _NAMES
            if (value := getattr(self, name)) is not None
        }


TIMES = ("seconds", "tokens_per_second", "samples_per_second", "seconds_left")
"""What differs between two runs that do the same."""

_NAMES = tuple(field.name for field in fields(LogLine))


def read_log(folder: Path) -> list[LogLine]:
    """The lines of a run's log, without a last one that was cut off.

    Raises `UsageError` if there is none, or a line in it is none of its lines.
    """
    path = folder / LOG
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"`{folder}` has no `{LOG}`: nothing was trained there yet.") from None
    lines = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
            lines.append(LogLine(**{k: v for k, v in record.items() if k in _NAMES}))
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"`{path}`, line {number}, cannot be read: {error}.") from error
    return lines


class Log:
    """The log while it is written. `warn` is told once when the disk takes no line.

    Lines that found no room are kept and written when there is some.
    """

    def __init__(
        self, folder: Path, *, keep_to: int = 0, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        """Go on after step `keep_to`; 0 begins anew."""
        self.path = folder / LOG
        self._warn, self._warned = warn, False
        self._waiting = b""
        self.lines = self._kept(folder, keep_to)
        """Those in the file, and those that wait for room."""
        before = self.path.with_suffix(".jsonl.part")
        before.write_bytes(b"".join(map(_encoded, self.lines)))
        before.replace(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    @staticmethod
    def _kept(folder: Path, keep_to: int) -> list[LogLine]:
        if not keep_to or not (folder / LOG).exists():
            return []
        return [line for line in read_log(folder) if line.step <= keep_to]

    @property
    def last(self) -> LogLine | None:
        return self.lines[-1] if self.lines else None

    def add(self, line: LogLine) -> None:
        self.lines.append(line)
        self._waiting += _encoded(line)
        self.flush()

    def flush(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._file, self._waiting)
                self._waiting = self._waiting[written:]
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"`{self.path}`: {error.strerror}. {len(self._waiting):,} bytes of it wait "
                    f"until there is room."
                )

    def sync(self) -> None:
        """Wait until all is on the disk: a checkpoint must not outlive the lines before it."""
        self.flush()
        os.fsync(self._file)

    def close(self) -> None:
        """Raises `OSError` if lines still found no room."""
        self.flush()
        os.close(self._file)
        if self._waiting:
            raise OSError(28, os.strerror(28), str(self.path))


def _encoded(line: LogLine) -> bytes:
    return json.dumps(line.record(), allow_nan=False).encode() + b"\n"


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that is more than a float holds."""
    return math.exp(loss) if loss < 700 else math.inf
