"""From what was played and learnt to the record of a step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from rolecraft.rollouts import Ended, StuckWatch
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.training.policy.trainer import UpdateStats
from rolecraft.training.rl.playing import Attempt, Played
from rolecraft.training.rl.records import Cost, RoleRecord, StepRecord, finite_mean

UNFINISHED = frozenset[Ended]({"turns", "tokens", "money", "seconds"})
"""Endings at a limit: the team did not come to an end of its own."""

_OF_STATS = {
    "entropy": "entropy",
    "kl": "moved",
    "reference_kl": "kl",
    "clip_fraction": "clipped",
    "gap": "gap",
    "grad_norm": "grad_norm",
}
"""What a role's record has from the role's part of an update."""


def step_record(
    step: int,
    version: int,
    played: Played,
    sequences: Sequence[TrainingSequence],
    stats: UpdateStats,
    *,
    unscored: Sequence[str] = (),
    groups: int = 0,
    silent_groups: int = 0,
    trainer_seconds: float = 0.0,
) -> StepRecord:
    """The record of `step`, which began with the policy `version`."""
    episodes = played.episodes
    rewards = [episode.reward.value for episode in episodes]
    roles: dict[str, list[float]] = {}
    signals: dict[str, list[float]] = {}
    for episode in episodes:
        for role, its_reward in episode.reward.roles.items():
            roles.setdefault(role, []).append(its_reward)
        for name, value in {s.name: s.value for s in episode.trajectory.signals}.items():
            signals.setdefault(name, []).append(value)
    ended = Counter(rollout.ended for rollout in played.rollouts)
    count = max(1, len(episodes))
    answers = _answers(played.rollouts)
    stale = stalenesses(sequences, version)
    return StepRecord(
        step=step,
        version=version,
        reward=finite_mean(rewards),
        roles=_means(roles),
        by_role=_by_role(played.rollouts, roles, answers, sequences, stats),
        signals=_means(signals),
        episodes=len(episodes),
        unscored=sum(not math.isfinite(reward) for reward in rewards),
        failed=len(played.failed),
        refilled=played.refilled,
        ended={str(word): number for word, number in sorted(ended.items())},
        stuck=ended["stuck"] / count,
        unfinished=sum(ended[word] for word in UNFINISHED) / count,
        truncated=_share(answers),
        groups=groups,
        silent_groups=silent_groups,
        loss=stats.loss,
        entropy=stats.entropy,
        clip_fraction=stats.clipped,
        kl=stats.moved,
        reference_kl=stats.kl,
        grad_norm=stats.grad_norm,
        gap=stats.gap,
        actions=stats.actions,
        greedy=sum(sequence.greedy for sequence in sequences),
        staleness=sum(stale) / max(1, len(stale)),
        staleness_max=max(stale, default=0),
        dropped=played.dropped,
        skipped=(*unscored, *stats.skipped, *stats.too_long),
        cost=_cost(played, trainer_seconds),
    )


def stalenesses(sequences: Sequence[TrainingSequence], version: int) -> list[int]:
    """Policy versions between the oldest token of each sequence and `version`."""
    return [version - s.version for s in sequences if s.version is not None]


def stuck_role(rollout: Attempt) -> str:
    """The role that did the same thing three turns running; empty if the ending is another."""
    if rollout.ended != "stuck" or rollout.episode is None:
        return ""
    watch = StuckWatch()
    for event in rollout.episode.trajectory.events:
        watch.on_known_event(event)
        if watch.role:
            return watch.role
    return ""


def _by_role(
    rollouts: Sequence[Attempt],
    rewards: dict[str, list[float]],
    answers: dict[str, list[bool]],
    sequences: Sequence[TrainingSequence],
    stats: UpdateStats,
) -> dict[str, RoleRecord]:
    stuck = Counter(map(stuck_role, rollouts))
    trained = getattr(stats, "roles", {})
    known = {each.name for each in fields(RoleRecord)}
    found = {}
    for role in dict.fromkeys(sequence.role for sequence in sequences):
        actions = sum(sum(s.action_mask) for s in sequences if s.role == role)
        of_stats = {
            name: getattr(trained[role], source)
            for name, source in _OF_STATS.items()
            if name in known and role in trained and hasattr(trained[role], source)
        }
        found[role] = RoleRecord(
            reward=finite_mean(rewards.get(role, ())),
            actions=actions,
            stuck=stuck[role] / max(1, len(rollouts)),
            truncated=_share({role: answers.get(role, [])}),
            **of_stats,
        )
    return found


def _answers(rollouts: Sequence[Attempt]) -> dict[str, list[bool]]:
    """For each role and answer, whether it was cut off because it was too long."""
    found: dict[str, list[bool]] = {}
    for rollout in rollouts:
        if rollout.episode is None:
            continue
        for event in rollout.episode.trajectory.of("model_call"):
            cut = event.data.get("finish_reason") == "length"
            found.setdefault(event.role, []).append(cut)
    return found


def _share(answers: dict[str, list[bool]]) -> float:
    together = [cut for each in answers.values() for cut in each]
    return sum(together) / max(1, len(together))


def _cost(played: Played, trainer_seconds: float) -> Cost:
    everything = [*played.rollouts, *played.failed]
    usd = 0.0
    for rollout in everything:
        trajectory = rollout.trajectory or getattr(rollout.episode, "trajectory", None)
        if trajectory is not None:
            usd += trajectory.usage.usd or 0.0
    environment = sum(
        seconds
        for rollout in everything
        for stage, seconds in rollout.seconds.items()
        if stage != "run"
    )
    return Cost(sampler=played.seconds, trainer=trainer_seconds, environment=environment, usd=usd)


def _means(values: dict[str, list[float]]) -> dict[str, float]:
    means = {name: finite_mean(its_values) for name, its_values in values.items()}
    return {name: mean for name, mean in means.items() if math.isfinite(mean)}
