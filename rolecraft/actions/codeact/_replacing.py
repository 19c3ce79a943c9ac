"""Replacing a text that must stand in a file exactly once, and saying why it does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from rolecraft.actions.codeact._text import lines_of, numbered
from rolecraft.errors import ToolError

_NUMBER = re.compile(r"^ *\d+\t")
_MANY = 20
"""How many places are listed."""
_SHOWN = 12
"""How many lines of a place are shown."""
_COMPARED = 300
"""How many characters of a line are compared."""


def replaced_once(text: str, old: str, new: str, path: str) -> tuple[str, int]:
    """The text with `new` for `old`, and the line (from 1) where that is. Raises `ToolError`."""
    if not old:
        raise ToolError("`old_str` is empty. To add text use the command `insert`.")
    if old == new:
        raise ToolError("`old_str` and `new_str` are the same: nothing would change.")
    at = text.find(old)
    if at < 0:
        raise ToolError(f"`{path}` was not changed: {_why_not_found(text, old)}")
    if text.find(old, at + 1) >= 0:
        raise ToolError(f"`{path}` was not changed: {_too_often(text, old)}")
    return text[:at] + new + text[at + len(old) :], text.count("\n", 0, at) + 1


def _too_often(text: str, old: str) -> str:
    places: list[int] = []
    count, at, line, seen = 0, text.find(old), 1, 0
    while at >= 0:
        count += 1
        line, seen = line + text.count("\n", seen, at), at
        if len(places) < _MANY:
            places.append(line)
        at = text.find(old, at + 1)
    more = f" and {count - _MANY} more" if count > _MANY else ""
    listed = ", ".join(map(str, places))
    return (
        f"`old_str` stands in it {count} times, beginning in lines {listed}{more}. It must stand "
        f"there once: put lines before or after it into `old_str`, until only one place is meant."
    )


def _why_not_found(text: str, old: str) -> str:
    lines, wanted = lines_of(text), lines_of(old)
    if all(map(_NUMBER.match, wanted)):
        return (
            "`old_str` has line numbers in front of its lines. They are not in the file, only in "
            "what `view` shows: leave them out."
        )
    if "\\n" in old and old.replace("\\n", "\n") in text:
        return (
            "`old_str` has a backslash and an `n` where the file has a line break. Write real line "
            "breaks."
        )
    if places := _but_for_whitespace(lines, wanted):
        first = places[0]
        there = lines[first : first + len(wanted)]
        others = f" (and {len(places) - 1} more places)" if len(places) > 1 else ""
        return (
            f"`old_str` stands at line {first + 1}{others} with other whitespace: "
            f"{_difference(there, wanted)}. The file has:\n{numbered(there[:_SHOWN], first + 1)}"
        )
    if (near := _nearest(lines, wanted)) is not None:
        there = lines[near : near + len(wanted)][:_SHOWN]
        return (
            f"`old_str` does not stand in it. The closest lines are:\n{numbered(there, near + 1)}"
        )
    return "`old_str` does not stand in it, and no line is close to it."


def _but_for_whitespace(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where (from 0) the wanted lines stand, if whitespace does not count."""
    want = [_bare(line) for line in wanted]
    if not any(want):
        return []
    have = [_bare(line) for line in lines]
    width = len(want)
    return [
        at
        for at in range(len(have) - width + 1)
        if have[at] == want[0] and have[at : at + width] == want
    ][:_MANY]


def _bare(line: str) -> str:
    return "".join(line.split())


def _difference(there: Sequence[str], wanted: Sequence[str]) -> str:
    """What is other about the whitespace, at the first line where it is."""
    for number, (have, want) in enumerate(zip(there, wanted, strict=True), 1):
        if have == want:
            continue
        which = f"line {number} of `old_str`" if len(wanted) > 1 else "it"
        have_indent, want_indent = _indent(have), _indent(want)
        if number == 1 and have_indent.endswith(want_indent):
            have_indent, have = want_indent, want_indent + have.lstrip()  # it may begin in the line
            if have == want:
                continue
        if have_indent != want_indent:
            return f"{which} is indented by {_named(want_indent)}, in the file by " + _named(
                have_indent
            )
        if have.rstrip() == want.rstrip():
            return f"{which} ends with {_named(_end(want))}, in the file with {_named(_end(have))}"
        return f"{which} has other whitespace between its words"
    return "the line breaks are others, or the one at the end"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _end(line: str) -> str:
    return line[len(line.rstrip()) :]


def _named(space: str) -> str:
    """Whitespace in words: `4 spaces`, `1 tab and 2 spaces`."""
    names = {" ": "space", "\t": "tab"}
    parts = []
    for run in re.finditer(r"(.)\1*", space, re.DOTALL):
        name, count = names.get(run[1], f"{run[1]!r}"), len(run[0])
        parts.append(f"{count} {name}{'s' if count > 1 and run[1] in names else ''}")
    return " and ".join(parts) or "nothing"


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where (from 0) the lines are that are most like the wanted ones, by the longest of these."""
    anchor = max(range(len(wanted)), key=lambda at: len(wanted[at].strip()), default=None)
    if anchor is None or not wanted[anchor].strip():
        return None
    best, best_at = 0.5, None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:_COMPARED])
    seen: set[str] = set()
    for at, line in enumerate(lines):
        line = line.strip()[:_COMPARED]
        if line in seen:
            continue
        seen.add(line)
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, best_at = ratio, at
    return None if best_at is None else max(0, best_at - anchor)
