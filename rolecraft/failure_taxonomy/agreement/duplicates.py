"""Label rows that occur more than once.

Replicated rows have spoilt published data sets of failure labels: half of one file had the labels
of other traces. Two traces with the same failures are possible, so they are named, not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES


def same_rows(traces: Mapping[str, Mapping[str, Labels]]) -> list[list[str]]:
    """Groups of traces about which all annotators say the same, the largest first.

    Rows in which nothing is present are left out: clean traces look alike.
    """
    groups: dict[object, list[str]] = {}
    for trace, rows in traces.items():
        matrix = label_matrix(rows)
        if any("present" in verdicts for _, verdicts in matrix):
            groups.setdefault(matrix, []).append(trace)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


def labelled_twice(labels: Iterable[Labels]) -> list[str]:
    """The traces that have more than one label row by the same annotator."""
    rows = Counter((row.trace, row.annotator) for row in labels)
    return list(dict.fromkeys(trace for (trace, _), count in rows.items() if count > 1))


def distinct(traces: Mapping[str, Mapping[str, Labels]]) -> list[str]:
    """The traces without those whose label rows, clean ones too, an earlier trace has."""
    first: dict[object, str] = {}
    for trace, rows in traces.items():
        first.setdefault(label_matrix(rows), trace)
    return list(first.values())


def label_matrix(rows: Mapping[str, Labels]) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """The verdicts of all annotators about all modes of one trace."""
    return tuple((name, tuple(rows[name].verdict(mode) for mode in MODES)) for name in sorted(rows))
