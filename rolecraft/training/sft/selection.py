"""Which samples of runs are learned from: by role, reward, failures found, and stop reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.sft.samples import Facts
from rolecraft.trajectories.events import StopReason

ANY_FAILURE = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is taken; by default all of it. Samples that say nothing of a role are of every role.

    Raises `UsageError` for a reward that is no number and `UnknownName` for a stop reason that
    there is not.
    """

    role: str | None = None
    """Only this role's turns are trained."""
    min_reward: float | None = None
    """Only runs with at least this reward. A run without a known reward has less."""
    without_failures: Sequence[str] = ()
    """No runs in which one of these modes was found (of the role, or of nobody by name); "any"
    stands for all modes. Findings are those beside the journal (`rolecraft annotate`)."""
    stop_reasons: Sequence[str] = ()
    """Only runs that stopped for one of these; empty: for any."""

    def __post_init__(self) -> None:
        if self.min_reward is not None and math.isnan(self.min_reward):
            raise UsageError("`min_reward` is no number.")
        for reason in self.stop_reasons:
            if reason not in get_args(StopReason):
                raise UnknownName("Stop reason", reason, get_args(StopReason))

    def refusal(self, facts: Facts) -> str:
        """Why a sample is not taken, in few words; empty if it is."""
        if self.role is not None and facts.role not in (None, self.role):
            return "another role's"
        if self.min_reward is not None and (facts.measured or facts.reward is not None):
            if facts.reward is None:
                return "no reward is known"
            if not facts.reward >= self.min_reward:  # NaN is no reward that reaches anything
                return "reward too low"
        if self.stop_reasons and facts.measured and facts.stop not in self.stop_reasons:
            return f"stopped: {facts.stop or 'cut off'}"
        for mode in facts.failures:
            if mode in self.without_failures or ANY_FAILURE in self.without_failures:
                return f"failure {mode}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {
            "without_failures": sorted(self.without_failures),
            "stop_reasons": sorted(self.stop_reasons),
        }
