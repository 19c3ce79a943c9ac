"""What a plan comes to, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from rolecraft.synthesis.plan import Plan
from rolecraft.trajectories.in_words import count


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a plan."""

    name: str
    version: str
    files: int
    skipped: dict[str, str]
    entities: int
    passing: int
    set_aside: dict[str, str]
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
            set_aside=dict(suite.set_aside),
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
        rows.append(("tests", f"{self.passing:,} that pass, in {self.suite_seconds:.1f} s"))
        by_reason: dict[str, list[str]] = {}
        for test, reason in self.set_aside.items():
            by_reason.setdefault(reason.partition(":")[0], []).append(test)
        most_first = sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
        for place, (reason, tests) in enumerate(most_first):
            more = ", …" if len(tests) > 1 else ""
            label = "" if place else "set aside"
            rows.append((label, f"{len(tests):,} {reason}: {tests[0]}{more}"))
        if self.lines_seen:
            rows.append(("seen", f"{self.lines_seen:,} lines that some test runs"))
        if self.installed:
            rows.append(("installed", ", ".join(self.installed)))
        rows.append(("took", f"{self.plan_seconds:.1f} s"))
        return rows

    def record(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}
