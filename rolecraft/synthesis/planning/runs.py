"""One run of all clean tests, in a sandbox as the one that grading uses.

A test that never ends, or that ends its whole run, costs that test: it is left out, and the rest is
run again. A file of tests that does so while it is collected costs that file.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering._guarded_run import OPTIONS
from rolecraft.environments.software_engineering.grading import LIMITS
from rolecraft.environments.software_engineering.patches import manifest
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.errors import UsageError
from rolecraft.sandboxes import Execution, LiveSandbox, SandboxProvider, SandboxSpec
from rolecraft.sandboxes.test_reports import (
    Outcome,
    TestReport,
    pytest_command,
    read_pytest_report_log,
)
from rolecraft.sandboxes.test_runners import JUnit
from rolecraft.synthesis.planning._probe import NEVER_ENDS
from rolecraft.synthesis.planning.environment import out_of_reach
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.synthesis.project import Project

MOST_LEFT_OUT = 20
"""More tests that never end, and the suite is not one to count on."""
NOT_FOUND = 127
"""How a command ends that is not there."""
TRACED = 4
"""So much longer a run may take while lines are counted."""
_LINES = "/tmp/rolecraft-lines"
_LINES_BYTES = 512 * 2**20
_REPORT_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRun:
    """What the tests did."""

    outcomes: Mapping[str, Outcome]
    messages: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    written: tuple[str, ...] = ()
    """Files of the repository that are others after the tests."""
    lines: Mapping[str, Any] | None = None
    """Which lines ran in which test, as `_probe.Lines` says it."""
    printed: str = ""


@dataclass
class CleanRuns:
    """Runs the tests of one project. `left_out` says which tests cannot be run, and why."""

    provider: SandboxProvider
    base: Path
    runtime: Runtime
    project: Project
    settings: PlanSettings
    left_out: dict[str, str] = field(default_factory=dict)
    lost_files: dict[str, str] = field(default_factory=dict)
    """Files of tests whose collection never ends, or ends the run."""

    async def run(
        self, tests: Sequence[str] = (), *, hash_seed: int, tools: Path | None = None
    ) -> CleanRun:
        """Run `tests` (files, folders; all if none). With `tools`, a folder with coverage, lines
        are counted. Raises `UsageError` if they do not come to an end.
        """
        if self.project.runner != "pytest":
            return await self._reporting()
        outcomes: dict[str, Outcome] = {}
        messages: dict[str, str] = {}
        seconds: dict[str, float] = {}
        wall, written = 0.0, set[str]()
        while True:
            piece = await self._piece(tests, [*outcomes], hash_seed, tools)
            outcomes |= piece.report.outcomes
            messages |= piece.report.messages
            seconds |= piece.ended
            wall += piece.done.seconds
            written |= piece.written
            if piece.report.finished:
                break
            self._leave_out(piece)
            if tools is not None:  # lines that were counted are lost with the run
                outcomes, messages, wall = {}, {}, 0.0
        if piece.report.fault:
            raise UsageError(f"The report of the clean tests is not whole: {piece.report.fault}.")
        for name in [name for name in outcomes if name in self.left_out]:
            del outcomes[name]
        return CleanRun(
            outcomes=outcomes,
            messages=messages,
            seconds=seconds,
            wall_seconds=wall,
            written=tuple(sorted(written)),
            lines=piece.lines,
            printed=piece.done.stderr,
        )

    async def _reporting(self) -> CleanRun:
        """By a command that leaves a report."""
        limits = dataclasses.replace(
            LIMITS,
            seconds=self.settings.suite_seconds,
            cpu_seconds=int(self.settings.suite_seconds) + 1,
        )
        spec = SandboxSpec(base=self.base, readable=self.runtime.readable, limits=limits)
        async with await self.provider.create(spec) as sandbox:
            before = await manifest(sandbox)
            ran = await JUnit(self.project.test_command, self.project.report).run(sandbox)
            written = _written(before, await manifest(sandbox))
        if ran.execution.timed_out:
            raise self._too_long()
        if ran.report.fault:
            raise UsageError(
                f"`{' '.join(self.project.test_command)}` left no report that can be read: "
                f"{ran.report.fault} (exit code {ran.execution.exit_code}). It printed: "
                f"{_end(ran.printed)}"
            )
        return CleanRun(
            outcomes=ran.report.outcomes,
            messages=ran.report.messages,
            wall_seconds=ran.execution.seconds,
            # What a build makes is nobody's work.
            written=tuple(sorted(path for path in written if path in before)),
            printed=ran.printed,
        )

    async def _piece(
        self, tests: Sequence[str], done: Sequence[str], hash_seed: int, tools: Path | None
    ) -> _Piece:
        token = secrets.token_hex(16)
        factor = 1 if tools is None else TRACED
        seconds = self.settings.suite_seconds * factor
        settings = {
            "driver": pytest_command()[2],
            "path": self.project.python_path,
            "site": self.runtime.site,
            "left_out": [*self.left_out, *(() if tools else done)],
            "test_seconds": self.settings.test_seconds * factor,
            "tools": str(tools or ""),
            "code": self.project.code,
            "lines": "" if tools is None else _LINES,
        }
        limits = dataclasses.replace(
            LIMITS, seconds=seconds, cpu_seconds=int(seconds) + 1, output_bytes=_REPORT_BYTES
        )
        readable = (*self.runtime.readable, *(() if tools is None else (str(tools),)))
        spec = SandboxSpec(base=self.base, readable=readable, limits=limits)
        command = [self.runtime.python, "-s", "-c", _text(), *OPTIONS]
        command += ["--continue-on-collection-errors", *self.project.test_command]
        command += [f"--ignore={path}" for path in self.lost_files]
        command += [test for test in tests if test not in self.lost_files]
        async with await self.provider.create(spec) as sandbox:
            before = await manifest(sandbox)
            started = time.monotonic()
            ran = await sandbox.run(
                command,
                stdin=f"{json.dumps(settings)}\n{token}\n",
                env={"PYTHONHASHSEED": str(hash_seed)},
            )
            ran = dataclasses.replace(ran, seconds=time.monotonic() - started)
            written = _written(before, await manifest(sandbox))
            report = read_pytest_report_log(ran.stdout, exit_code=ran.exit_code, token=token)
            lines = await _lines(sandbox) if tools is not None and report.finished else None
        return _Piece.of(report, ran, token, written, lines)

    def _leave_out(self, piece: _Piece) -> None:
        """Leave out the test or file that a run did not get beyond."""
        if not piece.began:
            if piece.done.timed_out:
                raise self._too_long()
            if piece.done.exit_code == NOT_FOUND and self.runtime.site:
                raise self._no_python()
            raise UsageError(
                f"The tests cannot be run: pytest ended with exit code {piece.done.exit_code}. "
                f"It printed: {_end(piece.done.stderr)}"
            )
        name, is_file = piece.began
        if piece.done.timed_out:
            raise self._too_long(name)
        why = f"ends the run: exit code {piece.done.exit_code}"
        if NEVER_ENDS in piece.done.stderr[-2000:]:
            why = f"never ends: not within {self.settings.test_seconds:g} s"
        elif piece.done.failure == "memory":
            why = f"ends the run: it takes more than {LIMITS.memory_bytes // 2**20} MiB"
        (self.lost_files if is_file else self.left_out)[name] = why
        if len(self.left_out) + len(self.lost_files) > MOST_LEFT_OUT:
            names = ", ".join([*self.lost_files, *self.left_out][:5])
            raise UsageError(
                f"More than {MOST_LEFT_OUT} tests never end or end the run, such as {names}: "
                f"choose tests that do with --test-command, or give them more than "
                f"{self.settings.test_seconds:g} s with --test-seconds."
            )

    def _no_python(self) -> UsageError:
        why = out_of_reach(Path(self.project.environment))
        return UsageError(
            f"The tests cannot be run: sandboxes have no `{self.runtime.python}`"
            + (f", and {why}." if why else ". Give a venv of a Python that they have.")
        )

    def _too_long(self, test: str = "") -> UsageError:
        where = f" It was at `{test}`." if test else ""
        return UsageError(
            f"The clean tests did not end within {self.settings.suite_seconds:g} s.{where} Give "
            f"them more with --suite-seconds, or choose some with --test-command."
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """One process of pytest."""

    report: TestReport
    done: Execution
    written: set[str]
    lines: Mapping[str, Any] | None
    began: tuple[str, bool] | None
    """What had begun and not ended: its name, and whether it is a file that is collected."""
    ended: dict[str, float]
    """The seconds of each test that came to its end."""

    @classmethod
    def of(
        cls,
        report: TestReport,
        done: Execution,
        token: str,
        written: set[str],
        lines: Mapping[str, Any] | None,
    ) -> _Piece:
        began: tuple[str, bool] | None = None
        ended: dict[str, float] = {}
        for line in filter(None, done.stdout.split("\n")):
            try:
                entry = json.loads(line)
                kind, name = entry["$report_type"], entry.get("nodeid", "")
                if entry["token"] != token:
                    continue
            except (ValueError, KeyError, TypeError):  # the report's reader says what is wrong
                continue
            if kind == "Began":
                began = name, bool(entry.get("collects"))
            elif kind == "Ended":
                began = None
                if not entry.get("collects"):
                    ended[name] = entry["seconds"]
        return cls(report, done, written, lines, began, ended)


def _written(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """Files that differ; what tools leave behind does not count."""
    return {
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
        and ("litter",) not in (before.get(path), after.get(path))
    }


async def _lines(sandbox: LiveSandbox) -> Mapping[str, Any]:
    said = json.loads(zlib.decompress(await sandbox.read(_LINES, max_bytes=_LINES_BYTES)))
    assert isinstance(said, dict)
    return said


def _end(printed: str) -> str:
    """The last lines, for an error of one line."""
    lines = [line.strip() for line in printed.strip().splitlines() if line.strip()]
    return " | ".join(lines[-8:])[-1500:] or "nothing"


@cache
def _text() -> str:
    return Path(__file__).with_name("_probe.py").read_text("utf-8")
