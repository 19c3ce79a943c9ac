"""Lines of a log as a terminal would have left them: of a progress bar only how it stood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# ECMA-48: control sequences, which move the cursor and set colours.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def log_lines(pieces: Iterable[str]) -> Iterator[str]:
    """The lines of a text that comes in pieces.

    A bar writes over its own line, again and again: of what came in one piece its last state is
    kept.
    """
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + _SEQUENCE.sub("", piece)).split("\n")
        for line in whole:
            yield _last_state(line)
        *states, rest = rest.split("\r")
        if shown := [state for state in states if state]:
            yield shown[-1]
    if shown_at_end := _last_state(rest):
        yield shown_at_end


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "")
