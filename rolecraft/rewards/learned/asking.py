"""Which questions to ask: where the members disagree on the answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations

from rolecraft.models.hashing import hash64
from rolecraft.rewards.learned._torch import torch
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.observation import Observation

MOST_CANDIDATES = 20_000
"""Pairs that are looked at; of more, so many are drawn."""

Pair = tuple[Observation, Observation]


def pairs_to_ask(
    reward: LearnedReward,
    runs: Sequence[Observation],
    count: int,
    *,
    answered: Collection[tuple[str, ...]] = (),
    seed: int = 0,
) -> list[Pair]:
    """The `count` pairs of `runs` whose answer would say most; fewer if there are not so many.

    Once the reward is fitted, these are the pairs on which its members' probabilities differ most;
    before, those whose signals are furthest apart. Pairs that look the same to the reward are never
    asked, nor those whose question is `answered`. Each further pair with a run that was just taken
    counts for less, so that one odd run does not fill the list.
    """
    candidates = _candidates(len(runs), seed)
    candidates = [
        (i, j)
        for i, j in candidates
        if tuple(sorted((runs[i].run, runs[j].run))) not in answered
        and (runs[i].values != runs[j].values or runs[i].goal != runs[j].goal)
    ]
    if not candidates:
        return []
    scores = _disagreement(reward, runs, candidates) if reward.fits else None
    if scores is None or not any(scores):
        scores = _distance(reward, runs, candidates)
    taken: Counter[int] = Counter()
    chosen: list[tuple[int, int]] = []
    left = dict(zip(candidates, scores, strict=True))
    while left and len(chosen) < count:
        pair = max(left, key=lambda pair: left[pair] / (1 + taken[pair[0]] + taken[pair[1]]))
        if left.pop(pair) <= 0:
            break
        chosen.append(pair)
        taken.update(pair)
    swap = random.Random(hash64("order", seed))  # nobody learns that the left one is the better
    return [(runs[i], runs[j]) if swap.random() < 0.5 else (runs[j], runs[i]) for i, j in chosen]


def runs_to_rate(
    reward: LearnedReward,
    runs: Sequence[Observation],
    count: int,
    *,
    answered: Collection[tuple[str, ...]] = (),
) -> list[Observation]:
    """The `count` runs on whose value the members disagree most."""
    open_runs = [run for run in runs if (run.run,) not in answered]
    if not open_runs:
        return []
    spread = reward.estimates(open_runs).total_EB.std(0).tolist()
    order = sorted(range(len(open_runs)), key=lambda i: -spread[i])
    return [open_runs[i] for i in order[:count]]


def _candidates(runs: int, seed: int) -> list[tuple[int, int]]:
    if runs * (runs - 1) // 2 <= MOST_CANDIDATES:
        return list(combinations(range(runs), 2))
    draw = random.Random(hash64("pairs", seed))
    some = {tuple(sorted(draw.sample(range(runs), 2))) for _ in range(MOST_CANDIDATES)}
    return sorted((i, j) for i, j in some)


def _disagreement(
    reward: LearnedReward, runs: Sequence[Observation], pairs: Sequence[tuple[int, int]]
) -> list[float]:
    total_EB = reward.estimates(runs).total_EB
    first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
    said_EP = torch.sigmoid(total_EB[:, first] - total_EB[:, second])
    spread: list[float] = said_EP.std(0).tolist()
    return spread


def _distance(
    reward: LearnedReward, runs: Sequence[Observation], pairs: Sequence[tuple[int, int]]
) -> list[float]:
    inputs = reward.inputs(runs)
    both_BF = torch.cat([inputs.x_BK, inputs.present_BK, inputs.goal_BG], dim=1)
    first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
    far: list[float] = (both_BF[first] - both_BF[second]).norm(dim=1).tolist()
    return far
