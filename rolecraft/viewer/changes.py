"""What a run changed and how its tests ended: patches as diffs, lists of tests as lists.

A patch is an artifact whose content is a unified diff; of one name the last version is shown. Lists
of tests are in the data of checks: `{"tests": {"to mend": {"passed": [...], "failed": [...]}}}`,
where a number may stand for a list. A trace of another tool may hold anything there; what is not
understood is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.in_words import count
from rolecraft.viewer.markup import Markup, element, join
from rolecraft.viewer.sequence import anchor

_HUNK = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@", re.MULTILINE)
_LONG = 200
"""A patch of more lines folds away."""
_MOST = 5_000
"""Of a patch that is longer, so many lines are shown."""
_MANY = 12
"""A list of more tests folds away."""


def changes(trajectory: Trajectory) -> list[Markup]:
    """A section with the last version of each patch; nothing if there is none."""
    last = {
        event.artifact.name: event
        for event in trajectory.of("artifact")
        if event.artifact is not None and _HUNK.search(event.content)
    }
    if not last:
        return []
    return [element("h2", "What was changed"), *(_patch(event) for event in last.values())]


def results(trajectory: Trajectory) -> list[Markup]:
    """A section with the results of tests, for each check that has them; nothing if none has."""
    shown = [
        element("section", _verdict(event), _remarks(event), *lists)
        for event in trajectory.of("verify")
        if (lists := [*_lists(event.data.get("tests"))])
    ]
    return [element("h2", "What the tests say"), *shown] if shown else []


# --- patches ---------------------------------------------------------------------------------


def _patch(event: Event) -> Markup:
    lines = list(_lines(event.content))
    kinds = Counter(kind for _, kind in lines)
    names = {line[4:].split("\t")[0] for line, kind in lines if kind == "file"}
    files = {re.sub(r"^[ab]/", "", name) for name in names} - {"/dev/null"}
    said = join(
        [
            element("a", event.artifact.name if event.artifact else "", href=_at(event)),
            f": {count(len(files), 'file')}, {count(kinds['add'], 'line')} added, "
            f"{kinds['del']:,} removed",
        ]
    )
    shown = (element("span", f"{line}\n", class_=kind) for line, kind in lines[:_MOST])
    more = len(lines) - _MOST
    parts = [
        element("pre", *shown, class_="diff"),
        element("p", f"{more:,} more lines.", class_="quiet") if more > 0 else None,
    ]
    if len(lines) > _LONG:
        return element("details", element("summary", said), *parts)
    return element("div", element("p", said), *parts)


def _lines(patch: str) -> Iterator[tuple[str, str | None]]:
    """Each line and what it is. A line that was removed may begin as the name of a file does."""
    lines = patch.splitlines()
    named = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("--- ") and following.startswith("+++ "):
            named = True
            yield line, "file"
        elif named and line.startswith("+++ "):
            named = False
            yield line, "file"
        else:
            yield line, {"@": "hunk", "+": "add", "-": "del"}.get(line[:1])


def _at(event: Event) -> str:
    return f"#{anchor(event.seq)}"


# --- tests -----------------------------------------------------------------------------------


def _verdict(event: Event) -> Markup:
    passed = event.data.get("passed")
    word = "passed" if passed is True else "failed" if passed is False else "unknown"
    target = element("a", str(event.data.get("target", "check")), href=_at(event))
    said = element("mark", word) if passed is False else element("b", word)
    return element("p", target, ": ", said)


def _remarks(event: Event) -> Markup | None:
    """What the check says beside its lists: why it failed, what it left out."""
    names = tuple(f"{name}:" for name in event.data["tests"])
    lines = [line for line in event.content.splitlines() if not line.startswith((" ", *names))]
    return element("p", "\n".join(lines), class_="text") if lines else None


def _lists(found: Any) -> Iterator[Markup]:
    if not isinstance(found, Mapping):
        return
    for name, parts in found.items():
        if not isinstance(parts, Mapping):
            continue
        for part in ("failed", "passed"):
            size = _size(parts.get(part))
            if size or (size == 0 and part == "passed"):
                yield _list(f"{name}: {count(size, 'test')} {part}", part, parts[part])


def _list(title: str, part: str, names: Any) -> Markup:
    if not isinstance(names, list) or not names:
        return element("p", title, class_=f"tests {part}")
    listed = element("ul", *(element("li", element("code", str(name))) for name in names))
    # Failures are what one looks for.
    shown = part == "failed" or len(names) <= _MANY
    return element("details", element("summary", title), listed, open=shown, class_=f"tests {part}")


def _size(names: Any) -> int | None:
    if isinstance(names, list):
        return len(names)
    return names if isinstance(names, int) and not isinstance(names, bool) else None
