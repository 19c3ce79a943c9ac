"""Whether the tests that an instance names are there at all.

A name that is misspelt would else look like a test that every patch fails. A test is missing if
pytest does not collect it from the base with the reference. Without a reference the base tells of
the tests to keep, which pass there; of one to mend, which the fix may bring into being (by a list
of parameters, say), only where its name does not even stand in its file.

pytest is asked only where there is doubt: before a model is paid, if a name does not stand in the
file of its test; after grading, if there was no result for it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from rolecraft.environments.software_engineering.bases import Base
from rolecraft.environments.software_engineering.instances import BadInstance, Instance
from rolecraft.environments.software_engineering.patches import Change, put
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import test_file
from rolecraft.sandboxes import SandboxLimits, SandboxProvider, SandboxSpec


@dataclass(frozen=True, slots=True)
class Collected:
    """What pytest collects of the named files."""

    tests: frozenset[str] = frozenset()
    errors: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be collected, and the last line of why."""

    def has(self, test: str) -> bool:
        """Whether it is there, by the rule of `rules.outcome_of` for ids that were cut off."""
        cut = test.count("[") > test.count("]")
        return test in self.tests or (cut and any(each.startswith(test) for each in self.tests))


def doubtful_names(instance: Instance, base: Base) -> list[str]:
    """The tests whose name does not stand in the file of theirs, or whose file is not there."""
    if instance.runner != "pytest":
        return []
    words: dict[str, frozenset[str]] = {}
    found: list[str] = []
    for test in (*instance.fail_to_pass, *instance.pass_to_pass):
        if not (path := test_file(test)):
            continue
        if path not in words:
            words[path] = _words(base.graded / path)
        name = test.partition("[")[0].rpartition("::")[2].rpartition(".")[2]
        if name not in words[path]:
            found.append(test)
    return found


def check_collected(
    instance: Instance, doubtful: Iterable[str], collected: Collected, base: Base
) -> None:
    """Raise `BadInstance` for the first of these tests that is missing.

    `collected` is of the base with the reference, if the instance has one.
    """
    kept = set(instance.pass_to_pass)
    for test in doubtful:
        if collected.has(test):
            continue
        error = collected.errors.get(test_file(test))
        if error is not None and not instance.patch:
            continue  # the fix may be what it wants
        where = "of the base with the reference" if instance.patch else "of the base"
        why = f"its file cannot be collected {where}: {error}" if error else ""
        known = {*collected.tests} if error is None else set()
        if not (base.graded / test_file(test)).is_file():
            why, known = "its file is not there", known | set(base.tests)
        near = difflib.get_close_matches(test, known, n=1)
        raise BadInstance(
            "pass_to_pass" if test in kept else "fail_to_pass",
            f"names the test {test!r}, but {why or f'pytest collects none of this id {where}'}"
            + (f"; the nearest is {near[0]!r}" if near else ""),
            instance=instance.id,
        )


async def collect(
    provider: SandboxProvider,
    limits: SandboxLimits,
    instance: Instance,
    base: Base,
    runtime: Runtime,
    *,
    reference: tuple[Change, ...] = (),
) -> Collected | None:
    """Ask pytest, in a sandbox of its own. None if it does not say. Raises `SandboxError`."""
    named = {test_file(test) for test in (*instance.fail_to_pass, *instance.pass_to_pass)} - {""}
    files = sorted(file for file in named if (base.graded / file).exists())
    command = [runtime.python, "-I", "-c", _text(), "-q", "-p", "no:cacheprovider", "--rootdir=."]
    settings = {"path": instance.python_path, "site": runtime.site}
    spec = SandboxSpec(base=base.graded, readable=runtime.readable, limits=limits)
    async with await provider.create(spec) as sandbox:
        await put(sandbox, reference, python=runtime.python)
        done = await sandbox.run(
            [*command, *instance.test_command, *files], stdin=f"{json.dumps(settings)}\n"
        )
    try:
        said = json.loads(done.stdout)
        return Collected(frozenset(said["tests"]), said["errors"])
    except (ValueError, KeyError, TypeError):  # it ended before: grading says how
        return None


@lru_cache(maxsize=512)
def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(re.findall(r"\w+", path.read_text("utf-8", "replace")))
    except OSError:
        return frozenset()


@cache
def _text() -> str:
    return Path(__file__).with_name("_collect.py").read_text("utf-8")
