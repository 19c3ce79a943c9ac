"""What users say of runs: which of two is better, or how content they are with one.

Answers are appended to a file, a line each, and never changed. A line holds all the numbers that
the reward is fitted to, so that it is worth something without the run's own file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rolecraft.errors import TraceError, UsageError
from rolecraft.models.hashing import hash64
from rolecraft.rewards.learned.observation import Observation
from rolecraft.trajectories.append_file import append_lines, numbered_lines
from rolecraft.trajectories.codec import encode_line, parse_line

FEEDBACK = "feedback.jsonl"

Answer = Literal["a", "b", "equal", "skip"]
DEGREES = 5
HELD_OUT = 5
"""One answer in so many is never trained on: what the reward says of them is its examination."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two runs a user prefers; "skip" where they would not say."""

    a: Observation
    b: Observation
    answer: Answer
    by: str = ""

    def __post_init__(self) -> None:
        if self.answer not in get_args(Answer):
            raise UsageError(f"An answer is one of {get_args(Answer)}, not {self.answer!r}.")

    @property
    def question(self) -> tuple[str, ...]:
        """The same for both orders of the two."""
        return tuple(sorted((self.a.run, self.b.run)))

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        runs = {"a": self.a.record(), "b": self.b.record()}
        return {"kind": "preference", **runs, "answer": self.answer, "by": self.by}


@dataclass(frozen=True, slots=True)
class Rating:
    """How content a user is with a run, from 1 (not at all) to 5."""

    run: Observation
    satisfaction: int
    by: str = ""

    def __post_init__(self) -> None:
        if self.satisfaction not in range(1, DEGREES + 1):
            raise UsageError(f"Satisfaction is from 1 to {DEGREES}, not {self.satisfaction!r}.")

    @property
    def question(self) -> tuple[str, ...]:
        return (self.run.run,)

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        run = self.run.record()
        return {"kind": "rating", "run": run, "satisfaction": self.satisfaction, "by": self.by}


Label = Preference | Rating


def held_out(label: Label) -> bool:
    """Whether a label is for the examination; the same every time, in both orders of a pair."""
    return hash64("held out", label.by, *label.question) % HELD_OUT == 0


def in_force(labels: Iterable[Label]) -> list[Label]:
    """The last answer of each person to each question; questions that were skipped are left out."""
    last = {(label.by, label.question): label for label in labels}
    return [x for x in last.values() if not (isinstance(x, Preference) and x.answer == "skip")]


def append_feedback(path: Path | str, labels: Iterable[Label]) -> Path:
    """Add labels to a file, which a killed process leaves whole but for its last line.

    Waits while another process does the same. Raises `JournalError` if the disk refuses.
    """
    path = Path(path)
    append_lines(path, b"".join(encode_line(label.record()) for label in labels))
    return path


def read_feedback(path: Path | str, *, problems: list[str] | None = None) -> list[Label]:
    """The labels of a file in their order; none if it does not exist.

    Lines that cannot be read are added to `problems`; without such a list the first raises
    `TraceError`.
    """
    path = Path(path)
    found = []
    for number, line in numbered_lines(path):
        try:
            found.append(label_of(parse_line(line)))
        except (ValueError, TypeError, KeyError, UsageError, AttributeError) as error:
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            if problems is None:
                raise TraceError(path, f"line {number} is no label: {reason}") from error
            problems.append(f"{path}:{number}: no label: {reason}")
    return found


def label_of(record: Any) -> Label:
    """The label of a JSON object. Raises `ValueError`, `TypeError`, `KeyError`, `UsageError`."""
    match record["kind"]:
        case "preference":
            a, b = (Observation.from_record(record[each]) for each in "ab")
            return Preference(a, b, record["answer"], str(record.get("by", "")))
        case "rating":
            run = Observation.from_record(record["run"])
            return Rating(run, record["satisfaction"], str(record.get("by", "")))
    raise ValueError(f"its kind is {json.dumps(record['kind'])}")
