"""Several valid bugs of one file or one folder as one: harder to find, with more that fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64
from rolecraft.synthesis.candidates import Candidate, candidate_id
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, LedgerView
from rolecraft.synthesis.modifiers.meaning import joined
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.verdicts import Verdict

Within = Literal[
    "file",
    "module",  # the files of one folder
]
_ROUNDS = 50
"""How often the bugs of a file are put into another order to find further combinations."""


@dataclass(slots=True)
class Combined:
    """What came of it."""

    made: int = 0
    """New candidates."""
    before: int = 0
    """Combinations that were there already."""


def combine(
    folder: SynthesisFolder,
    *,
    within: Within = "file",
    size: int = 2,
    most: int = 100,
    seed: int = 0,
    on_candidate: Callable[[Candidate], None] = lambda candidate: None,
) -> Combined:
    """Combine valid candidates, `size` at a time, of different functions, until `most` are there.

    Which ones is decided by the seed and their ids. Called again, it adds those that are missing.
    Raises `UsageError` if there are not so many valid candidates in any one place.
    """
    plan = Plan.load(folder)
    found = Combined()
    ledger = Ledger(folder.candidates, Candidate, key=lambda each: each.id)
    verdicts = LedgerView(folder.verdicts, Verdict, key=lambda each: each.candidate)
    with ledger, verdicts:
        valid = [
            each
            for each in ledger
            if each.modifier != "combine"
            and each.id in verdicts
            and verdicts[each.id].is_valid
            and each.edits
        ]
        places: dict[str, list[Candidate]] = defaultdict(list)
        for each in valid:
            for place in {_place(edit.path, within) for edit in each.edits}:
                places[place].append(each)
        if not any(len(of) >= size for of in places.values()):
            raise UsageError(
                f"No {within} of `{plan.project.name}` has {size} valid candidates to combine: "
                f"plant and validate more first."
            )
        keys = {each.key for each in ledger}
        for parents in _groups(places, size, seed):
            if found.made + found.before >= most:
                break
            made = _combined(plan.project.name, parents)
            if made.id in ledger:
                found.before += 1
            elif made.key not in keys:
                ledger.append(made)
                keys.add(made.key)
                found.made += 1
                on_candidate(made)
    return found


def _place(path: str, within: Within) -> str:
    return path if within == "file" else str(PurePosixPath(path).parent)


def _groups(
    places: dict[str, list[Candidate]], size: int, seed: int
) -> Iterator[tuple[Candidate, ...]]:
    """Groups that can be combined, each once: of every place one after the other, in rounds."""
    seen: set[tuple[str, ...]] = set()
    for turn in range(_ROUNDS):
        for place in sorted(places):
            order = sorted(
                places[place], key=lambda each: hash64("combine", seed, turn, place, each.id)
            )
            for start in range(0, len(order) - size + 1, size):
                group = tuple(sorted(order[start : start + size], key=lambda each: each.id))
                name = tuple(each.id for each in group)
                if name not in seen and _fit(group):
                    seen.add(name)
                    yield group


def _fit(group: Sequence[Candidate]) -> bool:
    """Whether they change different functions, and no character twice."""
    names = [name for each in group for name in each.entity.split()]
    if any(
        one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
        for at, one in enumerate(names)
        for other in names[at + 1 :]
    ):
        return False
    edits = sorted(
        (edit for each in group for edit in each.edits),
        key=lambda edit: (edit.path, edit.start, edit.end),
    )
    return all(one.path != other.path or one.end <= other.start for one, other in pairwise(edits))


def _combined(project: str, parents: Sequence[Candidate]) -> Candidate:
    edits = tuple(
        sorted(
            (edit for each in parents for edit in each.edits),
            key=lambda edit: (edit.path, edit.start, edit.end),
        )
    )
    return Candidate(
        id=candidate_id(project, "combine", edits),
        modifier="combine",
        entity=" ".join(each.entity for each in parents),
        edits=edits,
        key=joined(each.key for each in parents),
        note="; ".join(filter(None, (each.note for each in parents))),
        usd=None,  # it took nothing more: what its parents took is in theirs, once
        about={
            "parents": [each.id for each in parents],
            "modifiers": [each.modifier for each in parents],
        },
    )
