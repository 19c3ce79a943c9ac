"""What a comparison found, as scores, as plain data and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.agreement.blame import Attribution, Ceiling, Share
from rolecraft.failure_taxonomy.agreement.bootstrap import Interval
from rolecraft.failure_taxonomy.agreement.calibration import BINS, Calibration
from rolecraft.failure_taxonomy.agreement.counts import SCORES, Counts, accuracy
from rolecraft.failure_taxonomy.agreement.raters import RaterAgreement


@dataclass(frozen=True, slots=True)
class Row:
    """The agreement on one mode, or on several pooled.

    There are three readings of the cells that the prediction left open: scores are over what both
    sides decide; `open_as_no` takes what was not found as not there, as a reader of findings
    does; `open_as_wrong` counts each open cell as wrong, so that nothing is gained by not
    answering.
    """

    name: str
    counts: Counts
    unasked: int
    """Of the open cells, those about which the prediction says nothing at all."""
    intervals: Mapping[str, Interval | None]
    intervals_open_as_no: Mapping[str, Interval | None]
    baselines: Mapping[str, Counts]
    """What trivial annotators would get, that answer all of gold's cells."""

    def score(self, name: str) -> float | None:
        """`precision`, `recall`, `f1` or `kappa`; None where it is not defined."""
        return SCORES[name](self.counts)

    @property
    def open(self) -> int:
        """Gold's cells that the prediction leaves open."""
        return int(self.counts.n - self.counts.decided)

    @property
    def coverage(self) -> float | None:
        """Share of gold's cells that the prediction decides."""
        return self.counts.decided / self.counts.n if self.counts.n else None

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        c = self.counts
        return {
            "n": int(c.n),
            **{name: int(getattr(c, name)) for name in ("tp", "fp", "fn", "tn")},
            "unknown": self.open - self.unasked,
            "not_asked": self.unasked,
            "coverage": self.coverage,
            **_scores(c),
            "intervals": dict(self.intervals),
            "open_as_no": {
                **_scores(c.open_as_no()),
                "intervals": dict(self.intervals_open_as_no),
            },
            "open_as_wrong": _scores(c.open_as_wrong()),
            "baselines": {name: _scores(counts) for name, counts in self.baselines.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far a prediction agrees with gold."""

    gold: str
    """Who made the gold labels."""
    predicted: str
    """Who or what made the predicted ones."""
    traces: int
    """Traces that both labelled."""
    gold_only: list[str] = field(default_factory=list)
    """Gold traces without a prediction. They are not scored."""
    predicted_only: list[str] = field(default_factory=list)
    """Predicted traces that gold does not have, or that fit several of it."""
    by_last_part: list[tuple[str, str]] = field(default_factory=list)
    """Gold and predicted names that have only the file's name, or the id behind `#`, in common.

    They are scored; two different traces may be behind them.
    """
    rows: dict[str, Row]
    """By mode, those that gold decides in at least one trace."""
    verification: Row | None
    """`verification.absent` and `verification.weak` as one question."""
    micro: Row
    """All cells pooled."""
    macro: dict[str, float | None]
    """The mean of each score over the modes for which it is defined."""
    macro_intervals: dict[str, Interval | None]
    same_rows: list[list[str]] = field(default_factory=list)
    """Groups of gold traces with the same label rows, in which something is present."""
    labelled_twice: list[str] = field(default_factory=list)
    """Gold traces with more than one row by the same annotator, all alike; each counts once."""
    left_out: int = 0
    """Traces that were left out because an earlier one has the same label row."""
    raters: RaterAgreement | None = None
    attribution: Attribution | None = None
    ceiling: Ceiling | None = None
    calibration: Calibration | None = None
    resamples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """The agreement as plain data, with the fields of `rolecraft agreement --json`."""
        raters, calibration = self.raters, self.calibration
        return {
            "gold": self.gold,
            "predicted": self.predicted,
            "traces": self.traces,
            "gold_only": self.gold_only,
            "predicted_only": self.predicted_only,
            "by_last_part": [list(pair) for pair in self.by_last_part],
            "modes": {name: row.to_dict() for name, row in self.rows.items()},
            "any_verification": None if self.verification is None else self.verification.to_dict(),
            "micro": self.micro.to_dict(),
            "macro": {**self.macro, "intervals": self.macro_intervals},
            "same_rows": self.same_rows,
            "labelled_twice": self.labelled_twice,
            "left_out": self.left_out,
            "annotators": raters
            and {
                "names": list(raters.annotators),
                "traces": raters.traces,
                "fleiss": raters.fleiss,
                "by_mode": raters.by_mode,
                "pairs": [
                    {"annotators": list(pair), "kappa": value}
                    for pair, value in raters.pairs.items()
                ],
            },
            "attribution": _attribution(self.attribution, self.ceiling),
            "calibration": calibration
            and {
                "n": calibration.n,
                "without_confidence": calibration.without,
                "ece": calibration.ece,
                "bins": BINS,
                "risk_coverage": [list(point) for point in calibration.curve],
                "aurc": calibration.aurc,
            },
            "resamples": self.resamples,
            "seed": self.seed,
        }


def _scores(counts: Counts) -> dict[str, float | None]:
    return {name: score(counts) for name, score in SCORES.items()} | {"accuracy": accuracy(counts)}


def _attribution(said: Attribution | None, people: Ceiling | None) -> dict[str, Any] | None:
    if said is None:
        return None
    return {
        "agent": _share(said.agent),
        "step": _share(said.step),
        "step_within_1": _share(said.near),
        "agent_and_step": _share(said.both),
        "index_base": said.index_base,
        "step_in_the_other_base": _share(said.other_base),
        "unsaid": said.unsaid,
        "people": people
        and {
            "agent": _share(people.agent),
            "step": _share(people.step),
            "step_within_1": _share(people.near),
        },
    }


def _share(share: Share) -> dict[str, Any]:
    return {"right": share.hits, "n": share.n, "share": share.value, "interval": share.interval}
