"""What edits make of a file: its text, its unified diff, the lines that they touch.

Lines of a diff end at `\\n` only, as git has it; lines of code end where Python ends them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.synthesis.candidates import Edit

CONTEXT = 3
"""Lines around a change in a diff."""
PYTHON_LINE_END = re.compile(r"\r\n?|\n")
"""A form feed and Unicode's separators end no line of code, although `str.splitlines` says so."""
MARK = "\ufeff"
"""What some editors begin a UTF-8 file with. It belongs to the file, and Python reads past it."""


def python_of(text: str) -> str:
    """The text of a Python file as parsers take it: without the mark. Its lines stay the same."""
    return text.removeprefix(MARK)


class Change(NamedTuple):
    """The lines from number `first` up to `last` (from 0) become others."""

    first: int
    last: int
    new: list[str]


def by_file(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """The edits of each file in the order of the file, and the files in theirs."""
    files: dict[str, list[Edit]] = {}
    for edit in edits:
        files.setdefault(edit.path, []).append(edit)
    return {path: sorted(of, key=lambda edit: (edit.start, edit.end)) for path, of in files.items()}


def apply_edits(path: str, old: str, edits: Sequence[Edit]) -> str:
    """The text with the edits of this file, given in its order. Raises `UsageError` if they
    overlap or lie outside of it.
    """
    parts, place = [], 0
    for edit in edits:
        if not place <= edit.start <= edit.end <= len(old):
            raise UsageError(
                f"An edit of the characters {edit.start} to {edit.end} does not fit `{path}`, "
                f"which has {len(old)}, of which {place} come before it: it was made for "
                f"another version of the file."
            )
        parts += [old[place : edit.start], edit.text]
        place = edit.end
    return "".join([*parts, old[place:]])


def changed_lines(path: str, old: str, edits: Sequence[Edit]) -> list[int]:
    """The numbers (from 1) of the lines of code that change or that an insertion stands between.

    Raises as `apply_edits` does.
    """
    apply_edits(path, old, edits)
    starts = line_starts(old)
    found: set[int] = set()
    for edit in edits:
        start, end = _without_equal_lines(old, edit)
        first = bisect_right(starts, start)
        if start < end:
            found.update(range(first, bisect_right(starts, end - 1) + 1))
        elif start == starts[first - 1]:
            found.update((first - 1, first))
        else:
            found.add(first)
    count = len(starts) - (starts[-1] == len(old))  # nothing is in a last line that is empty
    return sorted(number for number in found if 1 <= number <= count)


@lru_cache(maxsize=16)
def line_starts(text: str) -> tuple[int, ...]:
    """Where each line of code begins; the last one may be empty."""
    return (0, *(end.end() for end in PYTHON_LINE_END.finditer(text)))


def _without_equal_lines(old: str, edit: Edit) -> tuple[int, int]:
    """What the edit takes away, less the whole lines at its ends that it puts back."""
    was, now = code_lines(old[edit.start : edit.end]), code_lines(edit.text)
    first, last = _equal_ends(was, now)
    start = edit.start + sum(map(len, was[:first]))
    return start, edit.end - sum(map(len, was[len(was) - last :]))


def code_lines(text: str) -> list[str]:
    """The lines of code, with their ends."""
    return [
        text[start:end] for start, end in pairwise((*line_starts(text), len(text))) if end > start
    ]


class FilePatch:
    """The unified diff of one file. Raises as `apply_edits` does."""

    def __init__(self, path: str, old: str, edits: Sequence[Edit]) -> None:
        self._path, self._is_new = path, not old
        apply_edits(path, old, edits)
        self._lines = git_lines(old)
        self._changes = [
            change
            for change in _changes(self._lines, old, edits)
            if change.first < change.last or change.new
        ]

    def text(self) -> str:
        """Empty where nothing changes."""
        if not self._changes:
            return ""
        old, new = _quoted(f"a/{self._path}"), _quoted(f"b/{self._path}")
        tab = "\t" if " " in self._path else ""  # where the name ends, as git writes it
        header = "" if self._is_new else f"diff --git {old} {new}\n"
        hunks, moved = [], 0
        for group in self._groups():
            hunks.append(self._hunk(group, moved))
            moved += sum(len(change.new) - (change.last - change.first) for change in group)
        return f"{header}--- {old}{tab}\n+++ {new}{tab}\n{''.join(hunks)}"

    def _groups(self) -> list[list[Change]]:
        """The changes that share a hunk: their contexts touch."""
        groups: list[list[Change]] = []
        for change in self._changes:
            if groups and change.first - groups[-1][-1].last <= 2 * CONTEXT:
                groups[-1].append(change)
            else:
                groups.append([change])
        return groups

    def _hunk(self, group: list[Change], moved: int) -> str:
        first = max(group[0].first - CONTEXT, 0)
        last = min(group[-1].last + CONTEXT, len(self._lines))
        said, place, count = [], first, last - first
        for change in group:
            said += [f" {line}" for line in self._lines[place : change.first]]
            said += [f"-{line}" for line in self._lines[change.first : change.last]]
            said += [f"+{line}" for line in change.new]
            place = change.last
            count += len(change.new) - (change.last - change.first)
        said += [f" {line}" for line in self._lines[place:last]]
        body = "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in said
        )
        return f"@@ -{_range(first, last - first)} +{_range(first + moved, count)} @@\n{body}"


def git_lines(text: str) -> list[str]:
    """Its lines as git counts them, with their ends."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _changes(lines: list[str], old: str, edits: Sequence[Edit]) -> list[Change]:
    """The lines that the edits touch, less those at their ends that stay as they are."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    groups: list[tuple[int, int, list[Edit]]] = []
    for edit in edits:
        first = min(bisect_right(starts, edit.start) - 1, max(len(lines) - 1, 0))
        last = min(bisect_right(starts, edit.end), len(lines))
        if groups and first <= groups[-1][1]:
            first, _, of = groups.pop()
            groups.append((first, last, [*of, edit]))
        else:
            groups.append((first, last, [edit]))
    found = []
    for first, last, of in groups:
        parts, place = [], starts[first]
        for edit in of:
            parts += [old[place : edit.start], edit.text]
            place = edit.end
        new = git_lines("".join([*parts, old[place : starts[last]]]))
        head, tail = _equal_ends(lines[first:last], new)
        found.append(Change(first + head, last - tail, new[head : len(new) - tail]))
    return found


def _equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many entries at the beginning are the same, and how many of the others at the end."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _range(first: int, count: int) -> str:
    """Of a hunk: where it begins (of none, the line before it) and how many lines it has."""
    start = first + 1 if count else first
    return str(start) if count == 1 else f"{start},{count}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quoted(path: str) -> str:
    """A path as git writes it: in quotes where a character would end it."""
    if not any(char in _ESCAPES or ord(char) < 32 for char in path):
        return path
    return '"' + "".join(_ESCAPES.get(char, char) for char in path) + '"'
