"""What a training run leaves behind: one record a step, and the trained model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: the episodes that were played with the weights before it, and the update."""

    step: int
    """From 0."""
    version: int = 0
    """`model.version` of the policy that played."""
    reward: float
    """Mean of the episodes' rewards that are finite; NaN if none is."""
    roles: dict[str, float] = field(default_factory=dict)
    """Mean reward of each role, likewise; absent if none is finite."""
    signals: dict[str, float] = field(default_factory=dict)
    """Mean of each signal over the episodes that logged a finite value."""
    episodes: int = 0
    unscored: int = 0
    """Episodes whose reward is not finite; no mean counts them."""
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
    greedy: int = 0
    """Tokens sampled at temperature 0, which are not trained on."""
    skipped: tuple[str, ...] = ()
    """Sequences and episodes that were left out because of numbers that are not finite."""
    cpu_seconds: float = 0.0
    """Process time since the run began, all threads together."""


def finite_mean(values: Iterable[float]) -> float:
    """Mean of those values that are finite; NaN if none is."""
    finite = [value for value in values if math.isfinite(value)]
    return fmean(finite) if finite else math.nan


def _writable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _writable(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A trained model and how it came about."""

    model: TransformersModel
    records: list[StepRecord]
    cpu_seconds: float

    def mean_reward(self, last: int = 10) -> float:
        """Mean reward of the last steps that have one; NaN if there was none."""
        return finite_mean(record.reward for record in self.records[-last:])

    def save(self, folder: str | Path) -> Path:
        """Write the model, for `TransformersModel.load`, and `training.jsonl`, one line a step.

        Numbers that are not finite, for which JSON has no words, are written as null.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder)
        lines = (
            json.dumps(_writable(asdict(record)), allow_nan=False) + "\n" for record in self.records
        )
        (folder / "training.jsonl").write_text("".join(lines), "utf-8")
        return folder
