"""What a judge said about one trajectory, and how it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.judging.measured import Measured
from rolecraft.trajectories.events import FailureFinding, Usage


@dataclass(slots=True)
class Opinion:
    """What a judge said about one trajectory.

    Everything that bears on how far it can be trusted is kept beside it: how it was asked, what
    was dropped, how much of the trace it is about, and how the samples voted.
    """

    model: str
    findings: list[FailureFinding] = field(default_factory=list)
    """At least one for every mode that was asked about."""
    dropped: list[str] = field(default_factory=list)
    """Why findings were not accepted, one line for each."""
    notes: list[str] = field(default_factory=list)
    """What was not done as it was asked for, and why."""
    diagnoses: list[str] = field(default_factory=list)
    """The judge's own words, one text for each usable answer."""
    windows: int = 0
    coverage: float = 0.0
    """Share of the trace's text, in [0, 1], about which there were usable answers: over all modes
    that were asked about, and all samples."""
    usage: Usage = field(default_factory=lambda: Usage(calls=0))
    votes: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each mode, how many samples say `present`, `absent` and `unknown`."""
    shots: int = 0
    """Worked examples that the judge was shown."""
    grouping: str = "all"
    samples: int = 1
    agree: float = 1.0
    """Share of the samples that a verdict needed."""
    sees_outcome: bool = False
    """True if the judge was told how the run ended."""
    agreement: Measured | None = None
    """How far this judge agrees with people, if somebody measured it."""
    redacted: dict[str, int] | None = None
    """How many different secrets of each kind were taken out of what the judge saw; None if none
    were looked for."""

    @property
    def variant(self) -> str:
        """`zero-shot` or `few-shot`."""
        return "few-shot" if self.shots else "zero-shot"

    @property
    def source(self) -> str:
        """What findings of this judge name as their source."""
        return f"judge:{self.model}{'+outcome' if self.sees_outcome else ''}"

    @property
    def how(self) -> list[str]:
        """How the judge was asked, for people."""
        how = [self.variant]
        if self.samples > 1:
            how.append(f"{self.samples} samples, of which {self.agree:.0%} have to agree")
        if self.sees_outcome:
            how.append("told how the run ended")
        if self.redacted is not None:
            how.append(f"{_counted(sum(self.redacted.values()), 'secret')} taken out")
        return how

    @property
    def how_reliable(self) -> str:
        """A sentence on the judge's agreement with people, measured or not."""
        if self.agreement is None:
            return "how far this model agrees with people is unmeasured"
        return f"its agreement with people was measured: {self.agreement}"

    def to_dict(self) -> dict[str, Any]:
        """How the judge was asked and what became of it, without its findings."""
        return {
            "model": self.model,
            "variant": self.variant,
            "shots": self.shots,
            "grouping": self.grouping,
            "samples": self.samples,
            "agree": self.agree,
            "sees_outcome": self.sees_outcome,
            "redacted": None if self.redacted is None else dict(self.redacted),
            "windows": self.windows,
            "coverage": self.coverage,
            "dropped": list(self.dropped),
            "notes": list(self.notes),
            "diagnoses": list(self.diagnoses),
            "votes": {mode: dict(votes) for mode, votes in self.votes.items()},
            "usage": {
                "calls": self.usage.calls,
                "prompt_tokens": self.usage.prompt_tokens,
                "completion_tokens": self.usage.completion_tokens,
                "usd": self.usage.usd,
            },
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
        }

    def summary(self) -> str:
        """One line for people, and one for each note."""
        dropped = len(self.dropped)
        line = (
            f"judge {self.model} ({', '.join(self.how)}): {_counted(self.usage.calls, 'call')} for "
            f"{_counted(self.windows, 'window')}, {_percent(self.coverage)} of the text covered, "
            f"{_counted(dropped, 'finding')} dropped for {'its' if dropped == 1 else 'their'} "
            f"evidence; {self.how_reliable}"
        )
        return "\n".join([line, *(f"judge: {note}" for note in self.notes)])


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    """Never 100 % of what is less."""
    return f"{min(round(100 * share), 99) if share < 1 else 100}%"
