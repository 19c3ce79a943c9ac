"""Labels: what one annotator, a person, a judge or a rule, says about one trace.

They are kept as JSON lines, in the form that `rolecraft annotate --json` prints: `trace`,
`annotator`, `findings` and `decisive`; a finding names its mode, or a code with the code's system.
A file of another format that has labels of its own (a
human-labelled data set) is read through its importer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rolecraft.errors import TraceError, UsageError
from rolecraft.failure_taxonomy.codes import DROPPED, SYSTEMS, get_system
from rolecraft.failure_taxonomy.modes import get_mode
from rolecraft.trajectories.events import FailureFinding, FindingVerdict

_VERDICTS: tuple[FindingVerdict, ...] = get_args(FindingVerdict)
_FIELDS = ("role", "quote", "source", "reason")


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is said to have made the decisive mistake, and at which step (an event's `seq`)."""

    role: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What `annotator` says about the trace named `trace`.

    A mode that has no finding was not asked about. `outcome` is whether the task was done, if the
    annotator says so. `note` is free text of theirs.
    """

    trace: str = ""
    annotator: str = ""
    findings: tuple[FailureFinding, ...] = ()
    decisive: Blame | None = None
    outcome: bool | None = None
    note: str = ""

    def verdict(self, mode: str) -> FindingVerdict | None:
        """What is said about a mode; None if it was not asked about."""
        said = {finding.verdict for finding in self.findings if finding.mode == mode}
        return next((verdict for verdict in _VERDICTS if verdict in said), None)

    def to_dict(self) -> dict[str, Any]:
        """As plain data: a line of a labels file."""
        line: dict[str, Any] = {
            "trace": self.trace,
            "annotator": self.annotator,
            "findings": [finding_to_dict(finding) for finding in self.findings],
        }
        if self.decisive is not None:
            line["decisive"] = {"role": self.decisive.role, "step": self.decisive.step}
        if self.outcome is not None:
            line["outcome"] = self.outcome
        if self.note:
            line["note"] = self.note
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Labels:
        """From what `to_dict` or `Report.to_dict` made. Raises `ValueError` with what is wrong."""
        if not isinstance(line, Mapping):
            raise ValueError(f"a line of labels is an object, not {line!r}")
        if not isinstance(line.get("trace"), str) or not isinstance(line.get("findings"), list):
            raise ValueError("it has no text `trace` and list `findings`")
        blame = line.get("decisive")
        if blame is not None and not isinstance(blame, Mapping):
            raise ValueError(f"`decisive` is an object with `role` and `step`, not {blame!r}")
        return cls(
            trace=line["trace"],
            annotator=str(line.get("annotator") or ""),
            findings=tuple(map(finding_from_dict, line["findings"])),
            decisive=None if blame is None else Blame(str(blame.get("role") or ""), _step(blame)),
            outcome=_outcome(line),
            note=str(line.get("note") or ""),
        )


def finding_to_dict(finding: FailureFinding) -> dict[str, Any]:
    """A finding as plain data; what is empty is left out, but for mode and verdict."""
    row: dict[str, Any] = {"mode": finding.mode, "verdict": finding.verdict}
    if finding.events:
        row["events"] = list(finding.events)
    row |= {name: text for name in _FIELDS if (text := getattr(finding, name))}
    if finding.confidence is not None:
        row["confidence"] = finding.confidence
    return row


def finding_from_dict(row: Any) -> FailureFinding:
    """The finding in a row. Raises `ValueError` and `UsageError` with what is wrong."""
    if not isinstance(row, Mapping):
        raise ValueError(f"a finding is an object with a `mode`, not {row!r}")
    mode = _mode(row)
    verdict: Any = row.get("verdict")
    if verdict not in _VERDICTS:
        raise ValueError(f"a verdict is one of {_VERDICTS}, not {verdict!r}")
    events = row.get("events") or ()
    if not isinstance(events, (list, tuple)) or any(type(seq) is not int for seq in events):
        raise ValueError(f"`events` are numbers of events, not {events!r}")
    return FailureFinding(
        mode,
        verdict,
        events=tuple(events),
        confidence=_confidence(row),
        **{name: str(row.get(name) or "") for name in _FIELDS},
    )


def _mode(row: Mapping[str, Any]) -> str:
    """The concept id in a row; of a row that has only a code, what it means in its system."""
    mode, code, system = row.get("mode"), row.get("code"), row.get("code_system")
    if not isinstance(mode, str):
        if not isinstance(code, str) or not isinstance(system, str):
            raise ValueError(
                f"a finding has a `mode`, or a `code` with its `code_system`, unlike {dict(row)!r}"
            )
        mode = get_system(system).concept(code)
        if mode in DROPPED:
            raise ValueError(f"{code!r} in {system!r} is `{mode}`, which the study gave up")
        return mode
    if code and any(system in (known.id, known.name) for known in SYSTEMS.values()):
        means = get_system(str(system)).concept(str(code))
        if means != mode:
            raise ValueError(f"{code!r} in {system!r} is `{means}`, not {mode!r}")
    return get_mode(mode).id


def _confidence(row: Mapping[str, Any]) -> float | None:
    said = row.get("confidence")
    if said is None:
        return None
    if isinstance(said, (int, float)) and not isinstance(said, bool) and 0 <= said <= 1:
        return float(said)
    raise ValueError(f"a `confidence` is a number from 0 to 1, not {said!r}")


def _outcome(line: Mapping[str, Any]) -> bool | None:
    said = line.get("outcome")
    if said is None or isinstance(said, bool):
        return said
    raise ValueError(f"the `outcome` is true or false, whether the task was done, not {said!r}")


def _step(blame: Mapping[str, Any]) -> int | None:
    step = blame.get("step")
    if step is None or (isinstance(step, int) and not isinstance(step, bool)):
        return step
    raise ValueError(f"the `step` of `decisive` is the number of an event, not {step!r}")


def read_labels(
    path: Path | str,
    *,
    on_error: Callable[[TraceError], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> list[Labels]:
    """The labels in a file, or in the files below a folder.

    A file is JSON lines of ours, or of a format that has labels of its own. Raises `TraceError`
    for a file that cannot be read or has no labels, with the line that is wrong. In a folder,
    `on_error` is called with the error instead, if it is given, and the other files are read; it
    is raised only if no file has labels. `on_warning` is told what is odd about the labels of a
    data set, such as two traces with the same ones.
    """
    if not Path(path).is_dir():
        return (
            list(_lines(Path(path))) if is_label_file(Path(path)) else _imported(path, on_warning)
        )
    from rolecraft.failure_taxonomy.formats import trace_files

    found: list[Labels] = []
    for file in trace_files(path):
        try:
            found += read_labels(file, on_warning=on_warning)
        except TraceError as error:
            if on_error is None:
                raise
            on_error(error)
    if not found:
        raise TraceError(path, "there are no labels in it")
    return found


def write_labels(labels: Iterable[Labels], path: Path | str) -> Path:
    """Write labels as JSON lines, making their folder if need be; the path."""
    lines = [json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in labels]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(lines), encoding="utf-8")
    return Path(path)


def is_label_file(path: Path) -> bool:
    """True for a file whose first line is labels as `write_labels` writes them."""
    try:
        with path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"null")
        first = json.loads(line.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"trace", "findings"} <= first.keys()


def _lines(path: Path) -> Iterator[Labels]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield Labels.from_dict(json.loads(line.decode("utf-8-sig")))
            except (ValueError, UsageError, RecursionError) as error:
                raise TraceError(path, f"line {number}: {error}") from error


def _imported(path: Path | str, on_warning: Callable[[str], None] | None) -> list[Labels]:
    from rolecraft.failure_taxonomy.formats import read_all

    labels: list[Labels] = []
    for imported in read_all(path):
        labels += imported.labels
        for warning in imported.trajectory.about.get("warnings", ()):
            if on_warning is not None:
                on_warning(f"{imported.name}: {warning}")
    if not labels:
        raise TraceError(path, "there are no labels in it")
    return labels
