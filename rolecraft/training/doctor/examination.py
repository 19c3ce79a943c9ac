"""All checks, one after the other; one that cannot be made holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rewards.reward import Reward
from rolecraft.scenarios.scenario import Episode, Scenario
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.doctor.answers import of_answers, probed
from rolecraft.training.doctor.finding import Finding, attempted, failed
from rolecraft.training.doctor.gradients import NAME as GRADIENT
from rolecraft.training.doctor.gradients import check_gradients, gradient_of
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import ROLE
from rolecraft.training.doctor.rewards import (
    GROUPS,
    REWARD,
    SAFETY,
    check_groups,
    check_safety,
    check_values,
)
from rolecraft.training.doctor.template import NAME as TEMPLATE
from rolecraft.training.doctor.template import check_template
from rolecraft.training.doctor.throughput import (
    MEMORY,
    SPEED,
    Load,
    check_memory,
    check_speed,
)
from rolecraft.training.doctor.weight_sync import (
    ADAPTER,
    WEIGHTS,
    check_adapter_sync,
    check_weight_sync,
)
from rolecraft.training.policy.sequences import training_sequences
from rolecraft.training.rl.playing import Player, attempts
from rolecraft.trajectories.trajectory import Trajectory

EPISODES = "episodes"


async def examine(
    model: TransformersModel | None,
    *,
    adapters: Mapping[str, str | Path] | None = None,
    scenario: Scenario | None = None,
    reward: Reward | None = None,
    runs: Sequence[Trajectory] = (),
    algorithm: Algorithm | None = None,
    tasks: int = 4,
    tasks_per_step: int = 8,
    folder: str | Path | None = None,
    slow: float | None = None,
    seed: int = 0,
) -> AsyncIterator[Finding]:
    """Each check's finding as it comes. Adapters by role are loaded into `model`; weights stay.

    With a `scenario`, a group of attempts is played at each of so many `tasks`. `reward` is the
    scenario's by default, and also scores `runs`. `folder` is the model's, for its sizes; `slow`
    the seconds that a training step may take. Raises `AdapterError` for a folder that is no
    adapter of this model.
    """
    algorithm = algorithm or Algorithm()
    if reward is None and scenario is not None:
        reward = scenario.reward
    episodes: list[Episode] = []
    if model is not None:
        patient = Patient(model, adapters)
        for role, path in patient.adapters.items():
            await model.load_adapter(role, path)
        yield await attempted(TEMPLATE, lambda: check_template(model))
        if scenario is not None:
            if reward is not None:
                scenario = replace(scenario, reward=reward)
            try:
                episodes = await _play(scenario, model, algorithm.group, tasks, seed)
            except Exception as error:  # of the team's code, or the reward's
                yield failed(EPISODES, error)
        async for finding in _of_model(
            patient, algorithm, episodes, tasks_per_step * algorithm.group, folder, slow
        ):
            yield finding
    if reward is not None:
        async for finding in _of_reward(reward, [*runs], episodes, algorithm.group):
            yield finding


async def _play(
    scenario: Scenario, model: TransformersModel, group: int, tasks: int, seed: int
) -> list[Episode]:
    drawn = await asyncio.to_thread(scenario.tasks.sample, tasks, seed=seed, split="train")
    player = Player(scenario, model=model, role_models={}, refills=0)
    return (await player.play(attempts(drawn, group, seed, 0))).episodes


async def _of_model(
    patient: Patient,
    algorithm: Algorithm,
    episodes: Sequence[Episode],
    step: int,
    folder: str | Path | None,
    slow: float | None,
) -> AsyncIterator[Finding]:
    probe = await probed(patient)
    if isinstance(probe, Finding):
        yield probe
        return
    sequences = training_sequences(probe.trajectory)
    played = [training_sequences(episode.trajectory) for episode in episodes]
    settings = patient.settings() if patient.adapters else None
    load = Load.of(played, step)

    async def gradients() -> Finding:
        gradient = gradient_of(patient.module, algorithm, sequences, settings)
        return await patient.model.run(lambda: check_gradients(gradient, sequences, patient.dtype))

    async def memory() -> Finding:
        assert folder is not None
        return check_memory(
            folder,
            dtype=patient.dtype,
            device=str(patient.module.device),
            algorithm=algorithm,
            load=load,
            adapters=settings,
        )

    async for finding in of_answers(patient, probe, [each.trajectory for each in episodes]):
        yield finding
    yield await attempted(GRADIENT, gradients)
    yield await attempted(SPEED, lambda: check_speed(patient, algorithm, load, slow=slow))
    if folder is not None:
        yield await attempted(MEMORY, memory)
    yield await attempted(WEIGHTS, lambda: check_weight_sync(patient, sequences))
    yield await attempted(ADAPTER, lambda: check_adapter_sync(patient, probe.of(ROLE)))


async def _of_reward(
    reward: Reward, runs: Sequence[Trajectory], episodes: Sequence[Episode], size: int
) -> AsyncIterator[Finding]:
    every = [*runs, *(episode.trajectory for episode in episodes)]
    groups: dict[str, list[float]] = {}
    for episode in episodes:
        groups.setdefault(episode.task.id, []).append(episode.reward.value)
    for name, check in (
        (REWARD, lambda: check_values(reward, every)),
        (SAFETY, lambda: check_safety(reward, every)),
        (GROUPS, lambda: check_groups(groups, size)),
    ):
        yield await attempted(name, lambda check=check: asyncio.to_thread(check))  # type: ignore[misc]
