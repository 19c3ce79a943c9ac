"""The clean suite: all tests twice, in other conditions, then once more to see which lines run.

What did not do the same both times is flaky, and what failed both times tells nothing of a bug:
both are set aside, and so is what never ends.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering.taken import test_file
from rolecraft.errors import UsageError
from rolecraft.sandboxes.test_reports import Outcome
from rolecraft.synthesis.planning.metadata import plain
from rolecraft.synthesis.planning.runs import CleanRun, CleanRuns
from rolecraft.synthesis.planning.seen import seen, tools
from rolecraft.synthesis.planning.trees import needed
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite

FAILING = ("failed", "error")
_NAMED = re.compile(r"^(E   )?[A-Za-z_][\w.]*(: |$)")
"""The line with the exception: of Python, or as pytest shows it."""
_NO_MODULE = re.compile(r"No module named '(\w+)((?:\.\w+)+)'")
"""One that is missing in a package: the package, and the rest of its name."""
_NETWORK = re.compile(r"name resolution|Name or service not known|Network is unreachable")
_OF_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
SHOWN = 3
"""Tests that an error names."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The suite, and what came to light beside it."""

    suite: Suite
    options: tuple[str, ...]
    """Arguments for pytest that leave out what cannot be run."""
    warnings: tuple[str, ...]
    written: tuple[str, ...]


async def measure(
    runs: CleanRuns,
    roots: Sequence[str],
    read: Callable[[str], str],
    *,
    left_out: Sequence[str] = (),
    tell: Callable[[str], None],
) -> Measured:
    """Run the clean tests. `left_out` is what git ignores and is not in the copy.

    Raises `UsageError` if there are no tests, or too many of them fail.
    """
    tell("The clean tests, the first time ...")
    try:
        first = await runs.run(roots, hash_seed=1)
    except UsageError as error:
        raise UsageError(f"{error}{_also(needed(str(error), left_out))}") from error
    _check(first, runs, left_out)
    is_pytest = runs.project.runner == "pytest"
    # By their files from now on, as grading does it.
    files = sorted({test_file(test) for test in first.outcomes} - {""}) if is_pytest else []
    tell(f"The clean tests, the second time: {len(first.outcomes):,} of them ...")
    second = await runs.run(files, hash_seed=2)
    kept, aside = _compare(first, second, runs)
    counted: CleanRun | None = None
    if is_pytest:
        tell("The clean tests once more, to see which lines they run ...")
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-plan-") as place:
            counted = await runs.run(files, hash_seed=1, tools=tools(Path(place)))
    aside |= runs.lost_files | runs.left_out  # the third time may have found more
    kept = {name: outcome for name, outcome in kept.items() if name not in aside}
    if not any(outcome == "passed" for outcome in kept.values()):
        raise UsageError(f"No test of {runs.project.name} passes twice, so none can tell of a bug.")
    lines = counted.lines if counted is not None else None
    seen_by, on_import = seen(lines, read) if lines is not None else ({}, {})
    warnings: list[str] = []
    if is_pytest and not any(seen_by.values()):
        raise UsageError(
            f"No test of {runs.project.name} runs a line of its code in `{runs.project.source}`: "
            f"{_another_copy(runs.project)}"
        )
    warnings += _missed(first, aside, left_out)
    written = tuple(sorted({*first.written, *second.written}))
    if written:
        warnings.append(
            f"The tests write into the repository ({_some(written)}). Each run has a fresh copy, "
            f"so nothing is carried over."
        )
    seconds = {
        name: round(max(first.seconds.get(name, 0.0), second.seconds.get(name, 0.0)), 4)
        for name in kept
    }
    suite = Suite(
        outcomes=kept,
        seconds=seconds if is_pytest else {},
        set_aside=aside,
        seen_by=seen_by,
        on_import=on_import,
        wall_seconds=round(max(first.wall_seconds, second.wall_seconds), 3),
    )
    ignored = [f"--ignore={path}" for path in _uncollectable(aside) if is_pytest]
    deselected = [f"--deselect={test}" for test in runs.left_out]
    return Measured(suite, (*ignored, *deselected), tuple(warnings), written)


def _check(run: CleanRun, runs: CleanRuns, left_out: Sequence[str]) -> None:
    """Raise `UsageError` for a suite that nothing can be built on."""
    name, share = runs.project.name, runs.settings.most_failing
    failing = [test for test, outcome in run.outcomes.items() if outcome in FAILING]
    if not run.outcomes:
        lost = {**runs.lost_files, **runs.left_out}
        why = "; ".join(f"`{test}` {reason}" for test, reason in list(lost.items())[:SHOWN])
        printed = " | ".join(run.printed.strip().splitlines()[-3:])
        missing = needed(run.printed, left_out)
        raise UsageError(f"No test of {name} was run. {why or printed}{_also(missing)}")
    if len(failing) > share * len(run.outcomes):
        shown = "; ".join(
            f"`{test}`: {_last(run.messages.get(test, ''))}" for test in failing[:SHOWN]
        )
        raise UsageError(
            f"{len(failing):,} of the {len(run.outcomes):,} clean tests of {name} fail, more than "
            f"{share:.0%} (--most-failing). The first: {shown}. "
            f"{_way_out(shown, runs.project, _missing(run, failing, left_out))}"
        )


def _way_out(shown: str, project: Project, missing: str) -> str:
    """What to do about tests that fail so."""
    if missing:
        return _also(missing).strip()
    found = _NO_MODULE.search(shown)
    if found and any(found[1] in PurePosixPath(path).parts for path in project.code):
        return (
            f"`{found[1]}{found[2]}` is a module of {project.name} itself, so its build makes it: "
            f"build it in its own folder (`pip install -e .` there) and plan that folder, or plan "
            f"its source archive."
        )
    if _NETWORK.search(shown):
        return (
            "Sandboxes have no network: leave out the tests that want one with --test-command "
            "'--deselect TEST', or let more of them fail with --most-failing."
        )
    return "If something is not installed, make a venv that has it and give it with --environment."


def _missing(run: CleanRun, failing: Sequence[str], left_out: Sequence[str]) -> str:
    """The first of what was left out that one of these tests seems to miss; or empty."""
    found = (needed(run.messages.get(test, ""), left_out) for test in failing)
    return next(filter(None, found), "")


def _missed(run: CleanRun, aside: Mapping[str, str], left_out: Sequence[str]) -> Iterator[str]:
    """A warning for each of what was left out and is missed by tests that were set aside."""
    missed: dict[str, list[str]] = {}
    for test in aside:
        if path := needed(run.messages.get(test, ""), left_out):
            missed.setdefault(path, []).append(test)
    for path, tests in missed.items():
        yield f"{_some(tests)} cannot do without a file that is left out.{_also(path)}"


def _also(path: str) -> str:
    """What to do about a file that was left out and is missed."""
    if not path:
        return ""
    return (
        f" Git ignores `{path}`, so it is not in the copy: `--also {shlex.quote(path)}` takes it, "
        f"and then it is in every task and in what is pushed."
    )


def _another_copy(project: Project) -> str:
    """Where else the tests have their code from, and what to do."""
    if plain(project.name) in _OF_PYTEST:
        return (
            f"pytest itself is made of {project.name} and has loaded its own copy by then, so no "
            f"tasks can be made of it."
        )
    return (
        f"they test another copy, one that is installed in `{project.environment}` (take it out: "
        f"`{project.environment}/bin/python -m pip uninstall {project.name}`), or start it as a "
        f"program of its own, where no line is counted."
    )


def _compare(
    first: CleanRun, second: CleanRun, runs: CleanRuns
) -> tuple[dict[str, Outcome], dict[str, str]]:
    kept: dict[str, Outcome] = {}
    aside: dict[str, str] = {**runs.lost_files, **runs.left_out}
    code = set(runs.project.code)
    for name, outcome in first.outcomes.items():
        again = second.outcomes.get(name)
        if name in aside:
            continue
        if again is None:
            aside[name] = "flaky: not there the second time"
        elif again != outcome:
            aside[name] = f"flaky: {outcome}, then {again}"
        elif outcome in FAILING and test_file(name) == name:
            aside[name] = f"cannot be collected: {_last(first.messages.get(name, ''))}"
        elif outcome in FAILING:
            aside[name] = f"fails: {_last(first.messages.get(name, ''))}"
        elif test_file(name) in code:
            aside[name] = "in the code: a solver would have the test in hand"
        else:
            kept[name] = outcome
    for name in second.outcomes:
        if name not in first.outcomes and name not in aside:
            aside[name] = "flaky: not there the first time"
    return kept, aside


def _uncollectable(aside: dict[str, str]) -> list[str]:
    return [name for name in aside if test_file(name) == name]


def _last(message: str) -> str:
    """The line of a traceback that says what happened."""
    lines = [line for line in message.splitlines() if line.strip()]
    named = [line.removeprefix("E   ") for line in lines if _NAMED.match(line)]
    return (named or lines or ["no reason given"])[-1].strip()[:200]


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(f"`{path}`" for path in paths[:SHOWN]) + more
