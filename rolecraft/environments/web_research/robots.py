"""robots.txt, as RFC 9309 has it: which paths of a host a program may fetch.

The longest rule that matches decides, and of two that are equally long the one that allows; `*`
stands for any text and `$` for the end. Rules come from all groups that name our agent, else from
those for `*`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

LONGEST = 500 * 1024
"""Bytes that are read; the RFC asks for at least as many."""
_UNESCAPED = "/*$?=&:;,@!'()+-._~%"


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one host for one agent: each a path's beginning, and whether it is allowed."""

    rules: tuple[tuple[str, bool], ...] = ()

    def allows(self, url: str) -> bool:
        """Whether `url` may be fetched."""
        parts = urlsplit(url)
        path = _plain(parts.path or "/") + (f"?{_plain(parts.query)}" if parts.query else "")
        best, allowed = -1, True
        for rule, allow in self.rules:
            if len(rule) < best or (len(rule) == best and not allow):
                continue
            if _matches(rule, path):
                best, allowed = len(rule), allow
        return allowed


def read_robots(text: str, *, agent: str) -> Robots:
    """The rules for `agent` (its product name, such as `rolecraft`) in a robots.txt."""
    wanted = agent.partition("/")[0].strip().lower()
    groups: dict[str, list[tuple[str, bool]]] = {}
    names: list[str] = []
    opened = False
    for line in text[:LONGEST].lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            if not opened:
                names = []
            opened = True
            names.append(value.partition("/")[0].strip().lower())
            groups.setdefault(names[-1], [])
        elif key in ("allow", "disallow"):
            opened = False
            if value:  # an empty rule says nothing
                for name in names:
                    groups[name].append((_plain(value), key == "allow"))
    rules = groups.get(wanted, groups.get("*", []))
    return Robots(tuple(dict.fromkeys(rules)))


def _plain(path: str) -> str:
    """A path with its escapes written in one way."""
    return quote(unquote_to_bytes(path), safe=_UNESCAPED)


def _matches(rule: str, path: str) -> bool:
    ends = rule.endswith("$")
    pieces = rule.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:  # leftmost first, so that no pattern takes more than linear time
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if len(pieces) == 1:
        return not ends or at == len(path)
    last = pieces[-1]
    if ends:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0
