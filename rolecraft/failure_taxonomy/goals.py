"""Goals that a program can check, as a trajectory's header states them.

`about["goal"]` may be a table with any of these, all of which must hold:

    {"verify": "tests"}                 a `verify` event of this target passes
    {"artifacts": ["a.py", "b.md"]}     each of these was made
    {"answer": "executor"}              this role (true: any) says the answer in its last message
    {"signal": "tests.failed", "at_most": 0}      a signal reaches a bound (or "at_least")

Anything else, a goal in words for instance, is for readers and judges: no detector uses it.

`about["outcome"]` says how an environment measures whether the task was done, which no role sees:

    {"signal": "answer.correct", "at_least": 1}   its last value is within the bounds
    {"verify": "hidden tests"}                    the environment's own last check of it passes

It names the measurement; the measured value stands in the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a measured value must be: `at_least`, `at_most`, both, or anything."""

    at_least: float | None = None
    at_most: float | None = None

    @classmethod
    def of(cls, stated: dict[str, Any]) -> Bounds:
        """The bounds in a table that may have other keys."""
        return cls(_number(stated.get("at_least")), _number(stated.get("at_most")))

    def hold(self, value: object) -> bool | None:
        """True for a value within the bounds, False outside, None for what is no number."""
        if not isinstance(value, (int, float)):
            return None
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal in parts; a part that is not set asks for nothing."""

    verify: str = ""
    artifacts: tuple[str, ...] = ()
    answer: str | bool = False
    """Name of the role that gives the answer; True for any role."""
    signal: str = ""
    bounds: Bounds = Bounds()

    @classmethod
    def of(cls, about: dict[str, Any]) -> Goal:
        """The goal in a header; one without parts where there is none that can be checked."""
        stated = about.get("goal")
        if not isinstance(stated, dict):
            return cls()
        artifacts = stated.get("artifacts")
        answer = stated.get("answer", False)
        return cls(
            verify=_text(stated.get("verify")),
            artifacts=tuple(map(str, artifacts)) if isinstance(artifacts, (list, tuple)) else (),
            answer=answer if isinstance(answer, (str, bool)) else False,
            signal=_text(stated.get("signal")),
            bounds=Bounds.of(stated),
        )

    @property
    def tells_when_met(self) -> bool:
        """True if events show when the goal is met; an answer alone does not."""
        return bool(self.verify or self.artifacts or self.signal)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the environment measures whether the task was done; unset: the header does not say."""

    verify: str = ""
    signal: str = ""
    bounds: Bounds = Bounds()

    @classmethod
    def of(cls, about: dict[str, Any]) -> Outcome:
        """The outcome in a header; else the signal of its goal, which is measured all the same."""
        stated = about.get("outcome")
        if not isinstance(stated, dict):
            goal = Goal.of(about)
            return cls(signal=goal.signal, bounds=goal.bounds)
        return cls(_text(stated.get("verify")), _text(stated.get("signal")), Bounds.of(stated))


def task_of(about: dict[str, Any]) -> str:
    """The text of the task in a header, "" where there is none."""
    task = about.get("task")
    if isinstance(task, dict):
        task = task.get("prompt")
    return _text(task)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
