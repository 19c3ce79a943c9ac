"""Learning: from trajectories with rewards to better weights.

Its modules are imported when one of their names is first used: what only looks after runs, or
reads data, loads no torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecraft.training.algorithms.clips import (
        Clip,
        DetachedClip,
        Importance,
        ProbabilityClip,
    )
    from rolecraft.training.algorithms.losses import policy_gradient_loss
    from rolecraft.training.algorithms.presets import ALGORITHMS, algorithm
    from rolecraft.training.algorithms.settings import FROM_SCRATCH, Algorithm
    from rolecraft.training.algorithms.terms import Critic, Kl, Normalise, Overlong, StepGroups
    from rolecraft.training.credit import (
        CREDITS,
        Blame,
        Communication,
        Credit,
        CreditState,
        Ema,
        Scored,
        assign,
    )
    from rolecraft.training.policy.adapter_settings import AdapterSettings
    from rolecraft.training.policy.sequences import (
        BrokenSequence,
        TrainingSequence,
        Turn,
        training_sequences,
    )
    from rolecraft.training.policy.trainer import RoleStats, Trainer, TrainingDiverged, UpdateStats
    from rolecraft.training.rl.loop import train
    from rolecraft.training.rl.records import StepRecord, TaskRecord, TrainingRun

__all__ = [
    "ALGORITHMS",
    "CREDITS",
    "FROM_SCRATCH",
    "AdapterSettings",
    "Algorithm",
    "Blame",
    "BrokenSequence",
    "Clip",
    "Communication",
    "Credit",
    "CreditState",
    "Critic",
    "DetachedClip",
    "Ema",
    "Importance",
    "Kl",
    "Normalise",
    "Overlong",
    "ProbabilityClip",
    "RoleStats",
    "Scored",
    "StepGroups",
    "StepRecord",
    "TaskRecord",
    "Trainer",
    "TrainingDiverged",
    "TrainingRun",
    "TrainingSequence",
    "Turn",
    "UpdateStats",
    "algorithm",
    "assign",
    "policy_gradient_loss",
    "train",
    "training_sequences",
]

_MODULES = {
    "algorithms.clips": ("Clip", "DetachedClip", "Importance", "ProbabilityClip"),
    "algorithms.losses": ("policy_gradient_loss",),
    "algorithms.presets": ("ALGORITHMS", "algorithm"),
    "algorithms.settings": ("FROM_SCRATCH", "Algorithm"),
    "algorithms.terms": ("Critic", "Kl", "Normalise", "Overlong", "StepGroups"),
    "credit": (
        "CREDITS",
        "Blame",
        "Communication",
        "Credit",
        "CreditState",
        "Ema",
        "Scored",
        "assign",
    ),
    "policy.adapter_settings": ("AdapterSettings",),
    "policy.sequences": ("BrokenSequence", "TrainingSequence", "Turn", "training_sequences"),
    "policy.trainer": ("RoleStats", "Trainer", "TrainingDiverged", "UpdateStats"),
    "rl.loop": ("train",),
    "rl.records": ("StepRecord", "TaskRecord", "TrainingRun"),
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
