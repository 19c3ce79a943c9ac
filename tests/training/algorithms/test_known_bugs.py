"""Errors that other libraries made in public, each with what keeps ours from making it.

Only those that live in pure functions; issue numbers are of the named project on GitHub.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rolecraft.training.algorithms.advantages import ADVANTAGES
from rolecraft.training.algorithms.clips import Clip, Importance
from rolecraft.training.algorithms.losses import (
    MOST_K3,
    StepSize,
    importance_weights,
    kl_estimate,
    policy_gradient_loss,
)
from rolecraft.training.algorithms.returns import gae, token_returns
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.steps import gigpo
from rolecraft.training.algorithms.terms import Kl, Normalise, StepGroups
from rolecraft.training.algorithms.whitening import whiten

torch.set_num_threads(1)
F64 = torch.float64


def gradient(advantages: list[list[float]], mask: list[list[bool]], **how: Any) -> torch.Tensor:
    """Of the loss on fresh samples, by their log-probabilities."""
    how.setdefault("clip", Clip())
    how.setdefault("normalise", Normalise.TOKENS)
    logp = torch.full((len(mask), len(mask[0])), -1.0, dtype=F64, requires_grad=True)
    loss = policy_gradient_loss(
        logp, logp.detach(), torch.tensor(advantages, dtype=F64), torch.tensor(mask), **how
    )
    loss.total.backward()
    assert logp.grad is not None
    return logp.grad


def test_averaging_over_the_micro_batch() -> None:
    """TRL #3021, #5619 and #6024, transformers #34191: gradients off by half to four times.

    A sequence of three tokens and one of one: averaged over their micro-batches, the token of the
    short one would weigh three times as much as each of the long one's.
    """
    step = StepSize(sequences=2, tokens=4)
    long = gradient([[1.0]], [[True] * 3], step=step)
    short = gradient([[1.0]], [[True]], step=step)
    assert long.tolist() == [[-0.25] * 3]
    assert short.tolist() == [[-0.25]]
    wrong = {"normalise": Normalise.MICRO_BATCH, "step": step}
    assert gradient([[1.0]], [[True]], **wrong).tolist() == [[-0.5]]
    with pytest.raises(Exception, match="how a step is split"):
        Algorithm(normalise=Normalise.MICRO_BATCH)


def test_dividing_by_the_group_or_a_partial_window_once_more() -> None:
    """ms-swift #10117 and #10084: the step's size is given once and does not shrink at its end.

    Three micro-batches of a step that was meant for four: each still is a share of the whole.
    """
    step = StepSize(sequences=3, tokens=3)
    parts = [gradient([[1.0]], [[True]], step=step) for _ in range(3)]
    whole = gradient([[1.0]] * 3, [[True]] * 3)
    torch.testing.assert_close(torch.cat(parts), whole)


def test_a_tool_result_that_ends_the_return() -> None:
    """verl #7278: REINFORCE++ set the return to 0 at every tool span, and began anew before it."""
    mask = [True, True, False, False, False, True]
    assert token_returns([0, 0, 0, 0, 0, 1], mask) == [1, 1, 0, 0, 0, 1]


def test_a_critics_opinion_of_tool_tokens() -> None:
    """verl #2337; SkyRL: values of tool tokens moved the advantages of actions by up to 1.3."""
    mask = [True, True, False, False, True]
    rewards = [0.0, 0.0, 0.0, 0.0, 1.0]
    clean = gae(rewards, [0.1, 0.2, 0.0, 0.0, 0.4], mask, lam=0.95)
    dirty = gae(rewards, [0.1, 0.2, -50.0, math.nan, 0.4], mask, lam=0.95)
    assert clean == dirty
    other = [*clean.advantages[:2], 7.0, math.nan, clean.advantages[4]]
    assert whiten([other], [mask], centre=True) == whiten([clean.advantages], [mask], centre=True)


def test_credit_for_one_turn_that_reached_others() -> None:
    """SkyRL #1507: advantages of steps landed on wrong positions, most steps trained with 0."""
    turns = gigpo(
        [1.0, 0.0], ["t"] * 2, [[0, 1.0], [0, 0]], [["a", "b"], ["a", "b"]], steps=StepGroups()
    )
    assert all(advantage != 0 for row in turns for advantage in row)
    first, second = turns[0]
    mask = [[True, True, False, False, True]]
    per_token = [[first, first, 0.0, 0.0, second]]
    for clip in (Clip(), Clip(3e-4, 4e-4, level="sequence")):
        pull = -gradient(per_token, mask, clip=clip) * 3
        assert pull.tolist() == [pytest.approx(per_token[0])]


def test_nan_times_zero() -> None:
    """SkyRL #1633: a NaN under the mask came back as NaN, because 0 times NaN is NaN."""
    mask = torch.tensor([[True, False]])
    logp = torch.tensor([[-1.0, math.nan]], dtype=F64, requires_grad=True)
    dirty = torch.tensor([[-1.2, math.inf]], dtype=F64)
    loss = policy_gradient_loss(
        logp,
        dirty,
        torch.tensor([[1.0, math.nan]], dtype=F64),
        mask,
        clip=Clip(),
        normalise=Normalise.TOKENS,
        kl=Kl(0.1, "k3"),
        reference_logp_NT=dirty,
        entropy=0.1,
        entropy_NT=torch.tensor([[1.0, math.nan]], dtype=F64),
        importance=Importance(),
        old_logp_NT=torch.tensor([[-1.1, math.nan]], dtype=F64),
    )
    loss.total.backward()
    for value in (loss.total, loss.kl, loss.entropy, loss.moved, loss.capped):
        assert torch.isfinite(value)
    assert logp.grad is not None
    assert torch.isfinite(logp.grad).all()
    assert float(logp.grad[0, 1]) == 0.0


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_a_divergence_without_a_gradient(estimator: Any) -> None:
    """SkyRL #1340 and #1353: the penalty was computed under `no_grad` and pulled nowhere."""
    reference = torch.tensor([[-2.0]], dtype=F64)
    how: dict[str, Any] = {"kl": Kl(0.5, estimator), "reference_logp_NT": reference}
    assert float(gradient([[0.0]], [[True]], **how)) > 0.1


def test_a_divergence_from_itself() -> None:
    """torchforge #571: `logp - logp.detach()` stood for the divergence, which was always 0."""
    logp, reference = torch.tensor([-1.0], dtype=F64), torch.tensor([-2.0], dtype=F64)
    for estimator in ("k1", "k2", "k3"):
        assert float(kl_estimate(logp, reference, estimator)) > 0.3  # type: ignore[arg-type]


def test_defaults_that_give_no_gradient_at_all() -> None:
    """mlx-lm-lora #55: with one update per batch, the default's gradient was exactly 0."""
    default = Algorithm()
    pull = gradient([[1.0]], [[True]], clip=default.clip, normalise=default.normalise)
    assert float(pull) == -1.0


@pytest.mark.parametrize("kind", sorted(ADVANTAGES))
def test_a_group_of_one_that_keeps_its_raw_reward(kind: str) -> None:
    """SkyRL, verl and verl-agent take mean 0 and std 1 for a single attempt: its reward counts."""
    assert ADVANTAGES[kind]([5.0]) == [0.0]


def test_an_episodes_mean_taken_over_its_steps() -> None:
    """verl-agent's default: an attempt of nine turns is nine members of its group."""
    turns = gigpo(
        [0.0, 1.0, 1.0],
        ["t"] * 3,
        [[0.0] * 9, [1.0], [1.0]],
        [[f"s{i}" for i in range(9)], ["x"], ["y"]],
        steps=StepGroups(),
    )
    assert turns[0] == [pytest.approx(-2 / 3)] * 9
    assert turns[1] == [pytest.approx(1 / 3)]


def test_a_mean_over_padding() -> None:
    """AReaL #1346: a padded row's advantage was averaged with the zeros of its padding."""
    short, padded = [[2.0], [0.0]], [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    mask = [[True, False, False]] * 2
    white = whiten(padded, mask, centre=True)
    assert [row[:1] for row in white] == whiten(short, [[True]] * 2, centre=True)
    sequence = Clip(3e-4, 4e-4, level="sequence")
    for normalise in (Normalise.SEQUENCES, Normalise.TOKENS):
        wide = gradient(padded, mask, clip=sequence, normalise=normalise)
        narrow = gradient(short, [[True]] * 2, clip=sequence, normalise=normalise)
        torch.testing.assert_close(wide[:, :1], narrow)


def test_a_reward_on_the_padding_after_the_end() -> None:
    """TRL #3750 and #5338: a reward that stood after the last token never reached it."""
    assert token_returns([0, 0, 0, 1], [True, True, False, False]) == [1, 1, 0, 0]


def test_long_answers_that_vanish_without_a_word() -> None:
    """TRL #4772: a product over the sequence grows with its length, and long ones were masked.

    The product is what it is; how much it cut off is told.
    """
    gap, lengths = 0.01, (10, 200)
    old = torch.zeros(2, 200, dtype=F64)
    mask = torch.arange(200) < torch.tensor(lengths)[:, None]
    cut = Importance(3.0, "sequence", drop=True)
    weights, capped = importance_weights(old, old - gap, mask, cut)
    assert weights[0, 0] == pytest.approx(math.exp(0.1))
    assert not weights[1].any()
    assert capped.sum() == 200
    by_token, uncapped = importance_weights(old, old - gap, mask, Importance(3.0))
    assert by_token.max() == pytest.approx(math.exp(gap))
    assert not uncapped.any()


def test_what_an_attempt_without_actions_still_does() -> None:
    """The stated rule for masked attempts: in the baseline with its reward, nowhere else.

    Its row has no gradient and is in no divisor but that of whole sequences, which the step says.
    """
    advantages = ADVANTAGES["dr_grpo"]([1.0, 1.0, 0.0, 0.0])
    assert advantages == [0.5, 0.5, -0.5, -0.5]
    rows = [[a] for a in advantages]
    masks = [[True], [True], [True], [False]]
    step = StepSize(sequences=3, tokens=3)
    for normalise in (Normalise.TOKENS, Normalise.SEQUENCES):
        pull = gradient(rows, masks, normalise=normalise, step=step)
        alone = gradient(rows[:3], masks[:3], normalise=normalise)
        torch.testing.assert_close(pull[:3], alone)
        assert not pull[3].any()


@pytest.mark.parametrize("far", [89.0, 200.0])
def test_a_stale_token_far_from_the_reference_does_not_overflow_the_penalty(far: float) -> None:
    """e^d of k3 is infinite in float32 from 88.7; the other token's pull is what it is alone."""
    logp = torch.tensor([[-far, -1.0]], requires_grad=True)
    loss = policy_gradient_loss(
        logp,
        torch.tensor([[-1.0, -1.0]]),
        torch.tensor([[0.0, 1.0]]),
        torch.ones(1, 2, dtype=torch.bool),
        clip=Clip(),
        normalise=Normalise.TOKENS,
        kl=Kl(0.1, "k3"),
        reference_logp_NT=torch.tensor([[0.0, -2.0]]),
    )
    loss.total.backward()
    assert torch.isfinite(torch.stack([loss.total.detach(), loss.kl, loss.moved])).all()
    assert logp.grad is not None
    assert logp.grad[0].tolist() == pytest.approx([0.0, -0.5 + 0.05 * (1 - math.exp(-1))])
    bound = math.exp(MOST_K3) - MOST_K3 - 1
    for d in (MOST_K3, far):
        assert float(kl_estimate(torch.zeros(()), torch.tensor(d), "k3")) == pytest.approx(bound)
    # Downwards nothing overflows, and nothing is bounded.
    assert float(kl_estimate(torch.zeros(()), torch.tensor(-far), "k3")) == pytest.approx(far - 1)
    # The other way round, a token that has become far likelier than it was sampled.
    moved = policy_gradient_loss(
        torch.tensor([[0.0]]),
        torch.tensor([[-far]]),
        torch.tensor([[1.0]]),
        torch.ones(1, 1, dtype=torch.bool),
        clip=Clip(),
        normalise=Normalise.TOKENS,
    ).moved
    assert float(moved) == pytest.approx(bound)
