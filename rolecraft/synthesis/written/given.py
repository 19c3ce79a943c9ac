"""Bugs that patches tell of: fixes that are taken back on today's code, and bugs as they are.

What a patch does to the tests is left aside: the tests stay as they are today, and say whether the
bug is noticed.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering.instances import Polarity
from rolecraft.environments.software_engineering.patches import (
    Change,
    PatchError,
    changes_of_text,
)
from rolecraft.environments.software_engineering.taken import TEST_FOLDERS
from rolecraft.errors import UsageError
from rolecraft.synthesis.candidates import Candidate, Edit, Read, candidate_id
from rolecraft.synthesis.edits import git_lines, python_of
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.modifiers.meaning import joined, parts_of_file
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.written.asked import Asked, OnAsked, Written

_HEADER = re.compile(r"^(?:diff --git |--- (?=\S+.*\n\+\+\+ ))", re.MULTILINE)
_PATHS = re.compile(r"^(?:---|\+\+\+) (?:\"?[ab]/)?(?P<path>[^\t\n\"]+)", re.MULTILINE)
_RENAMED = re.compile(r"^(?:rename|copy) (?:from|to) (?P<path>.+)$", re.MULTILINE)


@dataclass(slots=True)
class GivenBugs:
    """What became of the patches."""

    made: int = 0
    before: int = 0
    """Patches that had been taken before."""
    aside: dict[str, list[str]] = field(default_factory=dict)
    """Names of patches that gave one without their edits of tests, and the files of those."""
    refused: dict[str, str] = field(default_factory=dict)
    """Names of patches that gave no candidate, and why."""


def read_patches(folder: Path) -> Iterator[tuple[str, str]]:
    """The `.patch` and `.diff` files of a folder, by name. Raises `UsageError` if it has none."""
    if not folder.is_dir():
        raise UsageError(f"`{folder}` is no folder: give one with .patch or .diff files.")
    found = sorted(each for each in folder.iterdir() if each.suffix in (".patch", ".diff"))
    if not found:
        raise UsageError(f"`{folder}` has no .patch or .diff file.")
    for each in found:
        yield each.name, each.read_bytes().decode("utf-8", "replace")


async def take_patches(
    folder: SynthesisFolder,
    patches: Iterable[tuple[str, str]],
    *,
    polarity: Polarity = "fix",
    on_asked: OnAsked = lambda asked: None,
) -> GivenBugs:
    """Candidates from unified diffs, given with a name each.

    With "fix" a patch mended the code once, and is taken back; with "bug" it plants one. One that
    does not apply to today's code is refused, and the rest goes on. Raises `UsageError` without a
    plan.
    """
    plan = Plan.load(folder)
    found = GivenBugs()
    with Written(folder) as ledgers:
        for name, patch in patches:
            digest = hashlib.sha256(patch.encode("utf-8", "replace")).hexdigest()[:16]
            item = f"{polarity}:{digest}"
            if (known := ledgers.asked.get(item)) is not None:
                if known.candidate is not None:
                    found.before += 1
                else:
                    found.refused[name] = known.why
                continue
            made, why = await _candidate(plan, name, patch, polarity)
            asked = ledgers.add(Asked(item=item, candidate=made, why=why))
            if asked.candidate is not None:
                found.made += 1
                if aside := asked.candidate.about.get("left_aside"):
                    found.aside[name] = aside
            else:
                found.refused[name] = asked.why
            on_asked(asked)
    return found


async def _candidate(
    plan: Plan, name: str, patch: str, polarity: Polarity
) -> tuple[Candidate | None, str]:
    """The candidate, or why there is none."""
    kept, aside = _without_tests(patch, plan)
    if not kept:
        return None, "it changes nothing but tests" if aside else "it is no unified diff"
    try:
        changes = await changes_of_text(Path(plan.project.source), kept, reverse=polarity == "fix")
    except PatchError as error:
        reason = f"does_not_apply: {' '.join(error.reason.split())}"
        return None, reason + await _other_way(plan, kept, polarity)
    read = plan.reader()
    edits: list[Edit] = []
    for change in changes:
        if (why := _unusable(change)) is not None:
            return None, f"does_not_apply: {why}"
        edits += _edits(change.path, read(change.path), change.text or "")
    if not edits:
        return None, "it changes nothing"
    parts = [
        part
        for change in changes
        for part in parts_of_file(change.path, read(change.path), change.text or "")
    ]
    if not parts:
        return None, "it changes comments and layout alone, so no test can tell"
    modifier = "mirror" if polarity == "fix" else "given"
    entities = list(dict.fromkeys(entity for edit in edits for entity in _entities(edit, read)))
    note = f"the patch {name}" + (", taken back" if polarity == "fix" else "")
    return Candidate(
        id=candidate_id(plan.project.name, modifier, edits),
        modifier=modifier,
        entity=" ".join(entities),
        edits=tuple(edits),
        key=joined(part.key for part in parts),
        note=f"{note}; left aside: {', '.join(aside)}" if aside else note,
        about={"patch": name, **({"left_aside": aside} if aside else {})},
    ), ""


async def _other_way(plan: Plan, patch: str, polarity: Polarity) -> str:
    """Words that say so if a patch that does not apply does the other way round."""
    try:
        await changes_of_text(Path(plan.project.source), patch, reverse=polarity == "bug")
    except PatchError:
        return ""
    other = "bug" if polarity == "fix" else "fix"
    return f"; the other way round it does: `--polarity {other}`"


def _without_tests(patch: str, plan: Plan) -> tuple[str, list[str]]:
    """The parts of a diff that are of other files than tests, and the tests' paths.

    What the plan has as code is code, whatever its folder is called.
    """
    tests, code = {*plan.project.tests}, {*plan.project.code, *plan.project.skipped}
    starts = [place.start() for place in _HEADER.finditer(patch)]
    parts = [patch[start:end] for start, end in pairwise((*starts, len(patch)))]
    sections: list[str] = []
    for part in parts:  # `diff --git` and the `---` that belongs to it
        whole = (
            not sections or "\n+++ " in sections[-1] or not sections[-1].startswith("diff --git ")
        )
        if not whole and part.startswith("--- "):
            sections[-1] += part
        else:
            sections.append(part)
    kept: list[str] = []
    aside: list[str] = []
    for part in sections:
        paths = [each["path"].strip() for each in (*_PATHS.finditer(part.split("\n@@")[0]),)]
        paths += [each["path"] for each in _RENAMED.finditer(part)]
        named = [path for path in paths if path != "/dev/null"]
        if named and all(
            path in tests or (path not in code and _looks_like_a_test(path)) for path in named
        ):
            aside += [path for path in dict.fromkeys(named) if path not in aside]
        else:
            kept.append(part)
    return "".join(kept), aside


def _looks_like_a_test(path: str) -> bool:
    """Also a test that is not there today."""
    place = PurePosixPath(path)
    return (
        place.name.startswith("test_")
        or place.stem.endswith("_test")
        or place.name == "conftest.py"
        or bool(TEST_FOLDERS & set(place.parts[:-1]))
    )


def _unusable(change: Change) -> str | None:
    if change.kind != "file":
        what = "takes away" if change.kind == "gone" else "makes a link of"
        return f"it {what} `{change.path}`"
    if change.text is None:
        return f"`{change.path}` is no text"
    return None


def _edits(path: str, old: str, new: str) -> list[Edit]:
    """The lines that differ, as edits of whole lines."""
    was, now = git_lines(old), git_lines(new)
    places = [0]
    for line in was:
        places.append(places[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, was, now, autojunk=False)
    return [
        Edit(path, places[i], places[j], "".join(now[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _entities(edit: Edit, read: Read) -> list[str]:
    """The innermost function or class around an edit; the file where that is not known."""
    if not edit.path.endswith(".py"):
        return [edit.path]
    try:
        tree = ast.parse(python_of(read(edit.path)))
    except (SyntaxError, ValueError, RecursionError):
        return [edit.path]
    first = read(edit.path).count("\n", 0, edit.start) + 1
    last = max(first, read(edit.path).count("\n", 0, max(edit.end - 1, edit.start)) + 1)
    names: list[str] = []
    body: Sequence[ast.stmt] = tree.body
    while True:
        for node in body:
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and node.lineno <= first
                and last <= (node.end_lineno or node.lineno)
            ):
                names.append(node.name)
                body = node.body if isinstance(node, ast.ClassDef) else ()
                break
        else:
            break
    return [f"{edit.path}::{'.'.join(names)}" if names else edit.path]
