"""What a patch does to the code's quality: findings of ruff, cyclomatic complexity, size.

Lines are counted in all files of text; the rest only of Python files. Sources that cannot be
parsed, or are very large, have no complexity. Ruff is optional. What cannot be measured is None,
and `without` says why.
"""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering._parsing import parse
from rolecraft.environments.software_engineering.patches import Change, content_before
from rolecraft.environments.software_engineering.unified import lines_changed
from rolecraft.errors import RolecraftError

MOST_PARSED = 2**20
"""Of more characters on one side, neither complexity nor ruff's findings are measured."""
RUFF_SECONDS = 60.0
"""What ruff may take for both sides."""
BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert),
    *(ast.comprehension, ast.match_case),
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The touched files, before or after."""

    lines: int = 0
    complexity: int | None = None
    """McCabe's number summed over all functions: 1, and 1 for each branch."""
    findings: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Both sides of a patch."""

    before: Side
    after: Side
    lines_added: int | None = 0
    lines_removed: int | None = 0
    without: tuple[str, ...] = ()
    """Why something is None, if anything is for another reason than that a source is no Python."""


async def quality_of(base: Path, changes: Sequence[Change]) -> Quality:
    """Measure `changes` of the folder `base`, in a thread. Nothing in them makes it raise."""
    return await asyncio.to_thread(_quality_of, base, changes)


def _quality_of(base: Path, changes: Sequence[Change]) -> Quality:
    without: list[str] = []
    added: int | None = None
    removed: int | None = None
    try:
        added, removed = lines_changed(base, changes)
    except (OSError, RolecraftError) as error:
        without.append(f"lines are not counted: {error}")
    sides: tuple[list[str], list[str]] = ([], [])
    for change in changes:
        if change.path.endswith(".py") and change.kind != "link":
            for side, content in zip(
                sides, (content_before(base, change.path), change.content), strict=True
            ):
                side.append((content or b"").decode("utf-8", "replace"))
    size = max(sum(map(len, side)) for side in sides)
    if size > MOST_PARSED:
        without.append(f"only lines are counted: {size} characters; {MOST_PARSED} are the most")
        findings: tuple[int | None, ...] = (None, None)
        branches: tuple[int | None, ...] = (None, None)
    else:
        branches = tuple(map(_complexity, sides))
        try:
            findings = _findings(sides)
        except (OSError, RolecraftError) as error:
            findings = (None, None)
            without.append(f"findings are not counted: {error}")
    before, after = (
        Side(lines=sum(map(_lines, side)), complexity=branch, findings=found)
        for side, branch, found in zip(sides, branches, findings, strict=True)
    )
    return Quality(
        before=before,
        after=after,
        lines_added=added,
        lines_removed=removed,
        without=tuple(without),
    )


def _lines(source: str) -> int:
    return source.count("\n") + (not source.endswith("\n") and source != "")


def _complexity(sources: Sequence[str]) -> int | None:
    """Of all sources together; None if one of them is no Python."""
    found = [complexity(source) for source in sources]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def complexity(source: str) -> int | None:
    """McCabe's cyclomatic complexity of all functions of a module together; None if it is no
    Python.

    McCabe, A Complexity Measure, IEEE Transactions on Software Engineering 2 (1976): branches + 1,
    where `a and b` is a branch too.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, *BRANCHES)):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
    return found


def _ruff() -> str | None:
    beside = Path(sys.prefix, "bin", "ruff")
    return str(beside) if beside.exists() else shutil.which("ruff")


def _findings(sides: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """How much ruff's default rules find on each side, whatever settings the project has.

    Raises `RolecraftError` if ruff is not there, fails, or takes too long.
    """
    ruff = _ruff()
    if ruff is None:
        raise RolecraftError("`ruff` is not installed: pip install ruff")
    if not any(sides):
        return tuple(0 for _ in sides)
    with tempfile.TemporaryDirectory(prefix="rolecraft-ruff-") as folder:
        for number, sources in enumerate(sides):
            place = Path(folder, f"side_{number}")
            place.mkdir()
            for each, source in enumerate(sources):
                (place / f"file_{each}.py").write_text(source, "utf-8")
        command = [ruff, "check", "--isolated", "--no-cache", "--exit-zero"]
        command += ["--ignore-noqa", "--output-format=json", folder]
        try:
            done = subprocess.run(command, capture_output=True, timeout=RUFF_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise RolecraftError(f"`ruff` took more than {RUFF_SECONDS} s") from error
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        found = error
    if done.returncode or not isinstance(found, list):
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise RolecraftError(f"`ruff` failed with exit code {done.returncode}: {said}")
    of = Counter(Path(each["filename"]).parent.name for each in found)
    return tuple(of[f"side_{number}"] for number in range(len(sides)))
