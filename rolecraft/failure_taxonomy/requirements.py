"""What a task demands of its answer, as far as a program can check it.

A header's list of constraints may state it (any of these keys, in any entry, with a `name`):

    {"name": "short", "at_most_words": 10}          also `at_least_words`
    {"name": "bare", "format": "number"}            or "json", "word", "yes_no"
    {"name": "fields", "schema": {"answer": "number", "why": "string"}}   JSON with these fields
    {"name": "phrase", "pattern": "The answer is \\d+"}   an expression that the answer contains
    {"name": "offline", "forbidden_tools": ["web_search"]}     or ["*"] for all
    {"name": "files", "required_files": ["main.py"]}

Else a task's text is read, conservatively: only sentences that speak of the answer or reply itself
("Answer in at most ten words.", "Reply with the bare number.", "Respond with JSON only."), and
those that forbid tools. What it is not sure about, it leaves out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from rolecraft.failure_taxonomy.goals import task_of

Kind = Literal[
    "at_most_words",
    "at_least_words",
    "format",
    "schema",
    "pattern",
    "forbidden_tools",
    "required_files",
]
KINDS: tuple[Kind, ...] = (
    "at_most_words",
    "at_least_words",
    "format",
    "schema",
    "pattern",
    "forbidden_tools",
    "required_files",
)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand; `name` is how the header calls it, or the sentence of the task."""

    name: str
    kind: Kind
    value: Any

    @property
    def of_answer(self) -> bool:
        """True for a demand on the answer's text."""
        return self.kind not in ("forbidden_tools", "required_files")

    def broken_by(self, answer: str) -> str:
        """Why an answer breaks a demand on its text, in words; "" if it keeps it."""
        match self.kind:
            case "at_most_words" if (count := words(answer)) > self.value:
                return f"the answer has {count} words, and may have {self.value}"
            case "at_least_words" if (count := words(answer)) < self.value:
                return f"the answer has {count} words, and must have {self.value}"
            case "format" if not _FORMATS[self.value](answer):
                return f"the answer is not {_SAID[self.value]}"
            case "schema":
                return _against(self.value, answer)
            case "pattern" if re.search(self.value, answer) is None:
                return f"the answer has nothing of the form {self.value!r}"
        return ""


def words(text: str) -> int:
    """How many words: runs between white space that have a letter or a digit."""
    return sum(any(map(str.isalnum, part)) for part in text.split())


def _unfenced(text: str) -> str:
    """A text without the fence around it, if all of it is in one."""
    found = re.fullmatch(r"\s*```[^\n]*\n(.*?)\n?```\s*", text, re.DOTALL)
    return found[1] if found is not None else text


def _is_json(text: str) -> bool:
    try:
        json.loads(_unfenced(text))
    except (ValueError, RecursionError):
        return False
    return True


_NUMBER = re.compile(r"\W{0,8}\d[\d.,\s/eE^+-]{0,40}\W{0,4}")
_FORMATS: dict[str, Callable[[str], bool]] = {
    "json": _is_json,
    "number": lambda text: _NUMBER.fullmatch(text.strip()) is not None,
    "word": lambda text: words(text) == 1,
    "yes_no": lambda text: re.fullmatch(r"\W*(?:yes|no)\W*", text, re.IGNORECASE) is not None,
}
_SAID = {
    "json": "JSON and nothing else",
    "number": "a number and nothing else",
    "word": "one word",
    "yes_no": "yes or no",
}


def _against(schema: dict[str, Any], answer: str) -> str:
    try:
        given = json.loads(_unfenced(answer))
    except (ValueError, RecursionError):
        return "the answer is no JSON"
    if not isinstance(given, dict):
        return "the answer is no JSON object"
    for name, wanted in schema.items():
        if name not in given:
            return f"the answer has no field `{name}`"
        types = _TYPES.get(str(wanted), (object,))
        is_flag = isinstance(given[name], bool) and bool not in types and object not in types
        if is_flag or not isinstance(given[name], types):
            return f"field `{name}` of the answer is no {wanted}"
    return ""


def requirements(about: dict[str, Any]) -> list[Requirement]:
    """What the header demands: its constraints that a program can check, and the task's text."""
    return [*_listed(about.get("constraints")), *read_from(task_of(about))]


def _listed(constraints: Any) -> Iterator[Requirement]:
    for entry in constraints if isinstance(constraints, (list, tuple)) else ():
        if not isinstance(entry, dict) or entry.get("mode", "task_spec") != "task_spec":
            continue
        for kind in KINDS:
            value = entry.get(kind)
            if value is not None and _valid(kind, value):
                yield Requirement(str(entry.get("name") or kind), kind, value)


def _valid(kind: Kind, value: Any) -> bool:
    """False for a value that cannot be checked: a header is data, and may say anything."""
    match kind:
        case "at_most_words" | "at_least_words":
            return isinstance(value, int) and not isinstance(value, bool)
        case "format":
            return isinstance(value, str) and value in _FORMATS
        case "schema":
            return isinstance(value, dict)
        case "pattern":
            try:
                re.compile(value)
            except (re.error, TypeError):
                return False
            return True
        case _:
            return isinstance(value, (list, tuple))


# --- the text of a task -------------------------------------------------------------------------

_SMALL = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_VALUES = dict(zip(_SMALL, range(1, 13), strict=True))
_COUNT = rf"(\d{{1,5}}|{'|'.join(_SMALL)})"
_NOUN = "(?:answer|reply|response)"
_REPLY = (
    r"(?:(?:answer|reply|respond)(?= (?:in|with|only|using|briefly|as)\b)"
    rf"|(?:your|the) (?:final )?{_NOUN}(?= (?:must|should|may|has to|is to)\b))"
)
_MOST = re.compile(
    rf"\b(?:at most|no more than|not more than|a maximum of|up to|in under|fewer than)"
    rf" {_COUNT} words\b|\bin {_COUNT} words or (?:fewer|less)\b"
    rf"|\bmust not exceed {_COUNT} words\b"
    rf"|^\W*(?:please )?keep your {_NOUN} (?:under|below|within|to at most) {_COUNT} words\b",
    re.IGNORECASE,
)
_BEGINS = re.compile(rf"^\W*(?:please )?(?:{_REPLY}|keep your {_NOUN}\b)", re.IGNORECASE)
_NARROW = re.compile(
    r"\b(?:each|every|per|paragraph|section|chapter|sentence|headline|title|summary|then|if|unless|"
    r"example|about|roughly|approximately|first|before|after)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(
    rf"^\W*(?:please )?{_REPLY}\b[^.!?\n]{{0,30}}? (?:with|in|is|as|be) (?:just |only )?"
    r"(?:(?:a|the|one) )?"
    r"(?:(?P<bare>bare|single) |(?P<valid>valid |well-formed )?)(?P<what>number|integer|json|word)"
    r"(?: object)?(?P<only> only| and nothing else|, nothing else|, and nothing else)?\s*[.!]?\s*$",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    rf"^\W*(?:please )?{_REPLY}\b(?: only)? with (?:just |only |either )?[\"'`]?yes[\"'`]?"
    r" or [\"'`]?no[\"'`]?(?: only)?\s*[.!]?\s*$",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"^(?:please )?(?:do not|don't|never|you must not|you may not) (?:use|call) "
    r"(?:any tools?|tools|the (?:tool )?`(?P<one>[\w.-]+)`(?: tool)?|`(?P<two>[\w.-]+)`)"
    r"\s*[.!]?\s*$",
    re.IGNORECASE,
)
_LONGEST_TASK = 20_000


def read_from(task: str) -> list[Requirement]:
    """The demands in a task's text that can be read safely."""
    found: list[Requirement] = []
    if len(task) > _LONGEST_TASK:
        return found
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", task):
        said = sentence.strip()
        if (most := _MOST.search(said)) and _BEGINS.search(said):
            if not _NARROW.search(said):
                text = next(group for group in most.groups() if group).lower()
                count = _VALUES.get(text) or int(text)
                count -= (
                    "fewer than" in said.lower()
                    or " under " in said.lower()
                    or " below " in said.lower()
                )
                found.append(Requirement(said, "at_most_words", count))
        elif _NARROW.search(said) is None and (only := _ONLY.search(said)):
            what = only["what"].lower().replace("integer", "number")
            strict = only["bare"] or only["only"] or re.search(r"\b(?:just|only|exactly)\b", said)
            if strict or (what == "word" and re.search(r"\bone word\b", said)):
                found.append(Requirement(said, "format", what))
        elif _YES_NO.search(said):
            found.append(Requirement(said, "format", "yes_no"))
        elif tools := _NO_TOOLS.search(said):
            named = tools["one"] or tools["two"]
            found.append(Requirement(said, "forbidden_tools", [named or "*"]))
    return found
