"""The other direction of a candidate: the change that mends what it breaks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rolecraft.synthesis.candidates import Candidate, Edit, Read
from rolecraft.synthesis.edits import FilePatch, by_file

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def fix_patch(candidate: Candidate, read: Read) -> str:
    """The unified diff that mends the files with the bug; `git apply` takes it."""
    files = by_file(candidate.edits)
    broken = candidate.texts(read)
    return "".join(
        FilePatch(path, broken[path], _back(read(path), files[path])).text()
        for path in sorted(files)
    )


def _back(clean: str, edits: list[Edit]) -> list[Edit]:
    """The edits of the broken text that make the clean one of it."""
    found, moved = [], 0
    for edit in edits:
        start = edit.start + moved
        was = clean[edit.start : edit.end]
        found.append(Edit(edit.path, start, start + len(edit.text), was))
        moved += len(edit.text) - len(was)
    return found


@dataclass(frozen=True, slots=True)
class Size:
    """How many lines a unified diff adds and takes away."""

    added: int
    removed: int

    @property
    def lines(self) -> int:
        """The larger of the two: a line that is changed counts once."""
        return max(self.added, self.removed)


def size_of(patch: str) -> Size:
    """The size of a unified diff of text files."""
    added = removed = old = new = 0
    for line in patch.split("\n"):
        if old <= 0 and new <= 0:
            if found := _HUNK.match(line):
                old, new = (int(count) if count else 1 for count in found.groups())
        elif line.startswith("-"):
            removed, old = removed + 1, old - 1
        elif line.startswith("+"):
            added, new = added + 1, new - 1
        elif not line.startswith("\\"):
            old, new = old - 1, new - 1
    return Size(added, removed)
