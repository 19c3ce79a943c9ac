"""How many of the 14 modes were judged and by what: every summary says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Report


def coverage(reports: Sequence[Report]) -> str:
    """One sentence over all traces: the modes that were decided in at least one, and by what."""
    from rolecraft.failure_taxonomy import MODES

    by: dict[str, dict[str, None]] = {}
    for report in reports:
        for mode, sources in report.judged.items():
            by.setdefault(mode, {}).update(dict.fromkeys(sources))
    text = f"{len(by)} of the {len(MODES)} modes were judged"
    if len(reports) != 1:
        text += f" in at least one of {len(reports)} traces"
    if by:
        listed = [f"{mode} by {' and '.join(by[mode])}" for mode in MODES if mode in by]
        text += f": {'; '.join(listed)}"
    return f"{text}."


def counts(reports: Sequence[Report]) -> dict[str, int]:
    """For each mode that is present somewhere, the number of traces in which it is."""
    from rolecraft.failure_taxonomy import MODES

    found = Counter(mode for report in reports for mode in {f.mode for f in report.present})
    return {mode: found[mode] for mode in MODES if mode in found}
