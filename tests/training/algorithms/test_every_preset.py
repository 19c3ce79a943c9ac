"""What every preset pulls by, in expectation, over policies whose outcomes can all be counted.

A softmax policy over three tokens answers with one token (or two); every batch of answers is
weighed by its probability. The right sides come from finite differences of plain sums of
probabilities and know nothing of log-probabilities, ratios or clips.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
import torch

from rolecraft.training.algorithms.advantages import group_advantages
from rolecraft.training.algorithms.losses import policy_gradient_loss
from rolecraft.training.algorithms.presets import ALGORITHMS
from rolecraft.training.algorithms.returns import charged, gae, token_returns
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.steps import gigpo
from rolecraft.training.algorithms.terms import Kl, Normalise
from rolecraft.training.algorithms.whitening import whiten

torch.set_num_threads(1)
F64 = torch.float64
THETA = torch.tensor([0.3, -0.4, 0.1], dtype=F64)
REFERENCE = torch.tensor([0.2, 0.5, 0.3], dtype=F64)
REWARDS = [0.25, 1.0, 0.0]
VALUE = 0.4
"""What the critic says before the one token."""

Rows = list[list[float]]


def advantages_of(algorithm: Algorithm, rewards: Sequence[float]) -> Rows:
    """Of a batch of answers of one token each, all to one task."""
    rows = [[reward] for reward in rewards]
    tasks = ["task"] * len(rewards)
    masks = [[True] for _ in rewards]
    if algorithm.steps is not None:
        seen = [["start"] for _ in rewards]
        return gigpo(rewards, tasks, rows, seen, steps=algorithm.steps, kind=algorithm.advantage)
    if algorithm.critic is not None:
        critic = algorithm.critic
        advantages = [
            gae(row, [VALUE], [True], gamma=critic.gamma, lam=critic.lam).advantages for row in rows
        ]
    elif algorithm.advantage == "returns":
        advantages = [token_returns(row, [True], gamma=algorithm.gamma) for row in rows]
    else:
        advantages = [[a] for a in group_advantages(rewards, tasks, kind=algorithm.advantage)]
    if algorithm.whiten:
        return whiten(advantages, masks, centre=not algorithm.compares_groups)
    return advantages


def batches(size: int, length: int = 1) -> Iterator[tuple[tuple[int, ...], ...]]:
    answers = list(itertools.product(range(3), repeat=length))
    return itertools.product(answers, repeat=size)


def probability(theta: torch.Tensor, batch: Sequence[Sequence[int]]) -> torch.Tensor:
    p = theta.softmax(-1)
    return torch.stack([p[token] for answer in batch for token in answer]).prod()


def expected_pull(
    algorithm: Algorithm,
    advantages: Callable[[Sequence[Sequence[int]]], Rows],
    *,
    size: int,
    length: int = 1,
) -> torch.Tensor:
    """Minus the gradient of the preset's loss on fresh samples, over all batches."""
    pull = torch.zeros(3, dtype=F64)
    for batch in batches(size, length):
        theta = THETA.clone().requires_grad_()
        logp = theta.log_softmax(-1)[torch.tensor(batch)]
        loss = policy_gradient_loss(
            logp,
            logp.detach(),
            torch.tensor(advantages(batch), dtype=F64),
            torch.ones(size, length, dtype=torch.bool),
            clip=algorithm.clip,
            normalise=algorithm.normalise,
            max_tokens=algorithm.max_tokens,
        )
        loss.total.backward()
        assert theta.grad is not None
        pull -= probability(THETA, batch) * theta.grad
    return pull


def by_difference(objective: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    eps = 1e-6
    return torch.stack(
        [
            (objective(THETA + eps * unit) - objective(THETA - eps * unit)) / (2 * eps)
            for unit in torch.eye(3, dtype=F64)
        ]
    )


def divisor(algorithm: Algorithm) -> float:
    """What one answer of one token is divided by, beside the number of answers."""
    return algorithm.max_tokens or 1.0


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_expected_gradient_is_the_score_function_times_the_advantage(name: str) -> None:
    """For a batch drawn with p, answers a_i: E sum_i A_i p'(a_i) / p(a_i), moved in p' alone."""
    algorithm, size = ALGORITHMS[name], 3

    def advantages(batch: Sequence[Sequence[int]]) -> Rows:
        return advantages_of(algorithm, [REWARDS[answer[0]] for answer in batch])

    def surrogate(theta: torch.Tensor) -> torch.Tensor:
        moved, fixed = theta.softmax(-1), THETA.softmax(-1)
        total = torch.zeros((), dtype=F64)
        for batch in batches(size):
            for (token,), (advantage,) in zip(batch, advantages(batch), strict=True):
                share = advantage * moved[token] / fixed[token]
                total = total + probability(THETA, batch) * share
        return total / size / divisor(algorithm)

    pull = expected_pull(algorithm, advantages, size=size)
    assert pull.norm() * divisor(algorithm) > 1e-3
    torch.testing.assert_close(pull, by_difference(surrogate), rtol=0, atol=1e-8)


def expected_reward(theta: torch.Tensor) -> torch.Tensor:
    return (theta.softmax(-1) * torch.tensor(REWARDS, dtype=F64)).sum()


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("rloo", 1.0),
        ("dr_grpo", 2 / 3),  # the mean includes the answer itself: (G - 1) / G
        ("dppo", 2 / 3),
        ("ppo", 1.0),
        ("reinforce++", 1.0),
        ("reinforce++_baseline", 2 / 3),
    ],
)
def test_those_without_a_spread_pull_by_the_gradient_of_the_expected_reward(
    name: str, share: float
) -> None:
    """Whitening divides by a spread of the same batch, which is no constant: it is left off."""
    algorithm = replace(ALGORITHMS[name], whiten=False)
    pull = expected_pull(
        algorithm,
        lambda batch: advantages_of(algorithm, [REWARDS[answer[0]] for answer in batch]),
        size=3,
    )
    right = share * by_difference(expected_reward) / divisor(algorithm)
    torch.testing.assert_close(pull, right, rtol=0, atol=1e-8)


def test_maxrl_pulls_by_the_log_likelihood_of_success_cut_off_at_the_group() -> None:
    """For rewards of 0 and 1: sum over k = 1..G-1 of -(1 - p)^k / k.

    The G-th term is what leaving groups without any success at 0 costs.
    """
    size, algorithm = 3, ALGORITHMS["maxrl"]

    def series(theta: torch.Tensor) -> torch.Tensor:
        failure = 1 - theta.softmax(-1)[1]
        return -sum(failure**k / k for k in range(1, size))  # type: ignore[return-value]

    pull = expected_pull(
        algorithm,
        lambda batch: advantages_of(algorithm, [float(answer[0] == 1) for answer in batch]),
        size=size,
    )
    torch.testing.assert_close(pull, by_difference(series), rtol=0, atol=1e-5)


def test_returns_and_gae_pull_by_the_gradient_of_the_return_of_two_tokens() -> None:
    """The second token is answered by the first one's reward, too; a critic changes nothing."""
    algorithm = replace(
        ALGORITHMS["reinforce++"], whiten=False, normalise=Normalise.MAX_TOKENS, max_tokens=1
    )

    def rewards(answer: Sequence[int]) -> list[float]:
        return [REWARDS[answer[0]], float(answer[0] == answer[1])]

    def value(theta: torch.Tensor) -> torch.Tensor:
        return sum(  # type: ignore[return-value]
            probability(theta, batch) * sum(rewards(batch[0])) for batch in batches(1, 2)
        )

    right = by_difference(value)
    mask = [True, True]
    for advantages in (
        lambda batch: [token_returns(rewards(answer), mask) for answer in batch],
        lambda batch: [
            gae(rewards(answer), [0.7, REWARDS[answer[0]] ** 2], mask, lam=1.0).advantages
            for answer in batch
        ],
    ):
        pull = expected_pull(algorithm, advantages, size=1, length=2)
        torch.testing.assert_close(pull, right, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["rloo", "reinforce++"])
def test_a_k1_penalty_in_the_reward_pulls_by_the_gradient_of_the_divergence(name: str) -> None:
    """E R - coefficient KL(policy || reference), as `Kl` says."""
    kl = Kl(0.3, "k1")
    algorithm = replace(ALGORITHMS[name], whiten=False, kl=kl)

    def advantages(batch: Sequence[Sequence[int]]) -> Rows:
        policy = THETA.log_softmax(-1)
        return advantages_of(
            algorithm,
            [
                charged(
                    [REWARDS[token]],
                    [float(policy[token])],
                    [float(REFERENCE[token].log())],
                    [True],
                    kl=kl,
                )[0]
                for (token,) in batch
            ],
        )

    def objective(theta: torch.Tensor) -> torch.Tensor:
        policy = theta.log_softmax(-1)
        divergence = (policy.exp() * (policy - REFERENCE.log())).sum()
        return expected_reward(theta) - kl.coefficient * divergence

    pull = expected_pull(algorithm, advantages, size=3)
    torch.testing.assert_close(pull, by_difference(objective), rtol=0, atol=1e-8)
