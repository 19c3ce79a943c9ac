"""What a text gives away of a solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LeakKind = Literal[
    "entity",  # the name of what was changed, or a part of its qualified name
    "file",  # the file or module that was changed
    "name",  # a name that is nowhere but in the changed lines
    "patch",  # a run of the changed lines, or much of them
    "bug-type",  # what kind of bug it is, or that one was planted
    "test",  # the name or file of a test
    "traceback",  # a file with a line number
]
"""What was given away."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Something in a text that tells of the solution."""

    kind: LeakKind
    what: str
    """The words of the text."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what!r}"
