"""Findings beside the journal: `run.jsonl` has its findings in `run.findings.jsonl`.

A journal records what happened and never changes afterwards; what people, judges and detectors
say about it later is appended to a file next to it, one finding a line. So the store stays an
index: it can be deleted, and no label is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rolecraft.trajectories.append_file import append_lines, decoded_lines
from rolecraft.trajectories.codec import decode_finding, encode_finding
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
    append_lines(path, b"".join(map(encode_finding, findings)))
    return path


def load_findings(
    journal: Path | str, *, problems: list[str] | None = None
) -> list[FailureFinding]:
    """The findings about a journal, oldest first; none if nobody has looked at it yet.

    Lines that cannot be read are added to `problems`: file, line number, reason.
    """
    return decoded_lines(findings_path(journal), decode_finding, problems)
