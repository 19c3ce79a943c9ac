"""The training loop: play, score, compare, update, and again with the new weights.

for each step:
    play `group` attempts at each of `tasks_per_step` tasks
    advantage of a role in an attempt = its reward against the group's
    update the weights on the tokens that the roles sampled
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rolecraft.environments.task import Task
from rolecraft.errors import UnknownName, UsageError
from rolecraft.models._hashing import hash64
from rolecraft.models.chance import UniformModel
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rollouts import Failed, collect
from rolecraft.rollouts.heap import set_aside
from rolecraft.scenarios import Episode, Scenario
from rolecraft.training.advantages import group_advantages
from rolecraft.training.grpo import FROM_SCRATCH, GRPO, Trainer, UpdateStats
from rolecraft.training.records import StepRecord, TrainingRun, finite_mean
from rolecraft.training.sequences import TrainingSequence, training_sequences

SMOOTHING = 10
"""Steps whose mean reward `until` looks at."""


async def train(
    scenario: Scenario,
    *,
    model: TransformersModel | None = None,
    algorithm: GRPO | None = None,
    steps: int = 60,
    tasks_per_step: int = 64,
    frozen: Collection[str] = (),
    seed: int = 0,
    until: float | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> TrainingRun:
    """Train the roles of `scenario`, which all share the weights of `model`.

    Without `model`, the scenario's untrained one is taken, and `algorithm` is `FROM_SCRATCH`
    instead of `GRPO()`. Roles named in `frozen` choose uniformly among the answers they are
    offered and are not trained. Training ends after `steps`, or once the mean reward of the last
    ten steps reaches `until`; `on_step` hears of each step as it ends. The same arguments on the
    same machine give the same weights.

    Episodes that raise are counted and left out; when all of a step raise, so does `train`.
    Raises `UsageError` for arguments that cannot be meant, `TrainingDiverged` when numbers go
    wrong step after step.
    """
    if steps < 0 or tasks_per_step < 1:
        raise UsageError(
            f"`train` wants steps >= 0 and tasks_per_step >= 1, got {steps!r} and "
            f"{tasks_per_step!r}."
        )
    if algorithm is None:
        algorithm = FROM_SCRATCH if model is None else GRPO()
    model = _policy(scenario, model, seed)
    role_models = _frozen_models(scenario, frozen)
    trainer = Trainer(model.module, algorithm)
    records: list[StepRecord] = []
    began = time.process_time()
    with set_aside():
        for step in range(steps):
            with _garbage_waits():
                record = await _step(
                    scenario, trainer, model, role_models, tasks_per_step, seed, step
                )
            records.append(replace(record, cpu_seconds=time.process_time() - began))
            if on_step is not None:
                on_step(records[-1])
            recent = [record.reward for record in records[-SMOOTHING:]]
            if until is not None and len(recent) == SMOOTHING and finite_mean(recent) >= until:
                break
    return TrainingRun(model, records, time.process_time() - began)


async def _step(
    scenario: Scenario,
    trainer: Trainer,
    model: TransformersModel,
    role_models: dict[str, UniformModel],
    tasks_per_step: int,
    seed: int,
    step: int,
) -> StepRecord:
    """Play, score, update."""
    algorithm = trainer.algorithm
    tasks = _attempts(scenario, tasks_per_step, algorithm.group, seed, step)
    results = await collect(
        scenario, tasks, model=model, role_models=role_models, concurrency=len(tasks)
    )
    played = [result for result in results if isinstance(result, Episode)]
    if not played:
        _raise_first(results)
    sequences, unscored = scored_sequences(played, algorithm)
    if unscored and not sequences:
        raise UsageError(
            f"No reward of step {step} is a finite number, for any of {len(played)} episodes: "
            f"mend the reward of scenario `{scenario.name}`. The first: `{unscored[0]}`."
        )
    version = model.version

    def update() -> UpdateStats:
        stats = trainer.update(sequences)
        model.version += 1
        return stats

    stats = await model.run(update)
    record = _record(step, played, stats, unscored, failed=len(results) - len(played))
    return replace(record, version=version, greedy=sum(s.greedy for s in sequences))


def scored_sequences(
    episodes: Sequence[Episode], algorithm: GRPO
) -> tuple[list[TrainingSequence], list[str]]:
    """The token sequences of `episodes` with their advantages.

    A group is one role's attempts at one task (episodes whose task has the same id); every
    sequence of the role in an attempt gets the attempt's advantage. Roles whose model recorded no
    tokens are absent. Also returns the names of attempts that were left out because their reward
    is not finite: they belong to no group.
    """
    rewards: list[float] = []
    groups: list[tuple[str, str]] = []
    attempts: list[list[TrainingSequence]] = []
    unscored: list[str] = []
    for number, episode in enumerate(episodes):
        name = f"{episode.trajectory.id}#{number}"
        by_role: dict[str, list[TrainingSequence]] = {}
        for sequence in training_sequences(episode.trajectory, name=name):
            by_role.setdefault(sequence.role, []).append(sequence)
        for role, its_sequences in by_role.items():
            reward = episode.reward.roles.get(role, episode.reward.value)
            if not math.isfinite(reward):
                unscored.append(f"{name}:{role}")
                continue
            rewards.append(reward)
            groups.append((episode.task.id, role))
            attempts.append(its_sequences)
    advantages = group_advantages(rewards, groups, kind=algorithm.advantage)
    for its_sequences, advantage in zip(attempts, advantages, strict=True):
        for sequence in its_sequences:
            sequence.advantage = advantage
    return [sequence for its_sequences in attempts for sequence in its_sequences], unscored


def _attempts(scenario: Scenario, tasks: int, group: int, seed: int, step: int) -> list[Task]:
    """`group` copies of each of this step's tasks, every copy with a seed of its own."""
    drawn = scenario.tasks.sample(tasks, seed=_seed(seed, step), split="train")
    return [
        replace(task, seed=_seed(seed, step, number, attempt))
        for number, task in enumerate(drawn)
        for attempt in range(group)
    ]


def _seed(*parts: int) -> int:
    return hash64(*parts) >> 11  # 53 bits: exact in any JSON reader


def _policy(scenario: Scenario, model: TransformersModel | None, seed: int) -> TransformersModel:
    policy: Any = model
    if policy is None:
        if scenario.untrained is None:
            raise UsageError(
                f"Scenario `{scenario.name}` brings no untrained model. Give `train` one: "
                f"`model=TransformersModel.load(folder)`."
            )
        policy = scenario.untrained(seed)
    if not isinstance(policy, TransformersModel):
        raise UsageError(
            f"`train` changes weights in this process and wants a `TransformersModel`, got "
            f"{policy!r}."
        )
    return policy


def _frozen_models(scenario: Scenario, frozen: Collection[str]) -> dict[str, UniformModel]:
    names = [role.name for role in scenario.team()]
    if isinstance(frozen, str):
        raise UsageError(f"`train(frozen=...)` wants a list of role names, got {frozen!r}.")
    for name in frozen:
        if name not in names:
            raise UnknownName(f"Role of scenario `{scenario.name}`", name, names)
    if set(names) <= set(frozen):
        raise UsageError(f"All roles of `{scenario.name}` are frozen: nothing is left to train.")
    return {name: UniformModel() for name in frozen}


def _raise_first(results: Sequence[Episode | Failed]) -> None:
    for result in results:
        if isinstance(result, Failed):
            result.error.add_note(
                f"in the episode of task {result.task.id!r}; all {len(results)} episodes of this "
                f"step raised"
            )
            raise result.error


def _record(
    step: int, played: Sequence[Episode], stats: UpdateStats, unscored: list[str], *, failed: int
) -> StepRecord:
    roles: dict[str, list[float]] = {}
    signals: dict[str, list[float]] = {}
    for episode in played:
        for role, its_reward in episode.reward.roles.items():
            roles.setdefault(role, []).append(its_reward)
        for name, value in {s.name: s.value for s in episode.trajectory.signals}.items():
            signals.setdefault(name, []).append(value)
    rewards = [episode.reward.value for episode in played]
    return StepRecord(
        step=step,
        reward=finite_mean(rewards),
        roles=_means(roles),
        signals=_means(signals),
        episodes=len(played),
        unscored=sum(not math.isfinite(reward) for reward in rewards),
        failed=failed,
        loss=stats.loss,
        entropy=stats.entropy,
        clip_fraction=stats.clipped,
        kl=stats.moved,
        reference_kl=stats.kl,
        grad_norm=stats.grad_norm,
        gap=stats.gap,
        actions=stats.actions,
        skipped=(*unscored, *stats.skipped),
    )


def _means(values: dict[str, list[float]]) -> dict[str, float]:
    means = {name: finite_mean(its_values) for name, its_values in values.items()}
    return {name: mean for name, mean in means.items() if math.isfinite(mean)}


@contextmanager
def _garbage_waits() -> Iterator[None]:
    """Collect garbage once, after the block, instead of again and again inside it.

    The episodes of a step live until it ends, so that collections meanwhile find next to nothing
    and look at everything: with a small model they are a third of the time.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
            gc.collect()
