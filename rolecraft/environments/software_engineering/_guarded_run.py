"""One run of pytest under the guard, in a sandbox of its own.

What the guard gets to know beforehand (`settings`) is said here, and what it reports is read here.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from rolecraft.environments.software_engineering._known import Compiled, Known, digest
from rolecraft.environments.software_engineering.bases import Base
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import PUT, Change, PatchError, orders
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import settings_file, test_file
from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Execution, SandboxLimits, SandboxProvider, SandboxSpec
from rolecraft.sandboxes.test_reports import TestReport, pytest_command, read_pytest_report_log

PARTS = ("_runner_parts.py", "_held_sources.py", "_twins.py")
"""What the guard is given beside its own text."""
OPTIONS = ("-q", "--tb=native", "-p", "no:cacheprovider", "--rootdir=.")
"""Of pytest. Its other ways to show a failure read and parse the source of the test each time."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of pytest under the guard."""

    done: Execution
    report: TestReport
    tampering: list[str]
    marked: frozenset[tuple[str, str]]
    """Tests and outcomes that they have by their own marks, as these were when collected."""

    def doubtful(self, instance: Instance) -> list[str]:
        """The tests that were skipped or expected to fail, and not by their own marks."""
        named = (*instance.fail_to_pass, *instance.pass_to_pass)
        cut = tuple(name for name in named if name.count("[") > name.count("]"))
        return [
            name
            for name, outcome in self.report.outcomes.items()
            if outcome in ("skipped", "xfailed")
            and (name, outcome) not in self.marked
            and (name in named or name.startswith(cut))
        ]

    def less(self, unpatched: Ran, instance: Instance) -> Ran:
        """Without what is so without the patch, too. A doubtful test that is not has failed."""
        outcomes = dict(self.report.outcomes)
        for name in self.doubtful(instance):
            if unpatched.report.outcomes.get(name) != outcomes[name]:
                outcomes[name] = "failed"
        return dataclasses.replace(
            self,
            report=dataclasses.replace(self.report, outcomes=outcomes),
            tampering=[each for each in self.tampering if each not in unpatched.tampering],
        )


@dataclass(frozen=True, slots=True)
class GuardedRun:
    """How the tests of one instance are run in one provider."""

    provider: SandboxProvider
    limits: SandboxLimits
    known: Known
    instance: Instance
    base: Base
    runtime: Runtime

    async def patched(self, changes: tuple[Change, ...]) -> Ran:
        """With `changes` of the base. Raises `PatchError` if they do not fit, and `SandboxError` if
        there is no sandbox or no pytest.
        """
        return await self._run(changes, orders(changes), unpatched=False)

    async def unpatched(self, changes: tuple[Change, ...]) -> Ran:
        """Without them, to compare with. The same is run once."""
        paths = frozenset(change.path for change in changes)
        key = (self.base.graded, self.runtime, self.limits, paths)
        ran = self.known.unpatched.get(key)
        if ran is None:
            ran = await self._run(changes, [], unpatched=True)
            if ran.report.finished and not ran.done.failure:  # cut short, it says too little
                done = dataclasses.replace(ran.done, stdout="", stderr="")
                self.known.unpatched.put(key, dataclasses.replace(ran, done=done))
        return ran

    async def _run(
        self, changes: tuple[Change, ...], to_put: list[dict[str, object]], *, unpatched: bool
    ) -> Ran:
        keys = self._compiled_as()
        if missing := self.known.to_compile(keys):
            *_, entries = await self._pytest(compiling=missing)
            for made in (entry["compiled"] for entry in entries if "compiled" in entry):
                for path, compiled in made.items():
                    self.known.compiled.put(keys[path], compiled)
        done, report, entries = await self._pytest(
            changed=[change.path for change in changes],
            orders=to_put,
            unpatched=unpatched,
            compiled=self.known.ready(keys),
        )
        if not any("started" in entry for entry in entries):  # no code of the patch has run by then
            for entry in map(_entry, done.stdout.splitlines()):
                if "unfit" in entry:
                    raise PatchError("patch_does_not_apply", str(entry["unfit"]))
            if to_put and done.failure == "memory":
                await self.unpatched(changes)  # or `SandboxError`: then it is not the patch's doing
                raise PatchError("patch_too_large", "no memory was left to start pytest with it")
            raise SandboxError(f"pytest could not be started: {done}")
        tampering = [str(entry["tampered"]) for entry in entries if "tampered" in entry]
        # By the report itself: what a hook in the sandbox sees, another one can change later.
        tampering += [
            f"{name}, of which a copy is skipped, was reported as passed"
            for name in (str(entry["skipped_twin"]) for entry in entries if "skipped_twin" in entry)
            if report.outcomes.get(name) in ("passed", "xpassed")
        ]
        if report.finished and not any("finished" in entry for entry in entries):
            tampering.append("the guard did not see the end of the tests")
        marked = frozenset(
            (str(entry["marked"]), str(entry["outcome"])) for entry in entries if "marked" in entry
        )
        return Ran(done, report, tampering, marked)

    async def _pytest(
        self,
        *,
        changed: Sequence[str] = (),
        orders: Sequence[dict[str, object]] = (),
        unpatched: bool = True,
        compiled: Mapping[str, Compiled] = {},
        compiling: Sequence[str] = (),
    ) -> tuple[Execution, TestReport, list[dict[str, Any]]]:
        """Start the guard with these settings. What it and pytest report, in a fresh sandbox."""
        token = secrets.token_hex(16)
        ini, content = self._own_settings()
        settings = {
            "driver": pytest_command()[2],
            "parts": [_text(part) for part in PARTS],
            "put": PUT,
            "orders": orders,
            "ini": None if content is None else [ini, content.hex()],
            "held": self.base.tests,
            "changed": changed,
            "unpatched": unpatched,
            "compiled": compiled,
            "compiling": compiling,
            "wanted": self.instance.fail_to_pass,
            "path": self.instance.python_path,
            "site": self.runtime.site,
            "seed": secrets.token_hex(16),
        }
        command = [self.runtime.python, "-I", "-c", _text("_guard.py"), *OPTIONS]
        command += [*self.instance.test_command, *self._files(), "-c", ini]
        spec = SandboxSpec(
            base=self.base.graded, readable=self.runtime.readable, limits=self.limits
        )
        async with await self.provider.create(spec) as sandbox:
            done = await sandbox.run(command, stdin=f"{json.dumps(settings)}\n{token}\n")
        report = read_pytest_report_log(done.stdout, exit_code=done.exit_code, token=token)
        entries = [
            entry
            for entry in map(_entry, done.stdout.splitlines())
            if entry.get("$report_type") == "Guard" and entry.get("token") == token
        ]
        return done, report, entries

    def _files(self) -> list[str]:
        """The files of the tests that are named, as far as they are there."""
        named = (*self.instance.fail_to_pass, *self.instance.pass_to_pass)
        files = {test_file(test) for test in named} - {""}
        return sorted(file for file in files if (self.base.graded / file).exists())

    def _own_settings(self) -> tuple[str, bytes | None]:
        """Pytest's settings of the base, and a name for a copy that no file of the patch has.

        pytest is told to read that, so what it would find by itself in the work folder, however it
        is spelt, does not count. The guard writes it, and deletes it as soon as it is read. Paths
        in settings are relative to their file, so it lies beside the one that it is a copy of.
        """
        found = settings_file(self.base.graded, self.instance)
        if found.endswith("pytest.toml"):  # it counts by its name alone, and no patch may change it
            return found, None
        content = (self.base.graded / found).read_bytes() if found else b""
        name = secrets.token_hex(8) + (PurePosixPath(found).suffix or ".ini")
        return str(PurePosixPath(found or name).with_name(name)), content

    def _compiled_as(self) -> dict[str, Hashable]:
        """What the compiled form of each test file depends on, beside the provider."""
        found = settings_file(self.base.graded, self.instance)
        settings = digest(self.base.graded / found) if found else ""
        paths = {path for path in self.base.tests if path.endswith("conftest.py")}
        paths.update(set(self._files()) & set(self.base.tests))
        common = (self.runtime, self.instance.test_command, settings)
        return {path: (path, digest(self.base.graded / path), *common) for path in sorted(paths)}


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
