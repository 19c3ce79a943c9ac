"""What a training leaves behind: a record of each step and of each task, and the model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.training.rl.learner import Learner

CURVE = "training.jsonl"
"""In the folder of a training: its learning curve, one line a step."""
TASKS = "tasks.jsonl"
"""Beside it: the tasks it was trained on, one line each, which `seen_in` reads."""
ADAPTERS = "adapters"
"""Likewise: the adapter of each role, as it is served now."""


class TaskRecord(NamedTuple):
    """What a task is known by again when somebody asks whether it was trained on."""

    id: str
    prompt: str

    def line(self) -> str:
        return json.dumps(self._asdict()) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRecord:
    """What a step says of one role. Means are over its own actions; NaN where there are none."""

    reward: float = math.nan
    """Mean of its finite rewards."""
    actions: int = 0
    entropy: float = math.nan
    """Nats per action."""
    kl: float = math.nan
    """Divergence from the policy that sampled, nats per action."""
    reference_kl: float = math.nan
    clip_fraction: float = math.nan
    gap: float = math.nan
    """Largest difference between the sampler's and the trainer's log-probabilities."""
    grad_norm: float = math.nan
    stuck: float = 0.0
    """Share of the episodes in which it did the same thing three turns running."""
    truncated: float = 0.0
    """Share of its answers that were cut off because they were too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step took, in seconds and US dollars. Two runs that do the same differ here only."""

    sampler: float = 0.0
    """Seconds in which episodes were played for the step; those of an asynchronous training go on
    while the trainer works."""
    trainer: float = 0.0
    """Seconds of the update, with handing the new weights to the sampler."""
    environment: float = 0.0
    """Seconds of preparing, grading and closing, of all episodes one after the other."""
    usd: float = 0.0
    """Paid for calls of models behind an API, as far as prices are known."""

    @property
    def seconds(self) -> float:
        """Of sampler and trainer, which is what a machine is held for."""
        return self.sampler + self.trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: the episodes that were played with the weights before it, and the update."""

    step: int
    """From 0."""
    version: int = 0
    """`model.version` of the policy that the step began with."""
    reward: float
    """Mean of the episodes' rewards that are finite; NaN if none is."""
    roles: dict[str, float] = field(default_factory=dict)
    """Mean reward of each role, likewise; absent if none is finite."""
    by_role: dict[str, RoleRecord] = field(default_factory=dict)
    """Further numbers of each role that is trained."""
    signals: dict[str, float] = field(default_factory=dict)
    """Mean of each signal over the episodes that logged a finite value."""
    episodes: int = 0
    unscored: int = 0
    """Episodes whose reward is not finite; no mean counts them."""
    failed: int = 0
    """Attempts that say nothing about the team: surroundings failed them, and they are left out."""
    refilled: int = 0
    """Attempts that were played in the place of such ones."""
    ended: dict[str, int] = field(default_factory=dict)
    """How the episodes ended (`rolecraft.rollouts.Ended`), and how many did so."""
    stuck: float = 0.0
    """Share of episodes in which a role did the same thing three turns running."""
    unfinished: float = 0.0
    """Share that ran into a limit: of turns, tokens, money or seconds."""
    truncated: float = 0.0
    """Share of the answers that were cut off because they were too long."""
    groups: int = 0
    silent_groups: int = 0
    """Those whose attempts all earned the same: they say nothing about what is better."""
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
    staleness: float = 0.0
    """Mean over the episodes: policy versions between their oldest token and the update."""
    staleness_max: int = 0
    dropped: int = 0
    """Episodes that were thrown away because they were staler than allowed, and played again."""
    skipped: tuple[str, ...] = ()
    """Sequences and episodes that were left out because of numbers that are not finite, or because
    they are longer than the model's context."""
    cost: Cost = field(default_factory=Cost)
    cpu_seconds: float = 0.0
    """Process time since the run began, all threads together."""

    def record(self) -> dict[str, Any]:
        """As JSON has it; a number that is not finite, for which it has no word, is None."""
        found: dict[str, Any] = _writable(asdict(self))
        return found

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> StepRecord:
        """The inverse of `record`, but that what is None comes back as NaN."""
        known = {each.name for each in fields(cls)}
        values = {name: _readable(value) for name, value in record.items() if name in known}
        roles = values.get("by_role", {})
        values["by_role"] = {name: RoleRecord(**about) for name, about in roles.items()}
        values["cost"] = Cost(**values.get("cost", {}))
        values["skipped"] = tuple(values.get("skipped", ()))
        return cls(**values)

    def without_times(self) -> StepRecord:
        """The record without what differs between two runs that do the same."""
        return replace(self, cpu_seconds=0.0, cost=Cost())

    def scalars(self) -> dict[str, float]:
        """Every number that is finite, by a name such as `reward` or `planner/entropy`."""
        found: dict[str, float] = {}
        parts = {"": self.record(), "cost/": asdict(self.cost)}
        parts |= {f"{role}/": asdict(about) for role, about in self.by_role.items()}
        parts |= {"signal/": self.signals, "ended/": self.ended}
        for prefix, values in parts.items():
            for name, value in values.items():
                number = isinstance(value, int | float) and math.isfinite(value)
                if number and prefix + name != "step":
                    found[prefix + name] = float(value)
        return found


def finite_mean(values: Iterable[float]) -> float:
    """Mean of those values that are finite; NaN if none is."""
    finite = [value for value in values if math.isfinite(value)]
    return fmean(finite) if finite else math.nan


def cost_per_point(records: Sequence[StepRecord], *, window: int = 10) -> Cost | None:
    """What each hundredth of reward gained has cost; None where nothing was gained.

    The gain is the mean reward of the last `window` steps less that of the first one, which was
    played before anything was learnt.
    """
    first = next((r.reward for r in records if math.isfinite(r.reward)), math.nan)
    gain = finite_mean(record.reward for record in records[-window:]) - first
    if not gain > 0:
        return None
    points = 100 * gain
    return Cost(
        **{
            each.name: sum(getattr(record.cost, each.name) for record in records) / points
            for each in fields(Cost)
        }
    )


def _writable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _writable(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _readable(part) for name, part in value.items()}
    return math.nan if value is None else value


def curve_line(record: StepRecord) -> str:
    """The line of a step in `training.jsonl`."""
    return json.dumps(record.record(), allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A trained model and how it came about."""

    model: TransformersModel
    records: list[StepRecord]
    cpu_seconds: float
    tasks: Sequence[TaskRecord] = ()
    """What it was trained on, each once."""
    stopped: bool = False
    """Whether it was told to stop before its last step."""
    learner: Learner | None = None
    """What was trained; None: the model itself."""

    def mean_reward(self, last: int = 10) -> float:
        """Mean reward of the last steps that have one; NaN if there was none."""
        return finite_mean(record.reward for record in self.records[-last:])

    def cost_per_point(self) -> Cost | None:
        """What each hundredth of reward gained has cost: `cost_per_point`."""
        return cost_per_point(self.records)

    def save(self, folder: str | Path) -> Path:
        """Write the model, for `TransformersModel.load`, and one line for each step and each task.

        Where adapters were trained, they are written, each to a folder of its role's name, and the
        base is not. The lines are in `training.jsonl`, where numbers that are not finite, for
        which JSON has no words, are null, and in `tasks.jsonl`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (self.learner or self.model).save(folder)
        (folder / CURVE).write_text("".join(map(curve_line, self.records)), "utf-8")
        (folder / TASKS).write_text("".join(task.line() for task in self.tasks), "utf-8")
        return folder
