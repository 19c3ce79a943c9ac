"""A project and its tasks as grading knows them: as instances."""

from __future__ import annotations

from dataclasses import dataclass
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
        project = plan.project
        clean = Instance(
            id=f"{project.name}-{project.version}",
            problem="none",
            fail_to_pass=("none",),
            source=project.source,
            environment=project.environment or None,
        )
        base = await (bases or shared_bases()).of(clean)
        return cls(base.graded, Runtime.of(clean))


def instance_of(plan: Plan, candidate: Candidate, verdict: Verdict, read: Read) -> Instance:
    """A valid candidate as an instance, to be graded. Its text says nothing yet."""
    project = plan.project
    return Instance(
        id=candidate.id,
        problem=f"A bug of {project.name}.",
        fail_to_pass=verdict.fail_to_pass,
        pass_to_pass=tuple(verdict.pass_to_pass(plan.suite.passing)),
        patch=candidate.patch(read),
        polarity="bug",
        source=project.source,
        environment=project.environment or None,
        python_path=project.python_path,
        runner=project.runner,
        test_command=project.test_command,
        report=project.report,
    )
