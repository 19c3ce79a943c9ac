"""A code system: a published way to number the failure modes.

Invariant: nothing leads from a code of one system to a code of another but the concept that both
stand for, and two codes of different systems cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.modes import MODES, Category, get_mode

DROPPED: Mapping[str, str] = {
    "ambiguity": "ambiguities and contradictions that nobody notices",
    "unbatched": "steps done one by one that could have been done together",
    "disagreement": "agents that cannot agree and so do nothing",
    "waiting": "waiting for what is known already",
    "invention": "content that was made up",
}
"""Concepts of earlier versions that the study gave up: known by id, but no mode of ours."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a text such as "3.2 Lack of critical verification" stands for in its system."""

    concept: str
    """The id of a mode, or of one of `DROPPED`."""
    code: str = ""
    """The code in the text, if it has one."""
    problem: str = ""
    """Why the text is odd: its name contradicts its code, or one of them is not known."""

    @property
    def dropped(self) -> bool:
        """Whether the study gave this concept up, so that no mode stands for it."""
        return self.concept in DROPPED


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A code together with its system. Codes of two systems refuse to be compared."""

    system: CodeSystem
    text: str
    concept: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Code):
            return NotImplemented
        if self.system is not other.system:
            raise UsageError(
                f"{self.text!r} of {self.system.name} and {other.text!r} of {other.system.name} "
                "are codes of two systems, and the same code means different modes in them. "
                "Compare their `concept`, or `translate` one into the other system."
            )
        return self.text == other.text

    def __hash__(self) -> int:
        return hash((self.system.id, self.text))

    def __str__(self) -> str:
        return f"{self.text} in {self.system.name}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeSystem:
    """A published way to number the modes.

    `concepts` maps each code to the concept that it stands for: a mode's id or one of `DROPPED`.
    Several codes may stand for one concept. `names` maps what modes are called to concepts.
    """

    id: str
    name: str
    source: str
    concepts: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[Category, str] = field(default_factory=dict)
    """What the categories are called, where this is known."""
    implied: Mapping[str, str] = field(default_factory=dict)
    """Where the first was marked, annotators were told not to mark the second: its "no" says
    nothing."""

    def __post_init__(self) -> None:
        for concept in (*self.concepts.values(), *self.names.values()):
            known_concept(concept)
        object.__setattr__(self, "names", {folded(n): c for n, c in self.names.items()})

    def __repr__(self) -> str:
        return f"CodeSystem({self.id!r})"

    def codes(self, concept: str) -> tuple[str, ...]:
        """All codes of a concept in this system. Raises `UnknownName` if there is no such one."""
        known_concept(concept)
        return tuple(code for code, stands_for in self.concepts.items() if stands_for == concept)

    def code(self, concept: str) -> str:
        """The code of a concept, the first if it has several; empty if the system has none."""
        return next(iter(self.codes(concept)), "")

    def __getitem__(self, code: str) -> Code:
        """The code with its system. Raises `UnknownName`."""
        bare, name = split_code(code)
        text = code if code in self.concepts or name else bare
        if text not in self.concepts:
            raise self._unknown(code)
        return Code(self, text, self.concepts[text])

    def concept(self, text: str) -> str:
        """What a code, a name, or a code with its name stands for in this system.

        Raises `UnknownName` for a text that is none of them, and `UsageError` where the name
        contradicts the code; `resolve` goes by the name then, and says so.
        """
        found = self.resolve(text)
        if found.problem:
            raise UsageError(f"{found.problem} `resolve` gives the concept with this remark.")
        return found.concept

    def resolve(self, text: str) -> Resolved:
        """As `concept`, but by the name, with a remark, where name and code do not agree.

        Only the first line is read: data sets put a definition below it. Raises `UnknownName`.
        """
        code, name = split_code(text)
        by_code = self.concepts.get(code)
        by_name = self._by_name(name)
        if by_name is None:
            if by_code is None:
                raise self._unknown(text)
            problem = f"The name {name!r} is not known in {self.name}; {code!r} was taken."
            return Resolved(by_code, code, problem if name else "")
        if not code or by_code == by_name:
            return Resolved(by_name, code)
        stands = f"is {by_code!r}" if by_code else "does not exist"
        problem = f"{name!r} is {by_name!r}, but {code!r} {stands} in {self.name}."
        return Resolved(by_name, code, problem)

    def _by_name(self, name: str) -> str | None:
        key = folded(name)
        if not key or key in self.names:
            return self.names.get(key)
        return next((mode.id for mode in MODES.values() if folded(mode.name) == key), None)

    def _unknown(self, text: str) -> UnknownName:
        return UnknownName(f"In {self.name}, the code or name", text, self.concepts)


_CODE = re.compile(r"\s*(?:FM[-_ ]?)?(\d{1,2}\.\d{1,2}|MAST-\d{1,2})(?![\w.]*\d)[\s.:)-]*", re.I)


def split_code(text: str) -> tuple[str, str]:
    """The code with which the first line of a text begins, and the name behind it.

    `FM-1.1` is the code `1.1`. Either may be empty.
    """
    line = next(iter(text.strip().splitlines()), "")
    found = _CODE.match(line)
    if found is None:
        return "", line.strip()
    return found.group(1).upper(), line[found.end() :].strip()


def folded(name: str) -> str:
    """A name without what differs between spellings: case, apostrophes, punctuation."""
    return " ".join(re.findall(r"\w+", re.sub("['\u2019]", "", name.casefold())))


def known_concept(concept: str) -> str:
    """The concept itself. Raises `UnknownName` if it is neither a mode nor a dropped concept."""
    return concept if concept in DROPPED else get_mode(concept).id
