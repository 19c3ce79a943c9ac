"""Searching the files of a sandbox, for tools and for grading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rolecraft.actions.codeact._text import plain, short
from rolecraft.errors import ToolError

if TYPE_CHECKING:
    from rolecraft.sandboxes.base import Execution
    from rolecraft.sandboxes.live import LiveSandbox

_OUTPUT_BYTES = 2**21
_LINE_CHARACTERS = 300
_CUT = re.compile(r"\n\[\.\.\. \d+ bytes left out")
"""Where the middle of the output is missing."""
_LEFT_OUT = (".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv")
"""Folders that are not searched, unless one of them is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A line that matches."""

    path: str
    """As the place to search was given: relative to the work folder, or absolute."""
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    """Lines that match, by path and line, and whether there are more."""

    hits: tuple[SearchHit, ...] = ()
    more: bool = False

    def __str__(self) -> str:
        """By file, as `ripgrep` shows it."""
        parts: list[str] = []
        last = ""
        for hit in self.hits:
            if hit.path != last:
                parts.append(f"\n{hit.path}" if parts else hit.path)
                last = hit.path
            parts.append(f"{hit.line}:{hit.text}")
        if self.more:
            parts.append(
                f"\n[Only the first {len(self.hits)}. Search for less, or in fewer files.]"
            )
        return "\n".join(parts) or "No line matches."


async def search_files(
    sandbox: LiveSandbox,
    pattern: str,
    *,
    path: str = ".",
    glob: str = "",
    ignore_case: bool = False,
    limit: int = 100,
) -> SearchHits:
    """Lines of text files below `path` (or of that file) that match a regular expression.

    The expression is Perl's, or POSIX's extended one where `grep` knows no other. `glob` chooses
    files: `*.py`, or, with a slash, by the path below `path`: `src/**/*.py`. Raises `ToolError`
    for an expression or a path that cannot be.
    """
    if not pattern or "\0" in pattern + path + glob or "\n" in pattern:
        raise ToolError(f"The pattern {pattern!r} is empty, or not of one line.")
    words = ["grep", "-rnIHZs", "--devices=skip", *(["-i"] if ignore_case else [])]
    words += [f"--exclude-dir={name}" for name in _LEFT_OUT if name not in path.split("/")]
    if glob:
        words.append(f"--include={glob.rpartition('/')[2] or '*'}")
    limits = replace(sandbox.spec.limits, output_bytes=_OUTPUT_BYTES)
    for dialect in ("-P", "-E"):
        command = [*words, dialect, "-e", pattern, "--", path or "."]
        done = await sandbox.run(command, limits=limits)
        if done.exit_code != 2 or "-P" not in done.stderr:
            break  # else this `grep` was built without Perl's expressions
    if not done.stdout and not await _was_searched(sandbox, path, done):
        raise ToolError(f"The search for {pattern!r} failed: {done}")
    chosen = re.compile(_expression(glob)) if "/" in glob else None
    found: list[SearchHit] = []
    below = f"{path.removeprefix('./').rstrip('/')}/"
    output = _CUT.split(done.stdout, 1)[0] if done.stdout_truncated else done.stdout
    for hit in _hits(output):
        if chosen is None or chosen.fullmatch(hit.path.removeprefix(below)):
            if len(found) == limit:
                return SearchHits(hits=tuple(found), more=True)
            found.append(hit)
    return SearchHits(hits=tuple(found), more=done.stdout_truncated or done.failure is not None)


async def _was_searched(sandbox: LiveSandbox, path: str, done: Execution) -> bool:
    """Whether that nothing was found means that nothing is there."""
    if done.exit_code == 1 or done.ok:
        return True
    if done.failure or done.stderr:  # with `-s`, only a bad expression is told
        return False
    if not (await sandbox.run(["test", "-e", path or "."])).ok:
        raise ToolError(f"`{path}` does not exist.")
    return True


def _hits(output: str) -> Iterator[SearchHit]:
    """The hits of `grep -nZ`, sorted: a path, a zero, the number, a colon, and the line."""
    found = []
    path, *pieces = output.split("\0")
    for piece in pieces:
        line, end, following = piece.partition("\n")  # paths may hold line breaks, lines do not
        number, _, text = line.partition(":")
        if end:  # else it was cut off by the limit
            found.append((path.removeprefix("./"), int(number), text))
        path = following
    for name, at, text in sorted(found):
        yield SearchHit(path=name, line=at, text=short(plain(text), _LINE_CHARACTERS))


def _expression(glob: str) -> str:
    """A glob with slashes as a regular expression; `**` spans folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.removeprefix("./").removeprefix("/"))
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part) or re.escape(part) for part in parts)
