"""What a plan comes to, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from rolecraft.synthesis.plan import Plan
from rolecraft.trajectories.in_words import count

NAMED = 5
"""Of what was left out, so much is named."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a plan."""

    name: str
    version: str
    files: int
    skipped: dict[str, str]
    entities: int
    passing: int
    skipped_tests: int
    set_aside: dict[str, str]
    left_out: list[str]
    """What git ignores, and is in no task."""
    suite_seconds: float
    plan_seconds: float
    lines_seen: int
    installed: list[str]
    warnings: list[str]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        project, suite, about = plan.project, plan.suite, plan.about
        return cls(
            name=project.name,
            version=project.version,
            files=len(project.code),
            skipped=dict(project.skipped),
            entities=about.get("entities", 0),
            passing=len(suite.passing),
            skipped_tests=sum(each == "skipped" for each in suite.outcomes.values()),
            set_aside=dict(suite.set_aside),
            left_out=list(about.get("left_out", [])),
            suite_seconds=suite.wall_seconds,
            plan_seconds=about.get("seconds", 0.0),
            lines_seen=sum(map(len, suite.seen_by.values())),
            installed=list(about.get("installed", [])),
            warnings=list(about.get("warnings", [])),
        )

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, for a table of two columns."""
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        entities = ""
        if self.entities:
            entities = f", {count(self.entities, 'function or class', 'functions and classes')}"
        rows = [("code", f"{count(self.files, 'file')}{skipped}{entities}")]
        if self.left_out:
            some = ", ".join(self.left_out[:NAMED]) + (", …" if self.left_out[NAMED:] else "")
            rows.append(("left out", f"{len(self.left_out):,} that git ignores: {some}"))
        not_run = f", {self.skipped_tests:,} that are skipped" if self.skipped_tests else ""
        rows.append(
            ("tests", f"{self.passing:,} that pass{not_run}, in {self.suite_seconds:.1f} s")
        )
        by_reason: dict[str, list[str]] = {}
        for test, reason in self.set_aside.items():
            by_reason.setdefault(reason.partition(":")[0], []).append(test)
        most_first = sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
        for place, (reason, tests) in enumerate(most_first):
            more = ", …" if len(tests) > 1 else ""
            label = "" if place else "set aside"
            why = self.set_aside[tests[0]].partition(": ")[2]
            rows.append((label, f"{len(tests):,} {reason}: {tests[0]}{why and f' ({why})'}{more}"))
        if self.lines_seen:
            rows.append(("seen", f"{self.lines_seen:,} lines that some test runs"))
        if self.installed:
            rows.append(("installed", ", ".join(self.installed)))
        rows.append(("took", f"{self.plan_seconds:.1f} s"))
        return rows

    def record(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}
