"""Two levels on worlds that are known: 64 noisy answers beat a reward that can be hacked.

A world has 40 ways of doing a task. Four signals are measured of a run: how much of the work is
`done`, its `cost`, the `delay`, and the `likes` of a page's visitors. Likes go with the work done,
but for 6 of the ways, which beg for likes and do little. The user wants the work done, dislikes
cost, and does not mind delay up to a point: a utility that is not linear, and that nobody logs.
The policy is a softmax over the ways, trained by REINFORCE on the reward it is given.

The user answers by Bradley and Terry with a temperature of 0.1, and one answer in ten is a coin's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch

from rolecraft.rewards.learned import (
    GuidedReward,
    LearnedReward,
    NetSettings,
    Observation,
    Preference,
    bilevel,
    directions,
)

WAYS, HACKS = 40, 6
BATCH, STEPS, RATE, ENTROPY = 64, 25, 1.0, 0.2
ROUNDS, LABELS = 8, 8


class Run(NamedTuple):
    way: int
    seen: Observation
    utility: float


class World:
    """Ways of doing a task, and a policy over them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ways = [self._way(hack=index < HACKS) for index in range(WAYS)]
        self.torch = torch.Generator().manual_seed(seed)
        self.logits = torch.zeros(WAYS, dtype=torch.float64)
        self._played = 0

    def _way(self, *, hack: bool) -> dict[str, float]:
        draw = self.random.uniform
        done = draw(0.0, 0.25) if hack else draw(0.0, 1.0)
        likes = draw(1.2, 1.6) if hack else 0.8 * done + draw(0.0, 0.3)
        return {"done": done, "cost": draw(0.0, 1.0), "delay": draw(0.0, 1.0), "likes": likes}

    @staticmethod
    def utility(signals: dict[str, float]) -> float:
        late = max(0.0, signals["delay"] - 0.6)
        return 1.4 * signals["done"] - 0.6 * signals["cost"] - 1.5 * late - 0.4

    def play(self, way: int) -> Run:
        signals = {name: mean + self.random.gauss(0, 0.05) for name, mean in self.ways[way].items()}
        self._played += 1
        return Run(way, Observation(signals, "", f"run {self._played}"), self.utility(signals))

    def batch(self, count: int = BATCH) -> list[Run]:
        chances = torch.softmax(self.logits, 0)
        ways = torch.multinomial(chances, count, replacement=True, generator=self.torch)
        return [self.play(way) for way in ways.tolist()]

    def train(self, reward: Callable[[Sequence[Run]], Sequence[float]], steps: int) -> None:
        """REINFORCE with the batch's mean as baseline, unit variance, and an entropy bonus."""
        for _ in range(steps):
            runs = self.batch()
            value = torch.tensor(reward(runs), dtype=torch.float64)
            advantage = (value - value.mean()) / (value.std() + 1e-6)
            chances = torch.softmax(self.logits, 0)
            for run, gain in zip(runs, advantage.tolist(), strict=True):
                step = -chances.clone()
                step[run.way] += 1.0
                self.logits += RATE * gain / BATCH * step
            logs = torch.log(chances)
            self.logits -= RATE * ENTROPY * chances * (logs - (chances * logs).sum())

    def worth(self) -> float:
        """The policy's expected true utility."""
        chances = torch.softmax(self.logits, 0).tolist()
        return sum(p * self.utility(way) for p, way in zip(chances, self.ways, strict=True))

    def best(self) -> float:
        return max(map(self.utility, self.ways))


class User:
    """Knows what they want, and says so with noise."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.answers = 0

    def answer(self, pairs: Sequence[tuple[Observation, Observation]]) -> list[Preference]:
        return [Preference(a, b, "a" if self._prefers(a, b) else "b") for a, b in pairs]

    def _prefers(self, a: Observation, b: Observation) -> bool:
        self.answers += 1
        if self.random.random() < 0.1:
            return self.random.random() < 0.5
        gap = World.utility(dict(a.values)) - World.utility(dict(b.values))
        return self.random.random() < torch.sigmoid(torch.tensor(gap / 0.1)).item()


class Outcome(NamedTuple):
    proxy: float
    guided: float
    oracle: float
    best: float


def compare(seed: int) -> Outcome:
    hacked = World(seed)
    hacked.train(lambda runs: [run.seen.values["likes"] for run in runs], ROUNDS * STEPS)
    told = World(seed)
    told.train(lambda runs: [run.utility for run in runs], ROUNDS * STEPS)

    world, user = World(seed), User(seed)
    first = [run.seen for run in world.batch()]
    settings = NetSettings(directions(["done", "delay", "likes"], lower=["cost"]), seed=seed)
    guided = GuidedReward(LearnedReward.untrained(settings, first))

    def inner(reward: LearnedReward) -> list[Observation]:
        world.train(lambda runs: reward.values([run.seen for run in runs]), STEPS)
        return [run.seen for run in world.batch()]

    asyncio.run(
        bilevel(guided, inner, user.answer, rounds=ROUNDS, labels_per_round=LABELS, runs=first)
    )
    assert user.answers == ROUNDS * LABELS == 64
    return Outcome(hacked.worth(), world.worth(), told.worth(), world.best())


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def told(outcomes: dict[int, Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()
        for seed, outcome in outcomes.items():
            print(f"world {seed}:", *(f"{k} {v:+.2f}" for k, v in outcome._asdict().items()))


def test_64_noisy_answers_lead_past_a_hack_that_the_proxy_falls_for(
    capsys: pytest.CaptureFixture[str],
):
    outcome = compare(0)
    told({0: outcome}, capsys)
    assert outcome.proxy < 0 < outcome.guided
    assert outcome.guided - outcome.proxy >= 0.8


@pytest.mark.slow
def test_64_noisy_answers_beat_the_hackable_proxy_by_0_8_on_average(
    capsys: pytest.CaptureFixture[str],
):
    outcomes = {seed: compare(seed) for seed in range(6)}
    told(outcomes, capsys)
    gains = [outcome.guided - outcome.proxy for outcome in outcomes.values()]
    assert sum(gains) / len(gains) >= 0.8
    assert min(gains) > 0
