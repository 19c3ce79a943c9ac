"""How failures are spread over many traces: modes, categories, stages, groups, and what goes
together.

Invariant: a share is always of the traces in which the mode was decided, and how many were not is
kept beside it: nothing that nobody judged counts as absent. Where some annotators decide a mode and
others only ever find it, the finds of the latter enter no share: they say nothing of the traces in
which there was nothing to find. How many they are is kept beside it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.distribution_input import LabelledTrace
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES, Category, Stage


@dataclass(slots=True)
class Count:
    """In how many traces a mode is present, absent, or not decided."""

    present: int = 0
    absent: int = 0
    unknown: int = 0
    """Asked about without an answer, or not asked about."""
    added: int = 0
    """Of those present, how many were found by annotators that never deny it, though others do."""

    @property
    def judged(self) -> int:
        return self.present + self.absent

    @property
    def total(self) -> int:
        return self.judged + self.unknown

    @property
    def rate(self) -> float | None:
        """Share of the traces in which it was decided; None if it was in none."""
        present, judged = self.decided
        return present / judged if judged else None

    @property
    def decided(self) -> tuple[int, int]:
        """In how many traces it is present, of how many: by those who can also deny it."""
        return self.present - self.added, self.judged - self.added

    @property
    def found(self) -> float:
        """Share of all traces in which it was found: the rate is at least that."""
        return self.present / self.total if self.total else 0.0

    @property
    def one_sided(self) -> bool:
        """True if it was found and never denied, though it was not always decided.

        Some detectors can only find. Then `rate` is 1 and says nothing; `found` does.
        """
        return bool(self.present and self.unknown and not self.absent)

    @property
    def unknown_share(self) -> float:
        return self.unknown / self.total if self.total else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "present": self.present,
            "absent": self.absent,
            "unknown": self.unknown,
            "added": self.added,
            "rate": self.rate,
            "found": self.found,
        }


@dataclass(slots=True)
class Group:
    """The counts of a group of traces. A failure is a mode that is present in a trace."""

    name: str
    traces: int
    modes: dict[str, Count]

    @property
    def failures(self) -> int:
        return sum(count.present for count in self.modes.values())

    @property
    def categories(self) -> dict[Category, int]:
        """Failures by category."""
        found = dict.fromkeys(Category, 0)
        for mode, count in self.modes.items():
            found[MODES[mode].category] += count.present
        return found

    @property
    def unknown_share(self) -> float:
        """Share of all verdicts that nobody gave."""
        total = sum(count.total for count in self.modes.values())
        return sum(count.unknown for count in self.modes.values()) / total if total else 0.0

    def share(self, mode: str) -> float | None:
        """A mode's share of all failures of the group, as in the study's figures."""
        return self.modes[mode].present / self.failures if self.failures else None

    def stage(self, stage: Stage) -> int:
        """Failures of modes that can arise in this stage; a mode may belong to several."""
        return sum(
            count.present for mode, count in self.modes.items() if stage in MODES[mode].stages
        )


@dataclass(slots=True)
class Correlation:
    """How modes (or categories) go together: the phi coefficient of each two.

    None where fewer than three traces have both decided, or one of them never varies among these.
    """

    names: list[str]
    values: dict[tuple[str, str], float | None]
    traces: dict[tuple[str, str], int]
    """Traces in which both were decided."""


@dataclass(slots=True)
class Distribution:
    """Failures over many traces."""

    whole: Group
    groups: list[Group]
    by: str
    judges: dict[str, int]
    """Who labelled how many traces."""
    sources: dict[str, int] = field(default_factory=dict)
    """What decided verdicts (detectors, judges), and how many."""
    modes: Correlation | None = None
    categories: Correlation | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the line of `rolecraft report --json`."""
        return {
            "traces": self.whole.traces,
            "judged_by": self.judges,
            "sources": self.sources,
            "unknown_share": self.whole.unknown_share,
            "modes": {mode: count.to_dict() for mode, count in self.whole.modes.items()},
            "categories": {str(name): n for name, n in self.whole.categories.items()},
            "stages": {str(stage): self.whole.stage(stage) for stage in Stage},
            "by": self.by,
            "groups": {
                group.name: {
                    "traces": group.traces,
                    "failures": group.failures,
                    "modes": {mode: count.to_dict() for mode, count in group.modes.items()},
                }
                for group in self.groups
            },
        }


def distribution(traces: Sequence[LabelledTrace], *, by: str = "system") -> Distribution:
    """Count the failures of `traces`, as a whole and by a grouping (see `GROUPINGS`)."""
    groups: dict[str, list[Labels]] = {}
    judges: dict[str, int] = {}
    sources: dict[str, int] = {}
    for trace in traces:
        groups.setdefault(trace.group(by), []).append(trace.labels)
        who = trace.labels.annotator or "unnamed"
        judges[who] = judges.get(who, 0) + 1
        for source in {(f.mode, f.source) for f in trace.labels.findings if f.verdict != "unknown"}:
            name = source[1] or who
            sources[name] = sources.get(name, 0) + 1
    labels = [trace.labels for trace in traces]
    finders = only_finding(labels)
    return Distribution(
        _group("all", labels, finders),
        [_group(name, rows, finders) for name, rows in sorted(groups.items(), key=_largest)],
        by,
        judges,
        dict(sorted(sources.items(), key=lambda pair: -pair[1])),
        correlate_modes(labels),
        correlate_categories(labels),
    )


def only_finding(labels: Sequence[Labels]) -> frozenset[tuple[str, str]]:
    """Annotators, each with a mode that they find and never deny, while another one decides it.

    Detectors count as such if they never deny it, anybody else if they also left it open.
    """
    counts: dict[tuple[str, str], Count] = {}
    rules: dict[tuple[str, str], bool] = {}
    for row in labels:
        for mode in MODES:
            key = row.annotator, mode
            _add(counts.setdefault(key, Count()), row.verdict(mode))
        for finding in row.findings:
            if finding.verdict == "present":
                key = row.annotator, finding.mode
                by_rule = finding.source.startswith("detector.")
                rules[key] = rules.get(key, True) and by_rule
    finders = {
        key
        for key, count in counts.items()
        if count.present and not count.absent and (count.unknown or rules[key])
    }
    decided = {key[1] for key, count in counts.items() if count.judged and key not in finders}
    return frozenset(key for key in finders if key[1] in decided)


def _add(count: Count, verdict: str | None) -> None:
    match verdict:
        case "present":
            count.present += 1
        case "absent":
            count.absent += 1
        case _:
            count.unknown += 1


def _largest(pair: tuple[str, list[Labels]]) -> tuple[int, str]:
    return -len(pair[1]), pair[0]


def _group(name: str, labels: Sequence[Labels], finders: frozenset[tuple[str, str]]) -> Group:
    counts = {mode: Count() for mode in MODES}
    for row in labels:
        for mode, count in counts.items():
            verdict = row.verdict(mode)
            _add(count, verdict)
            count.added += verdict == "present" and (row.annotator, mode) in finders
    return Group(name, len(labels), counts)


def correlate_modes(labels: Sequence[Labels]) -> Correlation:
    """How the modes go together over traces."""
    decided = {mode: [_decided(row, mode) for row in labels] for mode in MODES}
    return _correlation(decided)


def correlate_categories(labels: Sequence[Labels]) -> Correlation:
    """How the categories go together, by the modes that were decided in any trace.

    A category is present with any of these, absent if all of them are, and undecided otherwise.
    """
    decided: dict[str, list[bool | None]] = {}
    known = {mode for mode in MODES if any(_decided(row, mode) is not None for row in labels)}
    for category in Category:
        modes = [mode for mode in MODES if MODES[mode].category is category and mode in known]
        decided[str(category)] = [_any(_decided(row, mode) for mode in modes) for row in labels]
    return _correlation(decided)


def _decided(labels: Labels, mode: str) -> bool | None:
    verdict = labels.verdict(mode)
    return None if verdict in (None, "unknown") else verdict == "present"


def _any(verdicts: Iterable[bool | None]) -> bool | None:
    listed = list(verdicts)
    if True in listed:
        return True
    return None if None in listed or not listed else False


def _correlation(decided: dict[str, list[bool | None]]) -> Correlation:
    names = list(decided)
    values: dict[tuple[str, str], float | None] = {}
    traces: dict[tuple[str, str], int] = {}
    for one in names:
        for other in names:
            both = [
                (a, b)
                for a, b in zip(decided[one], decided[other], strict=True)
                if a is not None and b is not None
            ]
            values[one, other] = phi(both)
            traces[one, other] = len(both)
    return Correlation(names, values, traces)


def phi(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """The phi coefficient (Pearson's correlation of yes and no); None below three pairs, and where
    one of the two never varies."""
    if len(pairs) < 3:
        return None
    n11 = sum(a and b for a, b in pairs)
    n1, m1, n = sum(a for a, _ in pairs), sum(b for _, b in pairs), len(pairs)
    spread = n1 * (n - n1) * m1 * (n - m1)
    return (n * n11 - n1 * m1) / math.sqrt(spread) if spread else None
