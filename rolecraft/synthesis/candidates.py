"""A candidate: a change of a project's clean code that may be a bug that tests notice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecraft.synthesis.edits import (
    FilePatch,
    apply_edits,
    by_file,
    changed_lines,
)

Read = Callable[[str], str]
"""The text of a clean file by its path, relative to the project; empty for one that is not."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from `start` up to `end` of a clean file become `text`.

    Offsets are of the text as Python reads it (UTF-8 without translation of line ends). Edits of
    one file do not overlap. For a file that is not there yet, `start` and `end` are 0.
    """

    path: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One change, not yet validated.

    `texts`, `patch` and `lines` raise `UsageError` for edits that overlap or lie outside their
    file, as those of another version of the project may.
    """

    id: str
    """`NAME__MODIFIER__HASH8`, the hash over `edits`: the same change has the same id."""
    modifier: str
    """What made it: the name of a procedural modifier, `modify`, `rewrite`, `combine`, `mirror`."""
    entity: str
    """What is changed, `path::qualified.name`; several are joined by a space."""
    edits: tuple[Edit, ...]
    key: str
    """A digest of the changed entities' trees: candidates with the same key do the same."""
    note: str = ""
    """What was done, for people: `` `<` became `<=` ``. Never shown to whoever solves the task."""
    usd: float | None = None
    """What a model took for it, in US dollars; None if none was asked or the price is unknown."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else there is to know, as JSON: the model, the candidates it was combined of, …"""

    def texts(self, read: Read) -> dict[str, str]:
        """The changed files, as they are with the bug."""
        return {path: apply_edits(path, read(path), of) for path, of in by_file(self.edits).items()}

    def patch(self, read: Read) -> str:
        """The unified diff that plants the bug in the clean files; `git apply` takes it.

        Line ends stay what they are, so it has to be written and read without translation. A file
        that is empty or not there has no `diff --git` line, which is how git takes both.
        """
        files = by_file(self.edits)
        return "".join(FilePatch(path, read(path), files[path]).text() for path in sorted(files))

    def lines(self, read: Read) -> dict[str, list[int]]:
        """By file, the numbers (from 1) of the clean lines that it changes or that an insertion
        stands between: those by which `Suite.seeing` finds the tests.
        """
        return {
            path: changed_lines(path, read(path), of) for path, of in by_file(self.edits).items()
        }


def candidate_id(name: str, modifier: str, edits: Iterable[Edit]) -> str:
    """The `Candidate.id` of these edits in the project called `name`."""
    said = json.dumps([[edit.path, edit.start, edit.end, edit.text] for edit in edits])
    return f"{name}__{modifier}__{hashlib.sha256(said.encode()).hexdigest()[:8]}"
