"""What a check found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal[
    "ok",
    "warn",  # training works, and not as well as it could
    "fail",  # what is learnt would be wrong, or nothing
    "skipped",  # there is nothing to check, or no way to
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    check: str
    verdict: Verdict
    value: str = ""
    """What was measured, in words."""
    limit: str = ""
    """What it is measured against."""
    found: str
    """In a sentence."""
    advice: str = ""
    """What to do about it; empty where nothing is to be done."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What was measured, for programs."""
    pieces: Sequence[tuple[str, str]] = ()
    """Text in pieces, each with its kind, where the check shows one."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data. What is empty is left out, but for the verdict and the sentence."""
        data: dict[str, Any] = {"check": self.check, "verdict": self.verdict, "found": self.found}
        for name in ("value", "limit", "advice"):
            if getattr(self, name):
                data[name] = getattr(self, name)
        if self.numbers:
            data["numbers"] = dict(self.numbers)
        if self.pieces:
            data["pieces"] = [{"text": text, "kind": kind} for text, kind in self.pieces]
        return data


def passed(
    check: str, *, value: str, limit: str, found: str, numbers: Mapping[str, float]
) -> Finding:
    """A check in which all is as it should be."""
    return Finding(
        check=check, verdict="ok", value=value, limit=limit, found=found, numbers=numbers
    )


def skipped(check: str, why: str) -> Finding:
    """A check that was not made."""
    return Finding(check=check, verdict="skipped", found=why)


def failed(check: str, error: BaseException) -> Finding:
    """A check that could not be made because something in it raised an error."""
    said = " ".join(str(error).split())
    return Finding(
        check=check,
        verdict="fail",
        found=f"{type(error).__name__}: {said}",
        advice="Training would meet the same error: mend what it names.",
    )


async def attempted(check: str, make: Callable[[], Awaitable[Finding]]) -> Finding:
    """What `make` finds; an error that it raises is the finding, and holds up no other check."""
    try:
        return await make()
    except Exception as error:  # of whatever the model does
        return failed(check, error)


def number(value: float) -> str:
    """For people: three significant digits."""
    return f"{value:.3g}"
