"""How much of the changed lines stands in a text."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator

from rolecraft.synthesis.texts.solution import Solution

LONGEST_RUN = 6
"""Tokens of changed lines that may not follow one another in a text."""
SHARE = 0.3
"""Of the changed lines' different runs of `GRAM` tokens: the share that no text reaches."""
GRAM = 4
FEWEST_GRAMS = 3
"""Runs in a text below which a share says nothing."""
LINE = 10
"""Characters, without spaces, from which a whole changed line is not to be quoted."""

STRING = (
    r"(?<!\w)[rbufRBUF]{0,2}"
    r"(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
)
"""The pattern of a string in Python, for `re.DOTALL`."""
_TOKEN = re.compile(rf"{STRING}|[^\W\d]\w*|\d[\w.]*|[^\w\s]", re.DOTALL)
_NAME = re.compile(r"[^\W\d]\w*\Z")


def overlap(text: str, solution: Solution) -> Iterator[str]:
    """What a text has of the lines that are added or taken away.

    The contents of strings do not count: what users see is made of them. A run counts if two of
    its tokens are names.
    """
    said = _tokens(text)
    joined = "\0".join(said)
    grams = {tuple(said[at : at + GRAM]) for at in range(len(said) - GRAM + 1)}
    for lines in (solution.removed, solution.added):
        changed = _tokens("\n".join(without_comments(lines, solution)))
        if run := _longest(changed, joined):
            yield run
            return
        of_patch = {
            gram
            for at in range(len(changed) - GRAM + 1)
            if _telling(gram := tuple(changed[at : at + GRAM]), 1)
        }
        shared = of_patch & grams
        if len(shared) >= FEWEST_GRAMS and len(shared) >= SHARE * len(of_patch):
            yield " … ".join(" ".join(gram) for gram in sorted(shared)[:2])
            return
    squeezed = "".join(text.split())
    for line in (*solution.removed, *solution.added):
        bare = "".join(line.split())
        if len(bare) >= LINE and _telling(_tokens(line), 2) and bare in squeezed:
            yield line.strip()
            return


def _longest(changed: list[str], joined: str) -> str:
    """The first run of `LONGEST_RUN` tokens of both, if there is one."""
    fenced = f"\0{joined}\0"
    for at in range(len(changed) - LONGEST_RUN + 1):
        run = changed[at : at + LONGEST_RUN]
        if _telling(run, 2) and "\0" + "\0".join(run) + "\0" in fenced:
            return " ".join(run)
    return ""


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _telling(tokens: Iterable[str], fewest: int) -> bool:
    """Whether so many of these are names, and none is a string."""
    tokens = tuple(tokens)
    if any(token[-1] in "'\"" and len(token) > 1 for token in tokens):
        return False
    names = [token for token in tokens if _NAME.match(token) and not keyword.iskeyword(token)]
    return len(names) >= fewest


def without_comments(lines: Iterable[str], solution: Solution) -> list[str]:
    """The same lines up to `#` or `//`, which divides where all that was changed is Python."""
    python = all(path.endswith((".py", ".pyx")) for path in solution.files)
    comment = re.compile(r"(?:^|\s)#.*$" if python else r"(?:^|\s)(?:#|//).*$")
    return [comment.sub("", line) for line in lines]
