"""The plan of a project, from its files to its clean suite.

    plan = await make_plan(Path("sqlparse-0.5.3.tar.gz"), SynthesisFolder(Path("out")))

Nothing is taken up from a plan that was killed but the venv, which is whole or made again. A plan
that is there is not made again unless it is to be `new`, and what was made from it goes then.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import installed_modules
from rolecraft.errors import UsageError
from rolecraft.sandboxes import SandboxProvider, default_provider
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.locked import locked
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning import cmake
from rolecraft.synthesis.planning.anew import (
    WHAT_GOES,
    clear,
    command,
    digest_of,
)
from rolecraft.synthesis.planning.clean import measure
from rolecraft.synthesis.planning.compiled import check_pure
from rolecraft.synthesis.planning.discovery import Found, discover
from rolecraft.synthesis.planning.environment import (
    Environment,
    build,
    check_reachable,
    python_warnings,
    use,
)
from rolecraft.synthesis.planning.metadata import Metadata, read_metadata
from rolecraft.synthesis.planning.python_version import check_python
from rolecraft.synthesis.planning.requirements import imported_modules, requirements
from rolecraft.synthesis.planning.runs import CleanRuns
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.synthesis.planning.source import copy_source, warnings_of, writing
from rolecraft.synthesis.planning.version_file import with_version_file
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite

Tell = Callable[[str], None]


async def make_plan(
    source: Path,
    folder: SynthesisFolder,
    *,
    settings: PlanSettings | None = None,
    new: bool = False,
    tell: Tell = lambda text: None,
    provider: SandboxProvider | None = None,
) -> Plan:
    """Make a plan and save it in `folder`; where it is there already, read it.

    `new` makes it in any case, and deletes what was made from the one that is there. `tell` gets a
    line for each phase. Raises `UsageError` for a project that cannot be worked with, and says why,
    and leaves no folder that there was not; also for a source that is another one than when the
    plan was made; `RolecraftError` if the disk refuses; `SandboxError` without a sandbox.
    """
    settings = settings or PlanSettings()
    asked = _said(source, settings)
    if folder.candidates.exists() and not folder.plan.exists() and not new:
        raise UsageError(
            f"`{folder.path}` has bugs of a plan that is gone, and they fit no other: choose "
            f"another --out, or delete them: `{command(asked, folder)}`."
        )
    with writing(folder.path), _alone(folder.path):
        if new:  # what is no project is refused before anything is lost
            await asyncio.to_thread(_digest_now, source, folder, settings)
            clear(folder)
        elif folder.plan.exists():
            return await asyncio.to_thread(_known, source, folder, settings, asked, tell)
        return await _made(source, folder, settings, asked, tell, provider)


async def _made(
    source: Path,
    folder: SynthesisFolder,
    settings: PlanSettings,
    asked: dict[str, Any],
    tell: Tell,
    provider: SandboxProvider | None,
) -> Plan:
    started = time.monotonic()
    tell(f"The source: `{source}` ...")
    left_out = await asyncio.to_thread(_copy, source, folder.source, settings)
    digest = await asyncio.to_thread(digest_of, folder.source)
    project, found, environment = await asyncio.to_thread(_prepared, source, folder, settings, tell)
    runs_in = provider or default_provider()
    bases = Bases()
    try:
        row = project.as_instance()
        base = await bases.of(row)
        runtime = Runtime.of(row)
        runs = CleanRuns(runs_in, base.graded, runtime, project, settings)
        reader = Plan(project, Suite(outcomes={})).reader()
        measured = await measure(runs, found.roots, reader, left_out=left_out, tell=tell)
    finally:
        bases.close()
    about = {
        "asked": asked,
        "source": digest,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1),
        "entities": found.entities,
        "installed": list(environment.installed),
        "written": list(measured.written),
        "left_out": list(left_out),
        "warnings": [
            *warnings_of(folder.source),
            *python_warnings(runtime, project.environment),
            *environment.warnings,
            *measured.warnings,
        ],
    }
    project = replace(project, test_command=(*project.test_command, *measured.options))
    made = Plan(project, measured.suite, about)
    made.save(folder)
    return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """For this process alone. A folder that there was not is not left behind if there is no plan
    in the end.
    """
    was_there = folder.exists()
    with locked(folder, f"making a plan in `{folder}`"):
        try:
            yield
        except UsageError:
            if not was_there:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _known(
    source: Path,
    folder: SynthesisFolder,
    settings: PlanSettings,
    asked: dict[str, Any],
    tell: Tell,
) -> Plan:
    plan = Plan.load(folder)
    # A plan may be older than an option is.
    was = {**_said(source, PlanSettings()), **plan.about.get("asked", {})}
    if differing := sorted(name for name in asked if asked[name] != was.get(name)):
        name = differing[0]
        raise UsageError(
            f"The plan in `{folder.path}` was made with other settings (`{name}` was "
            f"{was.get(name)!r}, now it is {asked[name]!r}): say the same, choose another "
            f"--out, or make it anew, {WHAT_GOES}: `{command(asked, folder)}`."
        )
    if _has_changed(source, folder, settings, plan):
        raise UsageError(
            f"`{source}` has changed since the plan in `{folder.path}` was made: choose another "
            f"--out, or make it anew, {WHAT_GOES}: `{command(asked, folder)}`."
        )
    tell(f"The plan is there already: `{folder.plan}`.")
    return plan


def _has_changed(source: Path, folder: SynthesisFolder, settings: PlanSettings, plan: Plan) -> bool:
    """Whether the files that the plan was made of are others now. What is gone is as it was."""
    made_of = str(plan.about.get("source", ""))
    there = [source, *([settings.tests] if settings.tests else [])]
    if not made_of or not all(each.exists() for each in there):
        return False
    return _digest_now(source, folder, settings) != made_of


def _copy(source: Path, target: Path, settings: PlanSettings) -> tuple[str, ...]:
    """What a plan is made of; what was left out. Raises what `copy_source` does."""
    return copy_source(source, target, tests=settings.tests, also=settings.also)


def _digest_now(source: Path, folder: SynthesisFolder, settings: PlanSettings) -> str:
    """The digest of what would be copied. Raises what `_copy` does."""
    place = folder.path / ".source-now"
    try:
        _copy(source, place, settings)
        return digest_of(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _said(source: Path, settings: PlanSettings) -> dict[str, Any]:
    """What was asked for, as JSON has it."""
    said = {"source": str(source.resolve()), **asdict(settings)}
    for name in ("tests", "environment"):
        said[name] = None if said[name] is None else str(said[name].resolve())
    return {name: list(each) if isinstance(each, tuple) else each for name, each in said.items()}


def _prepared(
    source: Path, folder: SynthesisFolder, settings: PlanSettings, tell: Tell
) -> tuple[Project, Found, Environment]:
    """What the project is, and its environment."""
    clean = folder.source.resolve()
    metadata = with_version_file(read_metadata(clean), source, clean)
    is_python = bool(metadata.name) or any(clean.rglob("*.py"))
    runner = settings.runner or (
        "junit" if settings.report or (cmake.has_tests(clean) and not metadata.name) else "pytest"
    )
    default_name = source.resolve().name.partition("-")[0] or "project"
    if runner == "pytest":
        if not is_python:
            raise UsageError(
                f"`{source}` has no Python and no CMakeLists.txt with tests. For anything that "
                f"writes JUnit XML, say --runner junit --test-command '...' --report FILE."
            )
        metadata = replace(metadata, name=metadata.name or default_name)
        return _python(source, clean, folder, metadata, settings, tell)
    name, version = cmake.name_and_version(clean)
    found = cmake.discover_sources(clean)
    if not found.code and metadata.name:
        found = discover(clean, metadata)
    if not found.code:
        raise UsageError(f"`{source}` has no source files in which bugs could be planted.")
    command, report = settings.test_command, settings.report
    if not command:
        if not cmake.has_tests(clean):
            raise UsageError(
                f"`{source}` has no tests for CTest (`enable_testing()` in CMakeLists.txt): say "
                f"how they run, --test-command '...' --report FILE."
            )
        runner, command, report = "junit", cmake.command(settings.test_seconds), cmake.REPORT
    project = Project(
        name=metadata.name or name or default_name,
        version=metadata.version or version,
        source=str(clean),
        code=found.code,
        tests=found.tests,
        skipped=found.skipped,
        runner=runner,
        test_command=command,
        report=report,
        environment=str(use(settings.environment).path) if settings.environment else "",
    )
    return project, found, Environment(Path())


def _python(
    source: Path,
    clean: Path,
    folder: SynthesisFolder,
    metadata: Metadata,
    settings: PlanSettings,
    tell: Tell,
) -> tuple[Project, Found, Environment]:
    if not settings.pure:
        check_pure(clean, metadata)
    found = discover(clean, metadata, given=settings.tests.resolve().name if settings.tests else "")
    if not found.code:
        raise UsageError(
            f"`{source}` has no package and no module in which bugs could be planted"
            + (f" (skipped: {next(iter(found.skipped.items()))})." if found.skipped else ".")
        )
    if not any(path.endswith(".py") for path in found.tests):
        why = ""
        if source.is_file():
            why = " (many source archives lack them, and a checkout of the repository has them)"
            if source.suffix == ".whl":
                why = " (a wheel has none: the source archive of the same release may)"
        raise UsageError(
            f"`{source}` has no tests: no folder `tests` or `test`, no `test_*.py`, and nothing in "
            f"pytest's settings. Give their folder with --tests{why}."
        )
    check_python(metadata, settings.environment)
    if settings.environment is not None:
        environment = use(settings.environment)
        check_reachable(environment.path)
    else:
        tell("The environment, by pip ...")
        texts = [
            (clean / path).read_text("utf-8", "replace")
            for path in found.tests
            if path.endswith(".py")
        ]
        needs, tests = requirements(clean, metadata, found.settings, imported_modules(texts))
        check_reachable(folder.environment.resolve())
        environment = build(folder.environment.resolve(), metadata, needs, tests)
    # Plug-ins that would have a say in how the tests run.
    modules = installed_modules(environment.path)
    options = [*(["--no-cov"] if "pytest_cov" in modules else ())]
    options += ["-n0"] if "xdist" in modules else []
    project = Project(
        name=metadata.name,
        version=metadata.version,
        source=str(clean),
        code=found.code,
        tests=found.tests,
        skipped=found.skipped,
        test_command=(*options, *settings.test_command),
        python_path=found.python_path,
        environment=str(environment.path),
    )
    return project, found, environment
