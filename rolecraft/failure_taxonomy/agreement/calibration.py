"""Calibration: whether a stated confidence is how often the verdict is right.

A verdict's confidence is how sure the annotator is of it, of `absent` as of `present`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES

BINS = 15
"""Equal-width bins of confidence, as in Guo et al. (2017)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How confidence and correctness go together."""

    n: int
    """Verdicts with a confidence, on cells that gold decides."""
    without: int
    """Verdicts without one, which are left out."""
    ece: float
    """Expected calibration error over `BINS` bins, in [0, 1]: the mean distance between the mean
    confidence and the accuracy of a bin, weighted by its verdicts (Naeini et al. 2015)."""
    curve: tuple[tuple[float, float], ...]
    """Risk-coverage: for each confidence as the threshold, highest first, the share of verdicts
    that are kept and the share of those that is wrong."""
    aurc: float
    """Area under that curve (Geifman and El-Yaniv 2017): the mean risk over all coverages."""


def calibration(pairs: Iterable[tuple[Labels, Labels]]) -> Calibration | None:
    """The calibration of the predictions in `pairs` of gold and prediction; None without any."""
    sure: list[tuple[float, bool]] = []
    without = 0
    for gold, said in pairs:
        for mode in MODES:
            truth, verdict = gold.verdict(mode), said.verdict(mode)
            if truth not in ("present", "absent") or verdict not in ("present", "absent"):
                continue
            confidence = _confidence(said, mode)
            if confidence is None:
                without += 1
            else:
                sure.append((confidence, verdict == truth))
    if not sure:
        return None
    curve = risk_coverage(sure)
    return Calibration(
        n=len(sure),
        without=without,
        ece=expected_error(sure),
        curve=curve,
        aurc=_area(curve),
    )


def expected_error(sure: Sequence[tuple[float, bool]], *, bins: int = BINS) -> float:
    """The expected calibration error of (confidence, was it right) pairs.

    Bin i of n holds the confidences in (i/n, (i+1)/n]; 0 belongs to the first.
    """
    filled: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in sure:
        at = max(0, min(bins - 1, -int(-confidence * bins // 1) - 1))
        filled.setdefault(at, []).append((confidence, right))
    gaps = (
        abs(sum(c for c, _ in rows) - sum(right for _, right in rows)) for rows in filled.values()
    )
    return sum(gaps) / len(sure)


def risk_coverage(sure: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float], ...]:
    """(coverage, risk) for each distinct confidence as the lowest that is accepted."""
    points = []
    wrong = 0
    ordered = sorted(sure, key=lambda pair: -pair[0])
    for at, (confidence, right) in enumerate(ordered, start=1):
        wrong += not right
        if at == len(ordered) or ordered[at][0] != confidence:
            points.append((at / len(ordered), wrong / at))
    return tuple(points)


def _area(curve: Sequence[tuple[float, float]]) -> float:
    """The area under the steps of the curve: at each coverage the risk of the next point."""
    area, before = 0.0, 0.0
    for coverage, risk in curve:
        area += (coverage - before) * risk
        before = coverage
    return area


def _confidence(labels: Labels, mode: str) -> float | None:
    verdict = labels.verdict(mode)
    said = [
        finding.confidence
        for finding in labels.findings
        if finding.mode == mode and finding.verdict == verdict and finding.confidence is not None
    ]
    return max(said, default=None)
