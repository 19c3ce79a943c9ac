"""The steps of a fine-tuning as a table that grows, for terminals of any width and for logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.training.sft.log import LogLine
    from rolecraft.training.sft.summary import Summary

ROWS = 100
"""So many steps are shown of a run, besides those with an evaluation; the log has all."""
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    head: str
    width: int
    cell: Callable[[LogLine], str]
    rank: int
    """What is left out first where there is no room for all: the highest."""


def _number(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return format(value, form) if math.isfinite(value) else str(value)


def _short(value: float | None) -> str:
    return _number(value, ".0f" if value is not None and abs(value) >= 1000 else ".4g")


COLUMNS = (
    Column("step", 13, lambda line: f"{line.step}/{line.steps}", 0),
    Column("epoch", 6, lambda line: f"{line.epoch:.2f}", 6),
    Column("loss", 7, lambda line: _number(line.loss, ".4f"), 1),
    Column("ppl", 7, lambda line: _short(line.perplexity), 8),
    Column("eval", 7, lambda line: _number(line.eval_loss, ".4f"), 2),
    Column("eval ppl", 8, lambda line: _short(line.eval_perplexity), 9),
    Column("rate", 8, lambda line: _number(line.learning_rate, ".2e"), 5),
    Column("norm", 6, lambda line: _number(line.grad_norm, ".3g"), 7),
    Column("tok/s", 7, lambda line: _number(line.tokens_per_second, ".0f"), 4),
    Column("samp/s", 7, lambda line: _number(line.samples_per_second, ".4g"), 10),
    Column("FLOPs", 8, lambda line: f"{line.flops:.1e}", 11),
    Column("left", 9, lambda line: duration(line.seconds_left), 3),
)


class StepTable:
    """Rows for a terminal of `width` characters: as many columns as fit, the most telling first."""

    def __init__(self, width: int) -> None:
        chosen: list[Column] = []
        room = width
        for column in sorted(COLUMNS, key=lambda column: column.rank):
            room -= column.width + _GAP
            if room < -_GAP and chosen:
                break
            chosen.append(column)
        self.columns = [column for column in COLUMNS if column in chosen]

    def head(self) -> str:
        return self._row([column.head for column in self.columns])

    def row(self, line: LogLine) -> str:
        return self._row([column.cell(line) for column in self.columns])

    def _row(self, cells: Sequence[str]) -> str:
        padded = (f"{cell:>{col.width}}" for cell, col in zip(cells, self.columns, strict=True))
        return (" " * _GAP).join(padded)


def is_shown(line: LogLine) -> bool:
    """Whether a step gets a row: the first, the last, those evaluated, and some between."""
    every = max(1, line.steps // ROWS)
    return line.step in (1, line.steps) or line.eval_loss is not None or line.step % every == 0


def duration(seconds: float) -> str:
    """As `1:02:03`, with days where there are some."""
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """What came of a run, for a table of two columns."""
    evaluated = "not evaluated" if summary.eval_loss is None else f"{summary.eval_loss:.4f}"
    of = "of the train loss" if summary.eval_loss is None else "of the eval loss"
    steps = f"{summary.steps:,}"
    if summary.ended == "patience":
        steps += f" of {summary.planned_steps:,}: the evaluation loss got no better"
    rows = [
        ("duration", duration(summary.seconds)),
        ("samples", f"{summary.train_samples:,}, and {summary.eval_samples:,} to evaluate on"),
        ("epochs", f"{summary.epochs:g}"),
        ("steps", steps),
        ("train loss", f"{summary.train_loss:.4f}"),
        ("eval loss", evaluated),
        ("perplexity", f"{_number(summary.perplexity, '.4f')}, {of}"),
        ("samples/s", f"{summary.samples_per_second:.4g}"),
        ("FLOPs", f"{summary.flops:.2e}"),
    ]
    if summary.best_step is not None:
        rows.insert(4, ("kept", f"the weights of step {summary.best_step:,}, the best"))
    return rows
