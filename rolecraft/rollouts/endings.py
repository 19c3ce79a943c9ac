"""How a rollout ended, as one word; and which endings say nothing about the team."""

from __future__ import annotations

import errno
from typing import Literal

from rolecraft.errors import (
    ActionLimitReached,
    AdapterError,
    InvalidAnswer,
    LimitReached,
    MissingExtra,
    MissingKey,
    ModelError,
    NobodyAnswers,
    PlanAbandoned,
    ProtocolViolation,
    RealModelForbidden,
    RolecraftError,
    SandboxError,
    StepLimitReached,
    UnexpectedModelCall,
)
from rolecraft.models.limits import LimitName
from rolecraft.rollouts.settings import Stage
from rolecraft.trajectories.events import StopReason
from rolecraft.trajectories.trajectory import Trajectory

Ended = Literal[
    "finished",  # the team came to its end: it finished, or nobody had anything left to do
    "stuck",  # a role did the same thing three turns running
    "turns",  # a limit of rounds, steps, calls or actions was reached
    "tokens",  # a limit of tokens was reached
    "money",  # a limit of US dollars was reached
    "seconds",  # time ran out, that of the environment's limits or of the pipeline's stage
    "stopped",  # an observer asked for the end
    "approval",  # an action waits for a person's permission
    "team",  # a role could not go on: its own fault, or that of the code of its actions
    "environment",  # the environment could not be prepared, or was lost
    "model",  # a model did not answer
    "grading",  # what was done could not be graded, or the reward raised
    "cancelled",  # it was cancelled
]

FAULTS = (
    ActionLimitReached,
    InvalidAnswer,
    PlanAbandoned,
    ProtocolViolation,
    StepLimitReached,
)
"""Errors that are the team's own doing: they say something about the team."""

OF_NOBODY = frozenset[Ended]({"environment", "model", "grading", "cancelled"})
"""Endings that say nothing about the team: no training signal, and never a reward of 0."""

_BY_LIMIT: dict[LimitName, Ended] = {
    "usd": "money",
    "tokens": "tokens",
    "calls": "turns",
    "rounds": "turns",
    "seconds": "seconds",
}
_BY_STOP: dict[StopReason, Ended] = {
    "finished": "finished",
    "idle": "finished",
    "rounds": "turns",
    "observer": "stopped",
    "approval": "approval",
    "cancelled": "cancelled",
    "error": "team",
}
_NEVER_BETTER = (
    AdapterError,
    MissingExtra,
    MissingKey,
    NobodyAnswers,
    RealModelForbidden,
    UnexpectedModelCall,
)
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})


class StageTimeout(RolecraftError):
    """A stage of a pipeline took longer than it may.

    Attributes: `stage`, `seconds` (what it may take).
    """

    def __init__(self, stage: Stage, seconds: float) -> None:
        self.stage, self.seconds = stage, seconds
        super().__init__(
            f"The stage `{stage}` did not end within {seconds:g} s. Allow more with "
            f"`PipelineSettings({stage}_seconds=...)`."
        )


class StageCancelled(RolecraftError):
    """A stage of a pipeline was cancelled, from inside or with the whole pipeline.

    Attribute: `stage`.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(f"The stage `{stage}` was cancelled.")


def crossed(trajectory: Trajectory) -> str | None:
    """The limit whose crossing ended a run; None if nothing or another failure did.

    A role's own steps and actions are no such limit: that they ran out is an error in the record.
    """
    failures = [*trajectory.of("limit", "error")]
    return failures[-1].data.get("limit") if failures else None


def of_stop(reason: StopReason, limit: str | None = None) -> Ended:
    """The ending of a run that stopped for `reason`; `limit` names the one that was crossed.

    A limit without a name is one of a role: of its steps or its actions.
    """
    if reason == "limit":
        return _of_limit(limit)
    return _BY_STOP[reason]


def of_error(error: Exception, stage: Stage) -> Ended:
    """The ending of an item whose `stage` raised `error`."""
    if isinstance(error, StageCancelled):
        return "cancelled"
    if isinstance(error, ModelError) and stage != "grade":
        return "model"
    if stage == "prepare":
        return "environment"
    if stage in ("grade", "close"):
        return "grading"
    if isinstance(error, StageTimeout):
        return "seconds"
    if isinstance(error, LimitReached):
        return _of_limit(error.limit)
    if isinstance(error, (StepLimitReached, ActionLimitReached)):
        return "turns"
    if isinstance(error, FAULTS) or not isinstance(error, (SandboxError, OSError)):
        return "team"
    return "environment"


def is_worth_another_try(error: Exception, stage: Stage) -> bool:
    """Whether the same item may do better when it is tried again: the surroundings failed it."""
    if isinstance(error, ModelError):
        status = error.status
        refused = status is not None and 400 <= status < 500 and status not in _TRANSIENT_STATUS
        return not refused and not isinstance(error, _NEVER_BETTER)
    if isinstance(error, OSError):
        return error.errno not in (errno.ENOSPC, errno.EDQUOT) and stage != "grade"
    if isinstance(error, SandboxError):
        return True
    if isinstance(error, StageTimeout):
        return error.stage == "prepare"
    return stage == "prepare" and not isinstance(error, RolecraftError)


def _of_limit(name: str | None) -> Ended:
    return _BY_LIMIT.get(name, "turns")  # type: ignore[call-overload, no-any-return]
