"""What rules can find in typed events, without a model. One file a rule."""

from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.detectors.claims import ReasonAction
from rolecraft.failure_taxonomy.detectors.constraints import Constraints
from rolecraft.failure_taxonomy.detectors.ending import PrematureEnd
from rolecraft.failure_taxonomy.detectors.history import HistoryLoss
from rolecraft.failure_taxonomy.detectors.ignored import IgnoredInput
from rolecraft.failure_taxonomy.detectors.repeated_text import Diagnostic, repeated_text
from rolecraft.failure_taxonomy.detectors.repetition import Repetition
from rolecraft.failure_taxonomy.detectors.reset import Reset
from rolecraft.failure_taxonomy.detectors.role import RoleSpec
from rolecraft.failure_taxonomy.detectors.task import TaskSpec
from rolecraft.failure_taxonomy.detectors.termination import TerminationUnaware
from rolecraft.failure_taxonomy.detectors.verification import VerificationAbsent
from rolecraft.failure_taxonomy.detectors.weak import WeakVerification

DETECTORS: tuple[Detector, ...] = (
    TaskSpec(),
    RoleSpec(),
    Repetition(),
    Reset(),
    HistoryLoss(),
    TerminationUnaware(),
    IgnoredInput(),
    ReasonAction(),
    PrematureEnd(),
    VerificationAbsent(),
    WeakVerification(),
    Constraints(),
)
"""The detectors that `annotate` runs unless it is told otherwise."""

__all__ = [
    "DETECTORS",
    "Constraints",
    "Detector",
    "Diagnostic",
    "HistoryLoss",
    "IgnoredInput",
    "PrematureEnd",
    "ReasonAction",
    "Repetition",
    "Reset",
    "RoleSpec",
    "TaskSpec",
    "TerminationUnaware",
    "VerificationAbsent",
    "WeakVerification",
    "repeated_text",
]
