"""Sets of literal markers, and where the first of them stands in a text that is still growing."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Marks:
    """A set of markers. Of two that match at one place the longer counts.

    `search` finds the first marker as long as its answer can't be changed by more text. What may
    still become a marker is left for later: at most one character less than the longest marker.
    """

    __slots__ = ("_begun", "_here", "_partial", "begun_in", "find", "first", "longest", "markers")

    def __init__(self, markers: Iterable[str], *, also: str = "") -> None:
        """`also` is a pattern that matches single characters which count as markers too."""
        self.markers = tuple(sorted(set(markers), key=lambda text: (-len(text), text)))
        self.longest = max((len(marker) for marker in self.markers), default=1)
        firsts = {marker[0] for marker in self.markers}
        self.first = firsts.pop() if len(firsts) == 1 and not also else ""
        """The character that all markers begin with, if there is one."""
        either = [re.escape(marker) for marker in self.markers]
        if also:
            either.append(also)
        whole = re.compile("|".join(either) or r"(?!)")
        self.find, self._here = whole.search, whole.match
        begun = [_beginning(marker) for marker in self.markers if len(marker) > 1]
        partial = re.compile(f"(?:{'|'.join(begun) or '(?!)'})\\Z")
        self._partial, self._begun = partial.search, partial.match
        self.begun_in = re.compile(f"{whole.pattern}|{partial.pattern}").search
        """Finds a marker, or at the end of a text what may become one."""

    def search(self, text: str, at: int, ended: bool) -> tuple[int, str | None]:
        """Up to where `text` is free of markers from `at` on, and the marker there, if it is sure.

        With `ended` nothing follows `text`, and all of it is certain.
        """
        end = len(text)
        if at == end:
            return end, None
        found = self.find(text, at)
        if not ended and (found is None or found.start() > end - self.longest):
            tail = end - self.longest + 1
            partial = self._partial(text, max(at, tail))
            if partial is not None and (found is None or partial.start() <= found.start()):
                return partial.start(), None
        if found is None:
            return end, None
        return found.start(), found.group()

    def match(self, text: str, at: int, ended: bool) -> tuple[bool, str | None]:
        """Whether it is sure which marker stands at `at`, and that marker, None if there is none.

        It looks at no more of `text` than the longest marker has characters.
        """
        if not ended and len(text) - at < self.longest and self._begun(text, at) is not None:
            return False, None
        found = self._here(text, at)
        return ended or at < len(text), found and found.group()


def _beginning(marker: str) -> str:
    """A pattern for every proper beginning of `marker`."""
    pattern = ""
    for char in reversed(marker[1:-1]):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return re.escape(marker[0]) + pattern
