"""Which gold trace a predicted trace is.

Invariant: two traces are matched only if no other trace fits as well; what is left over is named,
and so are the pairs that have nothing in common but the last part of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Matches:
    """Names of traces in gold, each with its name in the prediction, and what is left over."""

    pairs: dict[str, str] = field(default_factory=dict)
    gold_only: list[str] = field(default_factory=list)
    predicted_only: list[str] = field(default_factory=list)
    by_last_part: list[str] = field(default_factory=list)
    """Names in gold of the pairs of which only the file's name, or the id behind `#`, is alike."""


def match(gold: Iterable[str], predicted: Iterable[str]) -> Matches:
    """Match traces by name.

    Equal names first. Then paths by their last parts, as many as there are: `a/1.json` is
    `runs/a/1.json`, whatever folder a tool ran in, unless there is a further `a/1.json`. Then the
    file's name without folder and ending, or the id behind `#`.
    """
    golds, preds = list(dict.fromkeys(gold)), list(dict.fromkeys(predicted))
    there = set(preds)
    pairs = {name: name for name in golds if name in there}
    parts = {name: _parts(name) for name in (*golds, *preds)}
    for length in range(max(map(len, parts.values()), default=0), 0, -1):
        tails = {name: "/".join(listed[-length:]) for name, listed in parts.items()}
        _pair(golds, preds, pairs, tails)
    _pair(golds, preds, pairs, {name: _bare(listed[-1]) for name, listed in parts.items()})
    taken = set(pairs.values())
    in_order = [name for name in golds if name in pairs]
    return Matches(
        {name: pairs[name] for name in in_order},
        [name for name in golds if name not in pairs],
        [name for name in preds if name not in taken],
        [
            name
            for name in in_order
            if name != pairs[name] and parts[name][-2:] != parts[pairs[name]][-2:]
        ],
    )


def same_traces(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each name of a trace the longest name of the same trace, of `names` by annotator.

    `t1.json` is `x/t1.json` if it is the end of that name and of no other trace's, and no
    annotator has both names. Folders that differ are different traces.
    """
    by: dict[str, set[str]] = {}
    for annotator, name in names:
        by.setdefault(name, set()).add(annotator)
    parts = {name: _parts(name) for name in by}
    ends: dict[tuple[str, ...], list[str]] = {}
    for name, listed in parts.items():
        for start in range(1, len(listed)):
            ends.setdefault(tuple(listed[start:]), []).append(name)
    found: dict[str, str] = {}
    whole: dict[str, set[str]] = {}
    for name in sorted(by, key=lambda name: len(parts[name]), reverse=True):
        longer = {found[other] for other in ends.get(tuple(parts[name]), ())}
        other = next(iter(longer)) if len(longer) == 1 else name
        if whole.get(other, set()) & by[name]:
            other = name
        found[name] = other
        whole.setdefault(other, set()).update(by[name])
    return found


def _parts(name: str) -> list[str]:
    return name.replace("\\", "/").split("/")


def _pair(
    golds: list[str], preds: list[str], pairs: dict[str, str], keys: Mapping[str, str]
) -> None:
    """Pair names with the same key, where no other name on its side has that key.

    A pair that was made by a longer key has the same shorter ones, so no name is taken twice.
    """
    ours, theirs = _unique(golds, keys), _unique(preds, keys)
    pairs.update({ours[key]: theirs[key] for key in ours.keys() & theirs.keys()})


def _unique(names: Iterable[str], keys: Mapping[str, str]) -> dict[str, str]:
    by: dict[str, list[str]] = {}
    for name in names:
        by.setdefault(keys[name], []).append(name)
    return {key: group[0] for key, group in by.items() if len(group) == 1}


def _bare(file: str) -> str:
    _, mark, part = file.rpartition("#")
    if mark:
        return part
    stem, dot, _ = part.rpartition(".")
    return stem if dot and stem else part
