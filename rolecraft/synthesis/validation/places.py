"""A project and its tasks as grading knows them: as instances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rolecraft.environments.software_engineering.bases import Bases, shared_bases
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.synthesis.candidates import Candidate, Read
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tests of a project run."""

    base: Path
    """A copy of the clean files that sandboxes can read."""
    runtime: Runtime

    @classmethod
    async def of(cls, plan: Plan, *, bases: Bases | None = None) -> Place:
        """Raises `UsageError` if the source or the environment is not there."""
        clean = plan.project.as_instance()
        base = await (bases or shared_bases()).of(clean)
        return cls(base.graded, Runtime.of(clean))


def instance_of(plan: Plan, candidate: Candidate, verdict: Verdict, read: Read) -> Instance:
    """A valid candidate as an instance, to be graded. Its text says nothing yet."""
    return replace(
        plan.project.as_instance(),
        id=candidate.id,
        problem=f"A bug of {plan.project.name}.",
        fail_to_pass=verdict.fail_to_pass,
        pass_to_pass=tuple(verdict.pass_to_pass(plan.suite.passing)),
        patch=candidate.patch(read),
        polarity="bug",
    )
