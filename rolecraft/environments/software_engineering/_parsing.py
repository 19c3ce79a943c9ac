"""Python's syntax trees, also in several threads at once."""

from __future__ import annotations

import ast
from threading import Lock

_ONE = Lock()
_TRIES = 5


def parse(source: str | bytes) -> ast.Module:
    """What `ast.parse` gives and raises.

    CPython 3.11 counts the depth of a tree that it makes for all threads together, and raises a
    `SystemError` where two make one at a time (python/cpython#106905). One makes it here, and where
    code of others makes one meanwhile, it is made again.
    """
    for _ in range(_TRIES - 1):
        try:
            with _ONE:
                return ast.parse(source)
        except SystemError:
            continue
    with _ONE:
        return ast.parse(source)
