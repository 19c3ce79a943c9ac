"""Answers that were given under codes, as findings under concept ids.

Invariant: a mode is `absent` only if every code that stands for it was answered with no, and the
annotators of that system were not told to leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.codes.system import CodeSystem
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.trajectories.events import FailureFinding, FindingVerdict


@dataclass(slots=True)
class CodedAnswers:
    """What answers under codes say about the modes."""

    findings: tuple[FailureFinding, ...] = ()
    """One for each mode that the answers are about, in the order of the modes."""
    dropped: dict[str, bool | None] = field(default_factory=dict)
    """What was answered about concepts that the study gave up."""
    problems: list[str] = field(default_factory=list)
    """Names that contradict their codes, and answers that are none."""


_WORDS = {"yes": True, "no": False, "true": True, "false": False}


def read_coded(answers: Mapping[str, Any], system: CodeSystem, *, source: str = "") -> CodedAnswers:
    """Findings from answers such as `{"3.2 Weak verification": True, "1.1": 0}`.

    A key is a code, a name, or a code with its name; its answer True or False, 1 or 0, "yes" or
    "no". Anything else, None and NaN among it, makes the mode `unknown`. Of several codes for one
    mode one yes is enough. `source` is put on the findings. Raises `UnknownName` for a key that
    the system does not have.
    """
    read = CodedAnswers()
    said: dict[str, list[bool | None]] = {}
    for key, given in answers.items():
        found = system.resolve(key)
        if found.problem:
            read.problems.append(found.problem)
        answer = _answer(given)
        if answer is None and given is not None:
            read.problems.append(f"{given!r} under {_first_line(key)!r} is no yes and no no.")
        said.setdefault(found.concept, []).append(answer)
    merged = {concept: _merge(given) for concept, given in said.items()}
    findings = []
    for mode in MODES:
        if mode in merged:
            verdict, reason = _verdict(mode, merged, system)
            findings.append(FailureFinding(mode, verdict, source=source, reason=reason))
    read.findings = tuple(findings)
    read.dropped = {concept: merged[concept] for concept in merged if concept not in MODES}
    return read


def _verdict(
    mode: str, said: Mapping[str, bool | None], system: CodeSystem
) -> tuple[FindingVerdict, str]:
    answer = said[mode]
    if answer is None:
        return "unknown", "it was not answered"
    if answer:
        return "present", ""
    for marked, implied in system.implied.items():
        if implied == mode and said.get(marked):
            return "unknown", f"annotators left it out where they had marked `{marked}`"
    return "absent", ""


def _answer(given: Any) -> bool | None:
    if isinstance(given, str):
        return _WORDS.get(given.strip().lower())
    if isinstance(given, (bool, int, float)) and given in (0, 1):
        return bool(given)
    return None


def _merge(said: list[bool | None]) -> bool | None:
    if any(said):
        return True
    return None if None in said else False


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")
