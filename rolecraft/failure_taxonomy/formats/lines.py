"""Accounting: to which part of a trace each line, or each element, of a file went.

Invariant: every line (of a log) or element (of a JSON file: a field of an object, an item of its
list of turns) belongs to exactly one part, so the parts of an account add up to its total.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

Part = Literal[
    "events",  # what somebody said or did: it is in an event
    "header",  # about the run: banners, configuration, costs; some of it is in the header
    "labels",  # what the file says about failures or the outcome: in `about["labels"]` alone
    "blank",  # empty lines outside of events
    "unsegmented",  # nobody is known to have said it: in an event without a role, or lost
]
PARTS: tuple[Part, ...] = get_args(Part)


def account(unit: Literal["line", "element"], **parts: int) -> dict[str, Any]:
    """The account that an importer puts into `about["accounting"]`; parts not named are 0."""
    assert parts.keys() <= set(PARTS)
    counts: dict[str, int] = {part: parts.get(part, 0) for part in PARTS}
    return {"unit": unit, "total": sum(counts.values()), **counts}


def merged(first: dict[str, Any], **more: int) -> dict[str, Any]:
    """An account with so many more units in some parts."""
    counts = {part: first[part] + more.get(part, 0) for part in PARTS}
    return account(first["unit"], **counts)


class Lines:
    """The lines of a text, 0-based here, and the part that each of them went to."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        if self.lines[-1] == "":
            self.lines.pop()
        self._parts: list[Part | None] = [None] * len(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[str]:
        """The lines without their ends (`\\n`, or `\\r\\n`)."""
        return (line.rstrip("\r") for line in self.lines)

    def text(self, first: int, end: int) -> str:
        """The lines from `first` up to, not including, `end`."""
        return "\n".join(line.rstrip("\r") for line in self.lines[first:end])

    def take(self, part: Part, first: int, end: int) -> None:
        """Say where the lines from `first` up to, not including, `end` went."""
        self._parts[first:end] = [part] * (end - first)

    def is_free(self, at: int) -> bool:
        """True for a line that went nowhere yet."""
        return self._parts[at] is None

    def free(self) -> Iterator[tuple[int, int]]:
        """Stretches of lines that went nowhere yet, without the blank lines at their edges."""
        start: int | None = None
        last = 0
        for at, (line, part) in enumerate(zip(self.lines, self._parts, strict=True)):
            if part is not None:
                if start is not None:
                    yield start, last
                start = None
            elif line.strip():
                start = at if start is None else start
                last = at + 1
        if start is not None:
            yield start, last

    def account(self) -> dict[str, Any]:
        """The account. Lines that were not taken are blank, or were not segmented."""
        counts: dict[str, int] = dict.fromkeys(PARTS, 0)
        for line, part in zip(self.lines, self._parts, strict=True):
            counts[part or ("unsegmented" if line.strip() else "blank")] += 1
        return account("line", **counts)
