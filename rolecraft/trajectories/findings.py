"""Findings beside the journal: `run.jsonl` has its findings in `run.findings.jsonl`.

A journal records what happened and never changes afterwards; what people, judges and detectors
say about it later is appended to a file next to it, one finding a line. So the store stays an
index: it can be deleted, and no label is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import decode_finding, encode_finding, parse_line
from rolecraft.trajectories.events import FailureFinding

FINDINGS_SUFFIX = ".findings.jsonl"


def findings_path(journal: Path | str) -> Path:
    """Where the findings about a journal are kept."""
    journal = Path(journal)
    return journal.with_name(journal.name.removesuffix(".jsonl") + FINDINGS_SUFFIX)


def append_findings(journal: Path | str, findings: Iterable[FailureFinding]) -> Path:
    """Add findings to those of a journal; returns the path of their file.

    Waits while another process does the same. Raises `JournalError` if the disk refuses.
    """
    path = findings_path(journal)
    lines = b"".join(map(encode_finding, findings))
    file = AppendFile(path, wait=True)
    try:
        if lines:
            text = path.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):  # a writer was killed within its last line
                file.truncate(whole)
            file.append(lines)
    finally:
        file.close()
    return path


def load_findings(
    journal: Path | str, *, problems: list[str] | None = None
) -> list[FailureFinding]:
    """The findings about a journal, oldest first; none if nobody has looked at it yet.

    Lines that cannot be read are added to `problems`: file, line number, reason.
    """
    path = findings_path(journal)
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(decode_finding(parse_line(line)))
        except ValueError as error:
            if problems is not None:
                problems.append(f"{path}:{number}: {error}")
    return found
