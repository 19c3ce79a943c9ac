"""Learning: from trajectories with rewards to better weights."""

from rolecraft.training.grpo import FROM_SCRATCH, GRPO, Trainer, TrainingDiverged, UpdateStats
from rolecraft.training.loop import train
from rolecraft.training.losses import Clip, DetachedClip, Kl, Normalise, policy_gradient_loss
from rolecraft.training.records import StepRecord, TrainingRun
from rolecraft.training.sequences import BrokenSequence, TrainingSequence, training_sequences

__all__ = [
    "FROM_SCRATCH",
    "GRPO",
    "BrokenSequence",
    "Clip",
    "DetachedClip",
    "Kl",
    "Normalise",
    "StepRecord",
    "Trainer",
    "TrainingDiverged",
    "TrainingRun",
    "TrainingSequence",
    "UpdateStats",
    "policy_gradient_loss",
    "train",
    "training_sequences",
]
