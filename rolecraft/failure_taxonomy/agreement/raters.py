"""Several annotators of the same traces: who they are, what they agree on, how far they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.agreement.counts import Counts, add, kappa
from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.trajectories.events import FailureFinding, FindingVerdict


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far the annotators of one set of labels agree with each other."""

    annotators: tuple[str, ...]
    traces: int
    """Traces that at least two of them labelled."""
    fleiss: float | None
    """Fleiss' kappa over all modes together."""
    by_mode: dict[str, float | None]
    """Fleiss' kappa of each mode."""
    pairs: dict[tuple[str, str], float | None]
    """Cohen's kappa of each two of them over all modes together."""


def by_trace(labels: Iterable[Labels]) -> dict[str, dict[str, Labels]]:
    """Labels by trace and annotator.

    Raises `UsageError` if one annotator says different things about the same trace. The same
    said twice counts once.
    """
    found: dict[str, dict[str, Labels]] = {}
    for row in labels:
        before = found.setdefault(row.trace, {}).setdefault(row.annotator, row)
        if before is not row and _said(before) != _said(row):
            raise UsageError(
                f"{row.annotator or 'An annotator without a name'!r} labelled the trace "
                f"{row.trace!r} twice, and differently. Keep one of the two, or give them "
                "`annotator` names of their own."
            )
    return found


def rater_agreement(traces: Mapping[str, Mapping[str, Labels]]) -> RaterAgreement | None:
    """How far the annotators agree; None if no trace has two."""
    several = [list(rows.values()) for rows in traces.values() if len(rows) > 1]
    if not several:
        return None
    names = tuple(dict.fromkeys(row.annotator for rows in several for row in rows))
    items = {mode: [_votes(rows, mode) for rows in several] for mode in MODES}
    pairs = {}
    for one, other in combinations(names, 2):
        both = [
            (rows[one], rows[other]) for rows in traces.values() if one in rows and other in rows
        ]
        pairs[one, other] = kappa(add(compared(a, b, mode) for a, b in both for mode in MODES))
    return RaterAgreement(
        annotators=names,
        traces=len(several),
        fleiss=fleiss([votes for each in items.values() for votes in each]),
        by_mode={mode: fleiss(votes) for mode, votes in items.items() if any(map(any, votes))},
        pairs=pairs,
    )


def fleiss(items: Iterable[tuple[int, int]]) -> float | None:
    """Fleiss' kappa (1971) of items that are (votes for present, votes for absent).

    The mean share of agreeing pairs of raters, beyond what chance gives. Items with fewer than
    two votes are left out; where the number of raters differs, each item counts the same and the
    share of present is over all votes. None if all votes are the same.
    """
    rated = [votes for votes in items if sum(votes) > 1]
    if not rated:
        return None
    total = sum(map(sum, rated))
    observed = sum(
        sum(vote * (vote - 1) for vote in votes) / (sum(votes) * (sum(votes) - 1))
        for votes in rated
    ) / len(rated)
    by_chance = sum((sum(column) / total) ** 2 for column in zip(*rated, strict=True))
    return (observed - by_chance) / (1 - by_chance) if by_chance < 1 else None


def compared(gold: Labels, predicted: Labels, mode: str) -> Counts:
    """The counts of one trace: one 1, or none if gold does not decide the mode."""
    return cell(gold.verdict(mode), predicted.verdict(mode))


def cell(truth: FindingVerdict | None, said: FindingVerdict | None) -> Counts:
    """The counts of one verdict about one mode of one trace."""
    if truth == "present":
        return {"present": _TP, "absent": _FN}.get(said or "", _OPEN_PRESENT)
    if truth == "absent":
        return {"present": _FP, "absent": _TN}.get(said or "", _OPEN_ABSENT)
    return _NOTHING


_TP, _FP, _FN, _TN = Counts(tp=1), Counts(fp=1), Counts(fn=1), Counts(tn=1)
_OPEN_PRESENT, _OPEN_ABSENT, _NOTHING = Counts(open_present=1), Counts(open_absent=1), Counts()


def majority(rows: Sequence[Labels]) -> Labels:
    """What most annotators of a trace say.

    Per mode, of those who say present or absent; a tie is `unknown`. Role and step of the
    decisive failure likewise, each by itself; a tie leaves it open.
    """
    if len(rows) == 1:
        return rows[0]
    findings = []
    for mode in MODES:
        verdicts = [verdict for row in rows if (verdict := row.verdict(mode))]
        if verdicts:
            known = [verdict for verdict in verdicts if verdict != "unknown"]
            findings.append(FailureFinding(mode, _most(known) or "unknown"))
    blames = [row.decisive for row in rows if row.decisive is not None]
    role = _most([blame.role for blame in blames if blame.role])
    step = _most([blame.step for blame in blames if blame.step is not None])
    return Labels(
        trace=rows[0].trace,
        annotator=f"majority of {', '.join(row.annotator or 'unnamed' for row in rows)}",
        findings=tuple(findings),
        decisive=Blame(role or "", step) if role or step is not None else None,
        outcome=_most([row.outcome for row in rows if row.outcome is not None]),
    )


_T = TypeVar("_T")


def _most(said: Sequence[_T]) -> _T | None:
    ranked = Counter(said).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def _votes(rows: Iterable[Labels], mode: str) -> tuple[int, int]:
    verdicts = [row.verdict(mode) for row in rows]
    return verdicts.count("present"), verdicts.count("absent")


def _said(row: Labels) -> tuple[object, ...]:
    return {mode: row.verdict(mode) for mode in MODES}, row.decisive, row.outcome
