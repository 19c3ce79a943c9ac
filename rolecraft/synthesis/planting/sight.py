"""Which share of the passing tests runs a line."""

from __future__ import annotations

from collections.abc import Iterable

from rolecraft.synthesis.suite import Suite


class Sight:
    """Asks a suite once for each line."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._count = max(len(suite.passing), 1)
        self._known: dict[tuple[str, int], float | None] = {}

    def share(self, path: str, lines: Iterable[int]) -> float | None:
        """Of the line that most of them run; None if any test may see one of the lines."""
        most = 0.0
        for line in lines:
            if (path, line) not in self._known:
                seeing = self._suite.seeing({path: [line]})
                share = None if seeing is None else len(seeing) / self._count
                self._known[path, line] = share
            share = self._known[path, line]
            if share is None:
                return None
            most = max(most, share)
        return most
