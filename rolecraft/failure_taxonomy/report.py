"""The report on one trace: which modes were judged and by what, and what was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.codes import MAST_V3
from rolecraft.failure_taxonomy.detectors import Diagnostic
from rolecraft.failure_taxonomy.judging.opinion import Opinion
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.failure_taxonomy.remedies import Remedy, remedy_for
from rolecraft.trajectories.events import FailureFinding


@dataclass(frozen=True, slots=True)
class Decisive:
    """The failure that decided: the first one from which the run did not recover."""

    mode: str
    role: str
    step: int
    """Sequence number of the event where it happened."""
    finding: FailureFinding


@dataclass(slots=True, kw_only=True)
class Report:
    """What is known about the failures of one trace."""

    trace: str
    """The file's path, or the trajectory's id."""
    format: str
    findings: list[FailureFinding]
    """At least one for each known mode, in the order of the modes: every `present`, or one
    `absent` or `unknown`."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    decisive: Decisive | None = None
    """The first failure from which the run did not recover; None if none was found."""
    opinion: Opinion | None = None
    """What the judge said, if one was asked."""
    warnings: list[str] = field(default_factory=list)
    """What is odd about the file, though all of the trace could be read."""
    problems: list[str] = field(default_factory=list)
    """What of the trace could not be read."""

    @property
    def judged(self) -> dict[str, tuple[str, ...]]:
        """The modes that were decided, `present` or `absent`, and by what."""
        by: dict[str, tuple[str, ...]] = {}
        for finding in self.findings:
            if finding.verdict != "unknown":
                sources = by.get(finding.mode, ())
                if finding.source not in sources:
                    by[finding.mode] = (*sources, finding.source)
        return by

    @property
    def annotator(self) -> str:
        """Who says all this, as labels name it: the detectors, and the judge if one was asked."""
        judge = f" and {self.opinion.source}" if self.opinion is not None else ""
        return f"rolecraft detectors{judge}"

    @property
    def unjudged(self) -> dict[str, str]:
        """The modes that nothing decided, and why."""
        return {f.mode: f.reason for f in self.findings if f.verdict == "unknown"}

    @property
    def present(self) -> list[FailureFinding]:
        """The failures that were found."""
        return [finding for finding in self.findings if finding.verdict == "present"]

    @property
    def remedies(self) -> dict[str, Remedy]:
        """What can be done about each mode that was found."""
        return {finding.mode: remedy_for(finding.mode) for finding in self.present}

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, with the fields of `rolecraft annotate --json`.

        `judged` maps the decided modes to what decided them. A finding has the mode's concept id
        and its code, empty for a mode of your own, with the name of the code's system. `decisive`
        is null if no failure was found. `judge` says how a judge was asked, what it was told and
        how far it is trusted, where one was. `Labels.from_dict` reads the line back as labels.
        """
        blame = self.decisive
        line: dict[str, Any] = {
            "trace": self.trace,
            "format": self.format,
            "annotator": self.annotator,
            "judged": {mode: list(sources) for mode, sources in self.judged.items()},
            "findings": [
                {
                    "mode": finding.mode,
                    "code": MAST_V3.code(finding.mode),
                    "code_system": MAST_V3.name,
                    "verdict": finding.verdict,
                    "role": finding.role,
                    "events": list(finding.events),
                    "quote": finding.quote,
                    "confidence": finding.confidence,
                    "source": finding.source,
                    "reason": finding.reason,
                }
                for finding in self.findings
            ],
            "decisive": blame and {"mode": blame.mode, "role": blame.role, "step": blame.step},
        }
        if self.opinion is not None:
            line["judge"] = self.opinion.to_dict()
        return line

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def summary(self) -> str:
        """A few lines for people. Always says how many of the modes were judged, and by what."""
        lines = [f"{self.trace} ({self.format}): {_coverage(self.judged)}"]
        for finding in self.present:
            lines.append(f"  {finding.mode} ({MODES[finding.mode].name}){_where(finding)}")
            if finding.reason:
                lines.append(f"    {finding.reason}")
        lines += [
            f"  against {mode}, edit the {', '.join(remedy.edit)}: {remedy.tactical}"
            for mode, remedy in self.remedies.items()
        ]
        if not self.present:
            verdict = "no failure found among the modes that were judged"
            lines.append(f"  {verdict if self.judged else 'nothing could be judged'}")
        if self.decisive is not None:
            role = f" by {self.decisive.role!r}" if self.decisive.role else ""
            lines.append(f"  decisive: {self.decisive.mode} at event {self.decisive.step}{role}")
        lines += [
            f"  not judged: {', '.join(modes)}: {reason}"
            for reason, modes in _grouped(self.unjudged).items()
        ]
        if self.opinion is not None:
            lines += [f"  {line}" for line in self.opinion.summary().splitlines()]
        if self.diagnostics:
            count = len(self.diagnostics)
            texts = "text was" if count == 1 else "texts were"
            lines.append(f"  diagnostics, no failure modes: {count} {texts} sent again")
        lines += [f"  note: {warning}" for warning in self.warnings]
        lines += [f"  could not be read: {problem}" for problem in self.problems]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def _coverage(judged: Mapping[str, Iterable[str]]) -> str:
    total = len(MODES)
    if not judged:
        return f"0 of the {total} modes were judged"
    by = _grouped({mode: " and ".join(sources) for mode, sources in judged.items()})
    listed = "; ".join(f"{', '.join(modes)} by {source}" for source, modes in by.items())
    verb = "was" if len(judged) == 1 else "were"
    return f"{len(judged)} of the {total} modes {verb} judged ({listed})"


def _grouped(said: Mapping[str, str]) -> dict[str, list[str]]:
    """The modes of which the same is said."""
    by: dict[str, list[str]] = {}
    for mode, text in said.items():
        by.setdefault(text, []).append(mode)
    return by


def _where(finding: FailureFinding) -> str:
    events = ", ".join(map(str, finding.events[:5])) + (" …" if len(finding.events) > 5 else "")
    where = f" at event {events}" if len(finding.events) == 1 else f" at events {events}"
    by = f", by {finding.role!r}" if finding.role else ""
    return f"{where}{by}: {finding.quote!r}" if finding.quote else f"{where}{by}"
