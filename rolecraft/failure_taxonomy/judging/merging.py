"""One verdict for each mode, out of several windows, and then out of several samples.

Invariant: nothing is made `absent` by a lack of answers. A mode is absent only if everybody who
was asked about it, for every part of the trace, said so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from rolecraft.failure_taxonomy.modes import Stage, get_mode
from rolecraft.trajectories.events import FailureFinding

Said: TypeAlias = list[FailureFinding] | str
"""What an answer says about a mode: findings of one verdict, or why it says nothing."""

WHOLE = frozenset({"history_loss", "termination_unaware", "reset"})
"""Modes, beside those that are an absence, which only the whole of a trace shows for certain."""


def is_global(mode: str) -> bool:
    """True for a mode that a window of a long trace can only guess at."""
    return mode in WHOLE or get_mode(mode).absence


def is_of_the_end(mode: str) -> bool:
    """True for a mode that is an absence until the run is over: nothing was checked, say."""
    return get_mode(mode).absence and Stage.AFTER in get_mode(mode).stages


def verdict_of(said: Said) -> str:
    return "unknown" if isinstance(said, str) else said[0].verdict


def rows_of(said: Iterable[Said], verdict: str) -> list[FailureFinding]:
    """All findings with this verdict."""
    return [
        row
        for part in said
        if not isinstance(part, str) and part[0].verdict == verdict
        for row in part
    ]


def of_windows(mode: str, said: Sequence[Said]) -> Said:
    """What all windows together say.

    A failure seen in one window is in the trace. That something is missing up to the end is only
    seen from the end, and any window that saw the thing speaks against it.
    """
    verdicts = [verdict_of(part) for part in said]
    present = rows_of(said, "present")
    if present and is_of_the_end(mode) and len(said) > 1:
        if "absent" in verdicts or verdicts[-1] != "present":
            return "the windows of a long trace disagree"
        present = rows_of(said[-1:], "present")
    if present:
        return distinct(present)
    if all(verdict == "absent" for verdict in verdicts):
        return [replace(rows_of(said, "absent")[0], events=(), role="", quote="")]
    return _why(said) or "the judge could not tell"


def with_search(mode: str, merged: Said, found: Said, *, complete: bool) -> Said:
    """What windows and a search of the whole trace say about a global mode.

    The search settles what the windows left open and confirms what they say. Where they contradict
    each other, or some window had no answer and the search found nothing, nobody knows.
    """
    before, after = verdict_of(merged), verdict_of(found)
    if after == "unknown":
        return merged
    if before == "unknown":
        if after == "absent" and not complete:
            return merged
        return found
    if before != after:
        return f"the windows of a long trace say {before}, a search of the whole says {after}"
    if after == "absent" or is_of_the_end(mode):
        return found
    return distinct(rows_of([merged, found], "present"))


def of_samples(
    mode: str, said: Sequence[Said], *, agree: float, source: str
) -> tuple[list[FailureFinding], dict[str, int]]:
    """The verdict that at least the share `agree` of the samples has, and how they voted.

    With several samples an `absent` gets the share that has the verdict for its confidence, and
    the findings of a `present` the share that names their place: the same role, and at least one
    event that both name. Of these findings those stay whose place is named by at least the share
    `agree` of the samples that found the mode; if none is, those that most of them name.
    """
    count = Counter(map(verdict_of, said))
    votes = {verdict: count[verdict] for verdict in ("present", "absent", "unknown")}
    needed = Fraction(str(agree)) * len(said)
    for verdict in ("present", "absent"):
        if votes[verdict] and votes[verdict] >= needed:
            agreed = [part for part in said if verdict_of(part) == verdict]
            if verdict == "present":
                return _agreed(agreed, agree, samples=len(said)), votes
            row = rows_of(agreed, "absent")[0]
            if len(said) > 1:
                row = replace(row, confidence=votes[verdict] / len(said))
            return [row], votes
    reason = _why(said) or "the judge could not tell"
    if len(said) > 1:
        told = ", ".join(f"{number} {verdict}" for verdict, number in votes.items())
        reason = f"of {len(said)} samples {told}; {agree:.0%} have to agree"
        if not votes["present"] and not votes["absent"]:
            reason = _why(said) or reason
    return [FailureFinding(mode, "unknown", source=source, reason=reason)], votes


def _agreed(said: Sequence[Said], agree: float, *, samples: int) -> list[FailureFinding]:
    """Of samples that found a mode, the findings whose place enough of them name.

    What several samples say of one place is one finding, in the words of one of them.
    """
    parts = [part for part in said if not isinstance(part, str)]
    named: dict[tuple[str, int], set[int]] = {}
    for number, part in enumerate(parts):
        for row in part:
            for event in row.events:
                named.setdefault((row.role, event), set()).add(number)
    backed: list[tuple[int, int, FailureFinding]] = []
    for number, part in enumerate(parts):
        for row in part:
            by = set[int]().union(*(named[row.role, event] for event in row.events))
            backed.append((len(by), number, row))
    backed.sort(key=lambda each: (-each[0], each[1]))  # the place that most agree on first
    needed = min(Fraction(str(agree)) * len(parts), Fraction(backed[0][0]))
    owner: dict[tuple[str, int], int] = {}
    kept: list[FailureFinding] = []
    for backing, number, row in backed:
        places = [(row.role, event) for event in row.events]
        if backing < needed or any(owner.get(place, number) != number for place in places):
            continue
        owner |= dict.fromkeys(places, number)
        kept.append(row if samples == 1 else replace(row, confidence=backing / samples))
    return distinct(kept)


def distinct(rows: Sequence[FailureFinding]) -> list[FailureFinding]:
    """Without what was seen twice; in the order of events.

    Seen twice is what has the same first event, the same role, and a quote that is the other one's
    or a part of it. Two quotes of one event are two findings: a role may do a thing twice there.
    """
    kept: dict[tuple[int, str], list[FailureFinding]] = {}
    for row in rows:
        there = kept.setdefault((row.events[0], row.role), [])
        if not any(row.quote in other.quote or other.quote in row.quote for other in there):
            there.append(row)
    every = [row for there in kept.values() for row in there]
    return sorted(every, key=lambda row: row.events)


def _why(said: Sequence[Said]) -> str:
    """The first reason that is given for not knowing."""
    reasons: Mapping[str, None] = dict.fromkeys(
        part if isinstance(part, str) else part[0].reason
        for part in said
        if verdict_of(part) == "unknown"
    )
    return next(filter(None, reasons), "")
