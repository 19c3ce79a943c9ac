"""What a test runner says of a failing test, taken apart."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

_NATIVE = re.compile(r'^  File "(?P<path>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$')
_LONG = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+): ?(?P<rest>.*)$")
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
_FRAME = re.compile(r'^[ |]*File "[^"\n]+", line \d+')
_OF_PACKAGE = re.compile(r"\bsite-packages/\S+\.py:\d+")
_SAID = re.compile(r"^E(?:   (?P<said>.*)|\s*)$")


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a test failed, and with what."""

    line: int | None
    """Of the test's file, from 1: where the test itself stood."""
    error: str
    """The exception's type, without its module; empty where that is not said."""
    message: str
    below: tuple[tuple[str, int], ...] = ()
    """The places that it went through from there on, with files as the test's id names them."""


def read_failure(test: str, text: str) -> Failure:
    """What `text` says of the test with this id: pytest's tracebacks, long or native."""
    path, *names = test.partition("[")[0].split("::")
    name = names[-1] if names else ""
    if "Traceback (most recent call last)" in text or _NATIVE.search(text):
        return _native(path, name, text)
    return _long(path, text)


def _native(path: str, name: str, text: str) -> Failure:
    last = text.rpartition("Traceback (most recent call last):")[2]
    lines = last.split("\n")
    here: int | None = None
    after = 0
    below: list[tuple[str, int]] = []
    root = ""
    for number, line in enumerate(lines):
        frame = _NATIVE.match(line)
        if frame is None:
            continue
        after = number + 1
        if frame["path"].endswith(path) and (here is None or frame["name"] == name):
            here, below = int(frame["line"]), []
            root = frame["path"].removesuffix(path)
        elif here is not None:
            below.append((frame["path"].removeprefix(root), int(frame["line"])))
    while after < len(lines) and (lines[after].startswith(" ") or not lines[after]):
        after += 1
    return replace(_failure(here, "\n".join(lines[after:])), below=tuple(below))


def _long(path: str, text: str) -> Failure:
    here: int | None = None
    said: list[str] = []
    error = ""
    before = False
    below: list[tuple[str, int]] = []
    for line in text.split("\n"):
        if found := _SAID.match(line):
            if not before:
                said = []  # of several exceptions the last one
            said.append(found["said"] or "")
        before = found is not None
        if (place := _LONG.match(line)) is not None:
            if here is not None:
                below.append((place["path"], int(place["line"])))
            elif place["path"].endswith(path):
                here = int(place["line"])
            error = place["rest"] or error
    words = "\n".join(line.removeprefix("    ") for line in said)
    told = replace(_failure(here, words), below=tuple(below))
    if told.error == error.rpartition(".")[2] or not re.fullmatch(r"[\w.]+", error):
        return told
    return replace(told, error=error.rpartition(".")[2], message=words)


def _without_frames(said: str) -> str:
    """Without the lines of tracebacks: those of a group of exceptions, or of other packages."""
    kept: list[str] = []
    within: int | None = None
    for line in said.split("\n"):
        depth = len(line) - len(line.lstrip(" |"))
        if _FRAME.match(line):
            within = depth
        elif within is None or depth <= within:
            within = None
            if not _OF_PACKAGE.search(line):
                kept.append(line)
    return "\n".join(kept)


def _failure(line: int | None, said: str) -> Failure:
    said = _without_frames(said)
    found = _RAISED.match(said.strip("\n"))
    if found is None:
        return Failure(line, "", said.strip())
    return Failure(line, found["type"].rpartition(".")[2], (found["message"] or "").strip())


def compared(message: str) -> tuple[str, str] | None:
    """The two values that were to be equal: `assert 1 == 2` of pytest, `1 != 2` of unittest.

    None where the message says no two values, or cuts one of them.
    """
    first = message.partition("\n")[0]
    if first.startswith("assert "):
        return _split(first.removeprefix("assert "), " == ")
    first = re.sub(r"^(?:Lists|Tuples|Dicts|Sets|Sequences|Strings) differ: ", "", first)
    return _split(first, " != ")


def _split(said: str, sign: str) -> tuple[str, str] | None:
    sides = said.split(sign)
    if len(sides) != 2 or any(_is_cut(side) for side in sides):
        return _literal_split(sides, sign)
    return sides[0].strip(), sides[1].strip()


def _literal_split(sides: list[str], sign: str) -> tuple[str, str] | None:
    """Where the sign is in the values too: the place where both are literals."""
    for at in range(1, len(sides)):
        left, right = sign.join(sides[:at]), sign.join(sides[at:])
        try:
            ast.literal_eval(left)
            ast.literal_eval(right)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if not (_is_cut(left) or _is_cut(right)):
            return left, right
    return None


_CUT = 30
"""Characters: from here on pytest puts `...` in the place of the middle of a value."""
_SKIPPED = re.compile(r"^Skipping (\d+) identical (leading|trailing) characters in diff")
_AT_INDEX = re.compile(r"^At index (\d+) diff: (.+?) != (.+)$", re.MULTILINE)
_MORE = re.compile(r"^(Left|Right) contains (.+?)(?:, first extra item)?: (.+)$", re.MULTILINE)


def _is_cut(value: str) -> bool:
    if re.search(r"\[truncated\]|\[\d+ chars\]", value):
        return True
    return "..." in value and len(value) >= _CUT


def changed_text(message: str, wanted: str) -> str | None:
    """What came instead of the text `wanted`, from the lines of pytest's or unittest's diff.

    None where there is no whole diff whose one side is `wanted`.
    """
    lines = _explained(message)
    skipped = {"leading": 0, "trailing": 0}
    for line in lines:
        if found := _SKIPPED.match(line):
            skipped[found[2]] = int(found[1])
    begins, ends = skipped["leading"], len(wanted) - skipped["trailing"]
    middle = wanted[begins:ends]
    for minus, plus in (("- ", "+ "), ("+ ", "- ")):
        was: list[str] = []
        now: list[str] = []
        for line in lines:
            mark, rest = f"{line:<2}"[:2], line[2:]
            if mark in (minus, "  ") and line:
                was.append(rest)
            if mark in (plus, "  ") and line:
                now.append(rest)
        for end in ("", "\n"):
            if now and "\n".join(was) + end == middle:
                return wanted[:begins] + "\n".join(now) + end + wanted[ends:]
    return None


def difference(message: str) -> str:
    """Where two collections differ, as pytest says it; empty where it does not."""
    text = "\n".join(_explained(message))
    if found := _AT_INDEX.search(text):
        if not any(_is_cut(side) for side in found.groups()[1:]):
            return f"At index {found[1]} there is `{found[2]}` instead of `{found[3]}`."
    elif (found := _MORE.search(text)) and not _is_cut(found[3]):
        more = "too much" if found[1] == "Left" else "missing"
        return f"What is {more} begins with `{found[3]}`."
    return ""


def _explained(message: str) -> list[str]:
    """The lines after the first one, without what pytest puts before each."""
    lines = message.split("\n")[1:]
    if all(line.startswith("  ") or not line for line in lines):
        lines = [line[2:] for line in lines]
    return lines
