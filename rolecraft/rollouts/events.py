"""What a pipeline tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rolecraft.rollouts.endings import Ended
from rolecraft.rollouts.settings import Stage

if TYPE_CHECKING:
    from rolecraft.rollouts.result import Rollout

What = Literal[
    "taken",  # an item was taken in, and has its place among the living
    "begins",  # it has a worker and begins a stage
    "ends",  # it left a stage, after `seconds`; `error` where the stage raised
    "again",  # it is tried again after `seconds`, because of `error`
    "left",  # something of it would not end when it was cancelled, and was left behind
    "done",  # it is over: `ended`, and `rollout`
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineEvent:
    """One thing that happened in a pipeline. `time` is in seconds since it began."""

    what: What
    time: float
    index: int
    """The item's place among those put in."""
    stage: Stage | None = None
    attempt: int = 1
    seconds: float | None = None
    ended: Ended | None = None
    error: str = ""
    """Type and text of what was raised."""
    rollout: Rollout[Any, Any] | None = None
    """The result, where `what` is `done`; no part of the JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON holds it, without what is not set."""
        data: dict[str, Any] = {"what": self.what, "time": round(self.time, 6), "index": self.index}
        for name in ("stage", "seconds", "ended", "error"):
            value = getattr(self, name)
            if value not in (None, ""):
                data[name] = round(value, 6) if isinstance(value, float) else value
        if self.attempt != 1:
            data["attempt"] = self.attempt
        return data


def in_short(error: BaseException | None) -> str:
    """An error as one line."""
    return "" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())}"
