"""The file that a campaign writes its labels to: whole at the end, or not at all.

Until then its lines stand in a hidden file beside it, which one process at a time writes.
Invariant: nothing is replaced but what a campaign wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, Any, Protocol

from rolecraft.errors import RolecraftError
from rolecraft.trajectories.append_file import lock


class LabelsError(RolecraftError):
    """A file of labels cannot be written, or is something else."""


class Labelled(Protocol):
    """What is made of one trace: a line of a labels file."""

    @property
    def problems(self) -> list[str]: ...

    def to_json(self) -> str: ...


class LabelsFile:
    """A file of labels in the making; `finish` puts it in its place. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.part")
        self._file: IO[str] | None = None
        if path.exists() and not _is_written_by_us(path):
            raise LabelsError(
                f"`{path}` exists and is no file of labels that Rolecraft made. "
                f"Name another file, or move that one away."
            )

    def __enter__(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while self._file is None:
                self._file = self._part.open("a", encoding="utf-8", errors="backslashreplace")
                lock(self._file.fileno())
                if not _is_still(self._part, self._file):  # it was put in its place meanwhile:
                    self._file.close()  # these are the finished labels of another process
                    self._file = None
            self._file.truncate(0)
        except BlockingIOError:
            self.__exit__()
            raise LabelsError(
                f"Another process is writing `{self.path}`. Wait for it, or name another file."
            ) from None
        except OSError as error:
            raise self._error(error) from error

    def judged(self) -> bool:
        """True if the file exists and some line of it is of a model."""
        try:
            with self.path.open("rb") as file:
                return any(b'"judge": {' in text and "judge" in _line(text) for text in file)
        except OSError:
            return False

    def add(self, labels: Labelled) -> None:
        assert self._file is not None
        try:
            self._file.write(labels.to_json() + "\n")
            self._file.flush()
        except OSError as error:
            raise self._error(error) from error

    def finish(self, *, partial: bool) -> bool:
        """Put the file in its place; False if it is partial and an earlier one has more labels."""
        assert self._file is not None
        try:
            keep = False
            if partial and self.path.exists():
                earlier, now = _count(self.path), _count(self._part)
                keep = earlier[0] > now[0] or earlier[1] > now[1]
            if not keep:
                os.replace(self._part, self.path)
            self._file.close()
        except OSError as error:
            raise self._error(error) from error
        return not keep

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _error(self, error: OSError) -> LabelsError:
        return LabelsError(f"`{self.path}` cannot be written: {error.strerror or error}.")


def _is_still(path: Path, file: IO[str]) -> bool:
    """True if the path leads to the open file, and not to another one or nowhere."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _count(path: Path) -> tuple[int, int]:
    """The traces in a file of labels, and what is decided of them: modes, and whom to blame."""
    lines = decided = 0
    with path.open("rb") as file:
        for text in file:
            lines += 1
            with contextlib.suppress(ValueError, RecursionError, AttributeError, TypeError):
                line = json.loads(text)
                decided += len(line.get("judged") or ()) + (line.get("decisive") is not None)
    return lines, decided


def _line(text: bytes) -> dict[str, Any]:
    """A line of a labels file; empty where it is none."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def _is_written_by_us(path: Path) -> bool:
    """True for an empty file and for one that begins with a line of ours."""
    try:
        with path.open("rb") as file:
            first = file.readline()
    except OSError:
        return False
    line = _line(first) if first.strip() else {"trace": "", "judged": {}}
    return "trace" in line and bool({"judged", "strategy"} & line.keys())
