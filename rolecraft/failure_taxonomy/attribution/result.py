"""Whom one strategy blames for a run's failure, and what it took to find out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.trajectories.events import Usage


@dataclass(slots=True, kw_only=True)
class Attribution:
    """The decisive failure of one trace, as far as it was found.

    Invariant: `role` is of the trace's team and `step` is the number (`seq`) of one of its events,
    or they are empty and None; `problems` then says why. Nothing is guessed in their place.
    """

    trace: str = ""
    strategy: str
    model: str = ""
    role: str = ""
    step: int | None = None
    mode: str = ""
    """The failure mode, where the blame rests on a finding."""
    reason: str = ""
    """In the model's words, or those of the finding."""
    quote: str = ""
    """Words of that step, checked; empty for strategies that ask for none."""
    problems: list[str] = field(default_factory=list)
    """Answers that could not be used, and what of the trace could not be read."""
    sees_outcome: bool = False
    """True if the model was told how the run ended, the right answer for example."""
    redacted: dict[str, int] | None = None
    """How many secrets of each kind the model was not shown; None if none were looked for."""
    calls: int = 0
    usage: Usage = field(default_factory=lambda: Usage(calls=0))
    """What the answers cost when they were asked for."""

    @property
    def annotator(self) -> str:
        """Who blames, as labels name it."""
        told = "+outcome" if self.sees_outcome else ""
        return f"blame:{self.strategy}:{self.model}{told}"

    @property
    def labels(self) -> Labels:
        """As labels, for `rolecraft agreement`."""
        found = bool(self.role) or self.step is not None
        return Labels(
            trace=self.trace,
            annotator=self.annotator,
            decisive=Blame(self.role, self.step) if found else None,
            note=self.reason,
        )

    @property
    def why(self) -> str:
        """Why nothing was found; empty if something was."""
        return "" if self.labels.decisive else "; ".join(self.problems)

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the line of a labels file, with what bears on its trust."""
        return {
            **self.labels.to_dict(),
            "strategy": self.strategy,
            "mode": self.mode,
            "quote": self.quote,
            "problems": list(self.problems),
            "judge": {
                "model": self.model,
                "sees_outcome": self.sees_outcome,
                "redacted": self.redacted,
                "usage": {
                    "calls": self.calls,
                    "prompt_tokens": self.usage.prompt_tokens,
                    "completion_tokens": self.usage.completion_tokens,
                    "usd": self.usage.usd,
                },
            },
        }

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        """One line for people."""
        if not self.labels.decisive:
            return f"{self.trace}: nobody is blamed: {self.why or 'no reason given'}"
        where = "no single step" if self.step is None else f"event {self.step}"
        mode = f", {self.mode}" if self.mode else ""
        return f"{self.trace}: {self.role or 'nobody in particular'}, {where}{mode}: {self.reason}"
