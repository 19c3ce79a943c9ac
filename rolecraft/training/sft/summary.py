"""`summary.json`: what came of a run, written last. A folder that has it holds a finished run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rolecraft.errors import UsageError
from rolecraft.training.sft.log import LogLine, perplexity
from rolecraft.trajectories.whole_file import write_whole

SUMMARY = "summary.json"
"""In the folder of a run."""

Ended = Literal[
    "finished",  # all steps were done
    "patience",  # the evaluation loss did not get better
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What came of a run. Losses are in nats per token; NaN is null in the file."""

    ended: Ended
    steps: int
    planned_steps: int
    epochs: float
    train_samples: int
    eval_samples: int
    samples: int
    """Trained on, counted in every epoch."""
    tokens: int
    """Likewise, padding not counted."""
    seconds: float
    """Of training, in the processes whose steps counted."""
    train_loss: float
    """Mean over the steps."""
    eval_loss: float | None
    """Of the weights that are kept; None if they were never evaluated."""
    perplexity: float
    """exp of the evaluation loss, or of the training loss where nothing was evaluated."""
    samples_per_second: float
    flops: float
    best_step: int | None
    """The step whose weights are kept, if it is not the last one."""

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, folder: Path) -> None:
        """Write it whole or not at all."""
        write_whole(folder / SUMMARY, json.dumps(self.record(), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Summary | None:
        """That of a finished run, else None. Raises `UsageError` for a broken one."""
        path = folder / SUMMARY
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, OSError) as error:
            raise UsageError(f"`{path}` cannot be read: {error}. Remove it and resume.") from error


@dataclass(frozen=True, slots=True)
class Trained:
    """One adapter or model."""

    role: str | None
    folder: Path
    summary: Summary | None
    """None where it was stopped before its end."""


def summarise(
    lines: Sequence[LogLine],
    *,
    ended: Ended,
    train_samples: int,
    eval_samples: int,
    best_step: int | None,
) -> Summary:
    """From the lines of a whole log. `best_step` is that of the weights kept, None: the last.

    Raises `UsageError` if there are no lines.
    """
    if not lines:
        raise UsageError(
            "The run was trained to its end before, but its `log.jsonl` is gone, so nothing can be "
            "said of it. Bring the log back; or remove its last checkpoint, and resume."
        )
    last = lines[-1]
    measured = [(line.step, line.loss) for line in lines if line.loss is not None]
    steps = [step for step, _ in measured]
    spans = [step - before for before, step in zip([0, *steps], steps, strict=False)]
    kept = last.step if best_step is None else best_step
    evaluated = [line.eval_loss for line in lines if line.step == kept]
    eval_loss = evaluated[-1] if evaluated else None
    train_loss = fmean((loss for _, loss in measured), spans)  # each is a mean over its steps
    return Summary(
        ended=ended,
        steps=last.step,
        planned_steps=last.steps,
        epochs=round(last.epoch, 4),
        train_samples=train_samples,
        eval_samples=eval_samples,
        samples=last.samples,
        tokens=last.tokens,
        seconds=last.seconds,
        train_loss=train_loss,
        eval_loss=eval_loss,
        perplexity=perplexity(train_loss if eval_loss is None else eval_loss),
        samples_per_second=last.samples / last.seconds if last.seconds else 0.0,
        flops=last.flops,
        best_step=None if kept == last.step else kept,
    )
