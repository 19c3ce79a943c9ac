"""Counts of one comparison of two annotators on one mode, and the scores made of them.

Invariant: a score that its counts do not define (nothing was said to be present, nobody disagreed
about a constant) is None, never 0 and never 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Counts(NamedTuple):
    """Traces by what gold and prediction say about a mode. Fractions are expected counts."""

    tp: float = 0
    """Both present."""
    fp: float = 0
    """Present is predicted, absent is true."""
    fn: float = 0
    """Absent is predicted, present is true."""
    tn: float = 0
    """Both absent."""
    open_present: float = 0
    """Present is true; the prediction is `unknown`, or was not made."""
    open_absent: float = 0
    """Absent is true; the prediction is `unknown`, or was not made."""

    @property
    def decided(self) -> float:
        """Traces about which both say something."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def n(self) -> float:
        """Traces about which gold says something."""
        return self.decided + self.open_present + self.open_absent

    @property
    def present(self) -> float:
        """Traces in which gold has the failure."""
        return self.tp + self.fn + self.open_present

    def open_as_no(self) -> Counts:
        """The same with every open cell read as absent: what is not found is not there."""
        return Counts(self.tp, self.fp, self.fn + self.open_present, self.tn + self.open_absent)

    def open_as_wrong(self) -> Counts:
        """The same with every open cell counted as wrong."""
        return Counts(self.tp, self.fp + self.open_absent, self.fn + self.open_present, self.tn)


def add(counts: Iterable[Counts]) -> Counts:
    """Counts of several modes or traces together."""
    return Counts(*map(sum, zip(*counts, strict=True))) if (counts := list(counts)) else Counts()


def precision(c: Counts) -> float | None:
    """Share of the predicted failures that are true: TP / (TP + FP)."""
    return _share(c.tp, c.tp + c.fp)


def recall(c: Counts) -> float | None:
    """Share of the true failures that are predicted: TP / (TP + FN)."""
    return _share(c.tp, c.tp + c.fn)


def f1(c: Counts) -> float | None:
    """Harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN)."""
    return _share(2 * c.tp, 2 * c.tp + c.fp + c.fn)


def accuracy(c: Counts) -> float | None:
    """Share of the traces on which both agree. Beside rare failures it says little."""
    return _share(c.tp + c.tn, c.decided)


def kappa(c: Counts) -> float | None:
    """Cohen's kappa (1960): agreement beyond what the two would reach by chance.

    (p_o - p_e) / (1 - p_e), where p_e comes from how often each of them says present. 1 is full
    agreement, 0 chance, below 0 worse. None where p_e is 1: both always give the same answer.
    """
    n = c.decided
    if not n:
        return None
    by_chance = (c.tp + c.fp) * (c.tp + c.fn) + (c.fn + c.tn) * (c.fp + c.tn)
    return _share((c.tp + c.tn) * n - by_chance, n * n - by_chance)


SCORES: dict[str, Callable[[Counts], float | None]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "kappa": kappa,
}
"""The scores of a row, each with its bootstrap interval. `accuracy` is given without."""


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are defined; None if none is."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def always_no(c: Counts) -> Counts:
    """What an annotator would get that never sees a failure."""
    return Counts(fn=c.present, tn=c.n - c.present)


def always_yes(c: Counts) -> Counts:
    """What an annotator would get that sees every failure everywhere."""
    return Counts(tp=c.present, fp=c.n - c.present)


def prevalence(c: Counts) -> Counts:
    """What is expected of a guess that says present as often as gold does, and at random."""
    yes, no = c.present, c.n - c.present
    share = yes / c.n if c.n else 0.0
    return Counts(tp=yes * share, fp=no * share, fn=yes * (1 - share), tn=no * (1 - share))


BASELINES: dict[str, Callable[[Counts], Counts]] = {
    "always_no": always_no,
    "always_yes": always_yes,
    "prevalence": prevalence,
}
"""What costs nothing, to be beaten: answers to all of gold's cells. Pooled rows add up those of
their modes."""


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
