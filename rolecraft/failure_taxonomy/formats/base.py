"""What an importer is: it recognises files of one format and makes trajectories of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories.trajectory import Trajectory

HEAD = 65_536
"""Bytes of a file that recognition reads at first."""


class Source:
    """A file that is to be imported. Its parts are read on first use, and once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def head(self) -> bytes:
        """The first bytes. Raises `TraceError` for a file that cannot be read or is empty."""
        try:
            with self.path.open("rb") as file:
                head = file.read(HEAD)
        except IsADirectoryError:
            raise TraceError(
                self.path, "this is a folder; `annotate_many` (or `rolecraft annotate`) takes one"
            ) from None
        except OSError as error:
            raise TraceError(self.path, f"cannot be read: {error.strerror or error}") from None
        if not head.strip():
            raise TraceError(self.path, "the file is empty")
        return head

    @cached_property
    def document(self) -> Any:
        """The whole file as one JSON value; None if it is none (see `flaw`)."""
        self.flaw = ""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            self.flaw = "it does not begin with a JSON object or list"
            return None
        try:
            return json.loads(self.path.read_bytes().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            self.flaw = f"byte {error.start} is not UTF-8"
        except json.JSONDecodeError as error:
            self.flaw = f"line {error.lineno}, column {error.colno}: {error.msg}"
            if error.msg == "Extra data":  # a whole value stands before it
                self.flaw = f"it holds several values, the second in line {error.lineno}"
        except RecursionError:
            self.flaw = "its JSON is nested too deeply"
        return None

    flaw: str = ""

    @cached_property
    def text(self) -> str:
        """The whole file as text; bytes that are no UTF-8 become U+FFFD (see `replaced`).

        Raises `TraceError` for a file that cannot be read or is empty.
        """
        assert self.head
        text = self.path.read_bytes().decode("utf-8-sig", "replace")
        self.replaced = text.count("\N{REPLACEMENT CHARACTER}")
        return text

    replaced: int = 0
    """How many replacement characters `text` has."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of traces.

    `recognises` says from a source whether it has this format and never raises for a file that
    can be read; `load` makes the trajectory, or several where a file holds several runs (each with
    an `id` of its own), and raises `TraceError` for a file it cannot use. What a file says about
    the run's failures or its outcome goes to `about["labels"]` and nowhere else: no detector and
    no judge looks there. `labels` makes of it what its annotators say.
    """

    name: str
    description: str
    recognises: Callable[[Source], bool]
    load: Callable[[Source], Trajectory | Iterable[Trajectory]]
    suffixes: tuple[str, ...] = (".json", ".jsonl")
    """Endings under which a folder is searched for files of this format."""
    labels: Callable[[Trajectory], Iterable[Labels]] | None = None
    """The labels that an imported trajectory came with; their `trace` is filled in later."""
    misfit: Callable[[Source], str] | None = None
    """Why a file is not recognised, in a few words: of a format that somebody chose by hand."""
    belongs_to: Callable[[Path], Path | None] | None = None
    """Of a file that is no trace, the one beside it that it is read with; None for any other."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One trace of a file. `name` is the file's path, with `#id` where the file has several."""

    name: str
    trajectory: Trajectory
    labels: tuple[Labels, ...] = ()
    """What its annotators said, where the file says so."""
