"""What a training run leaves behind: one record a step, and the trained model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: the episodes that were played with the weights before it, and the update."""

    step: int
    """From 0."""
    reward: float
    """Mean of the episodes' rewards."""
    roles: dict[str, float] = field(default_factory=dict)
    """Mean reward of each role."""
    signals: dict[str, float] = field(default_factory=dict)
    """Mean of each signal over the episodes that logged it."""
    episodes: int = 0
    failed: int = 0
    """Episodes that raised; they are left out."""
    loss: float = 0.0
    entropy: float = 0.0
    """Nats per action."""
    clip_fraction: float = 0.0
    kl: float = 0.0
    """Divergence of the updated policy from the sampling one, nats per action."""
    reference_kl: float = 0.0
    """Divergence from the reference policy, nats per action; 0 without one."""
    grad_norm: float = 0.0
    gap: float = 0.0
    """Largest difference between the sampler's and the trainer's log-probabilities."""
    actions: int = 0
    skipped: tuple[str, ...] = ()
    """Sequences and episodes that were left out because of numbers that are not finite."""
    cpu_seconds: float = 0.0
    """Process time since the run began, all threads together."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A trained model and how it came about."""

    model: TransformersModel
    records: list[StepRecord]
    cpu_seconds: float

    def mean_reward(self, last: int = 10) -> float:
        """Mean reward of the last steps; NaN if there was none."""
        recent = self.records[-last:]
        return fmean(record.reward for record in recent) if recent else float("nan")

    def save(self, folder: str | Path) -> Path:
        """Write the model, for `TransformersModel.load`, and `training.jsonl`, one line a step."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder)
        lines = (json.dumps(asdict(record)) + "\n" for record in self.records)
        (folder / "training.jsonl").write_text("".join(lines), "utf-8")
        return folder
