"""Two sets of runs compared: which failure modes are more or less frequent, and is it chance?

For each mode an exact test of its counts: McNemar's where the same traces were played in both
sets (paired by name), Fisher's otherwise. The number of failures a trace is compared by Wilcoxon's
signed-rank test where there are pairs. P-values of the modes are corrected by Holm's procedure
over all modes that were tested; one that nobody found and nobody decided in either set is not.
Invariant: a trace in which a mode was not decided takes no part in the test of that mode, and is
counted as unknown; unless the caller asks for what was *found*, and so takes what was not decided
as not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.agreement.matching import match
from rolecraft.failure_taxonomy.distribution import Count
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES, get_mode
from rolecraft.failure_taxonomy.significance import (
    Significance,
    fisher_exact,
    holm,
    mcnemar_exact,
    wilcoxon_signed_rank,
)

Change = Literal["more", "fewer", "same", "unknown"]

LOST = 0.5
"""A mode is judged less if the share of the traces that decide it fell below so much of itself."""


@dataclass(slots=True)
class ModeChange:
    """One mode in both sets.

    `test` is None where no trace (or pair) has it decided in both, and where it was never denied;
    of what was found, where it was neither found nor decided in either set.
    """

    mode: str
    baseline: Count
    candidate: Count
    test: Significance | None = None
    adjusted: float | None = None
    """The p-value after Holm's correction."""
    only_baseline: int = 0
    """Pairs in which it is present in the baseline only."""
    only_candidate: int = 0
    pairs: int = 0
    """Pairs in which both are decided."""
    found: bool = False
    """True if what was not decided counted as not found."""

    @property
    def one_sided(self) -> bool:
        """True if it was found and never denied, in either set, though not always decided."""
        present = self.baseline.present + self.candidate.present
        unknown = self.baseline.unknown + self.candidate.unknown
        return bool(present and unknown and not self.baseline.absent + self.candidate.absent)

    @property
    def judged_less(self) -> bool:
        """True if fewer than half as many of the traces decide it as in the baseline.

        The test then rests on what is left, and may miss an increase. A mode that its annotators
        can only find is decided where it occurs: to be found less is no loss.
        """
        before, after = self.baseline, self.candidate
        only_found = before.one_sided or (self.found and not before.absent + after.absent)
        if not before.judged or only_found:
            return False
        return after.judged * before.total < LOST * before.judged * after.total

    @property
    def change(self) -> Change:
        """What happened to its frequency, significant or not."""
        if self.test is None:
            return "unknown"
        if self.pairs:
            before, after = self.only_baseline, self.only_candidate
            return "more" if after > before else "fewer" if after < before else "same"
        # Cross-multiplied, so that nothing is rounded. In sets of what was found, of all traces.
        left = self.baseline.present * self._of(self.candidate)
        right = self.candidate.present * self._of(self.baseline)
        return "more" if right > left else "fewer" if right < left else "same"

    def _of(self, count: Count) -> int:
        return count.total if self.found else count.judged

    def significant(self, alpha: float) -> bool:
        """True if the corrected p-value is at most `alpha`."""
        return self.adjusted is not None and self.adjusted <= alpha

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "mode": self.mode,
            "baseline": self.baseline.to_dict(),
            "candidate": self.candidate.to_dict(),
            "change": self.change,
        }
        if self.test is not None:
            row |= {"test": self.test.test, "n": self.test.n, "p": self.test.p}
            row["p_holm"] = self.adjusted
        if self.pairs:
            row["pairs"] = self.pairs
            row["only_baseline"], row["only_candidate"] = self.only_baseline, self.only_candidate
        return row


@dataclass(slots=True)
class Comparison:
    """Two sets of runs compared."""

    traces: tuple[int, int]
    paired: bool
    modes: list[ModeChange]
    tested: int
    """How many modes the correction is over."""
    failures: tuple[float, float] | None = None
    """Mean number of failures a pair, over the modes that were decided in both."""
    failures_test: Significance | None = None
    judges: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    found: bool = False
    """True if what was not decided counted as not found."""
    unpaired: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """Traces of each set that have no partner, and are left out of paired tests."""

    @property
    def one_sided(self) -> list[str]:
        """Modes that were found and never denied: only `found=True` can compare them."""
        return [row.mode for row in self.modes if row.one_sided]

    @property
    def judged_less(self) -> list[str]:
        """Modes that the candidate decides in fewer than half as many of its traces."""
        return [row.mode for row in self.modes if row.judged_less]

    def increases(self, alpha: float = 0.05) -> list[ModeChange]:
        """The modes that became significantly more frequent."""
        return [row for row in self.modes if row.change == "more" and row.significant(alpha)]

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the line of `rolecraft compare --json`."""
        line: dict[str, Any] = {
            "traces": {"baseline": self.traces[0], "candidate": self.traces[1]},
            "paired": self.paired,
            "judged_by": {"baseline": list(self.judges[0]), "candidate": list(self.judges[1])},
            "unknown_counts_as": "not found" if self.found else "undecided",
            "correction": f"Holm over {self.tested} mode{'' if self.tested == 1 else 's'}",
            "judged_less": self.judged_less,
            "modes": [row.to_dict() for row in self.modes],
        }
        if self.failures is not None and self.failures_test is not None:
            line["failures"] = {
                "baseline": self.failures[0],
                "candidate": self.failures[1],
                "test": self.failures_test.test,
                "n": self.failures_test.n,
                "p": self.failures_test.p,
            }
        if any(self.unpaired):
            line["unpaired"] = {"baseline": self.unpaired[0], "candidate": self.unpaired[1]}
        return line


def compare(
    baseline: Sequence[Labels],
    candidate: Sequence[Labels],
    *,
    modes: Iterable[str] | None = None,
    paired: bool | None = None,
    found: bool = False,
) -> Comparison:
    """Compare two sets of labels.

    `modes` are those that are tested, and over which is corrected; all of them unless given.
    `paired` says whether traces of one name are the same task played twice; without it they are
    if every trace has a partner of its name. With `found`, what was not decided counts as not
    found: for annotators that can only find, and only if the same one labelled both sets.

    Raises `UsageError` for an empty set, for a trace that is in a set twice, and where pairs are
    asked for and there are none; `UnknownName` for a mode that there is not.
    """
    if not baseline or not candidate:
        raise UsageError("A comparison wants traces on both sides.")
    for side in (baseline, candidate):
        trace, times = Counter(labels.trace for labels in side).most_common(1)[0]
        if times > 1:  # the same failure would count twice, and only one of them in a pair
            raise UsageError(
                f"Trace {trace!r} has {times} rows of labels in one set, and takes one. Of several "
                "annotators, `majority` (`agreement.raters`) says what most of them say."
            )
    wanted = list(MODES) if modes is None else [get_mode(mode).id for mode in modes]
    matches = match([row.trace for row in baseline], [row.trace for row in candidate])
    if paired is None:
        paired = not matches.gold_only and not matches.predicted_only
    elif paired and not matches.pairs:
        raise UsageError(
            "Pairs were asked for, and no trace of the one set has the name of one of the other: "
            f"{baseline[0].trace!r} and {candidate[0].trace!r}, for instance."
        )
    rows = [
        ModeChange(mode, _count(baseline, mode), _count(candidate, mode), found=found)
        for mode in wanted
    ]
    result = Comparison(
        (len(baseline), len(candidate)),
        paired,
        rows,
        0,
        judges=(_judges(baseline), _judges(candidate)),
        found=found,
    )
    if paired:
        by_name = {row.trace: row for row in baseline}, {row.trace: row for row in candidate}
        pairs = [(by_name[0][left], by_name[1][right]) for left, right in matches.pairs.items()]
        result.unpaired = (matches.gold_only, matches.predicted_only)
        for row in rows:
            if _testable(row):
                _test_pairs(row, pairs, found)
        _test_failures(result, pairs, wanted, found)
    else:
        for row in rows:
            if _testable(row):
                _test_sets(row, found)
    tested = [row for row in rows if row.test is not None]
    result.tested = len(tested)
    corrected = holm([row.test.p for row in tested if row.test is not None])
    for row, adjusted in zip(tested, corrected, strict=True):
        row.adjusted = adjusted
    return result


def _testable(row: ModeChange) -> bool:
    """False for a mode that only `found` can compare, and for one that nobody looked at.

    The latter would have p = 1 whatever happened, and only weaken what is said of the others.
    """
    if not row.found:
        return not row.one_sided
    return bool(row.baseline.judged or row.candidate.judged)


def _count(labels: Sequence[Labels], mode: str) -> Count:
    count = Count()
    for row in labels:
        verdict = row.verdict(mode) or "unknown"
        setattr(count, verdict, getattr(count, verdict) + 1)
    return count


def _judges(labels: Sequence[Labels]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.annotator or "unnamed" for row in labels))


def _verdict(labels: Labels, mode: str, found: bool) -> bool | None:
    """Whether the mode is present; None if that was not decided."""
    verdict = labels.verdict(mode)
    if verdict in (None, "unknown"):
        return False if found else None
    return verdict == "present"


def _decided(
    pair: tuple[Labels, Labels], modes: Iterable[str], found: bool
) -> list[tuple[bool, bool]]:
    """Of the modes that both of a pair have decided, whether they are present in each."""
    both = ((_verdict(pair[0], mode, found), _verdict(pair[1], mode, found)) for mode in modes)
    return [(left, right) for left, right in both if left is not None and right is not None]


def _test_pairs(row: ModeChange, pairs: Sequence[tuple[Labels, Labels]], found: bool) -> None:
    decided = [each for pair in pairs for each in _decided(pair, [row.mode], found)]
    row.pairs = len(decided)
    row.only_baseline = sum(before and not after for before, after in decided)
    row.only_candidate = sum(after and not before for before, after in decided)
    if decided:
        row.test = mcnemar_exact(row.only_baseline, row.only_candidate)


def _test_sets(row: ModeChange, found: bool) -> None:
    before, after = row.baseline, row.candidate
    if found:
        row.test = fisher_exact(
            (before.present, before.total - before.present),
            (after.present, after.total - after.present),
        )
    elif before.judged and after.judged:
        row.test = fisher_exact((before.present, before.absent), (after.present, after.absent))


def _test_failures(
    result: Comparison,
    pairs: Sequence[tuple[Labels, Labels]],
    modes: Sequence[str],
    found: bool,
) -> None:
    """The number of failures of each pair, over the modes that both have decided."""
    decided = [each for pair in pairs if (each := _decided(pair, modes, found))]
    if decided:
        counts = [(sum(a for a, _ in each), sum(b for _, b in each)) for each in decided]
        means = [sum(pair[side] for pair in counts) / len(counts) for side in (0, 1)]
        result.failures = (means[0], means[1])
        result.failures_test = wilcoxon_signed_rank(after - before for before, after in counts)
