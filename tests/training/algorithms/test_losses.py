"""Losses against published reference values, closed forms and properties."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.clips import AnyClip, Clip, DetachedClip, ProbabilityClip
from rolecraft.training.algorithms.losses import (
    Loss,
    StepSize,
    kl_estimate,
    policy_gradient_loss,
)
from rolecraft.training.algorithms.terms import Kl, Normalise

torch.set_num_threads(1)
F64 = torch.float64

BY_NAME: dict[str, dict[str, Any]] = {
    "grpo": {"normalise": Normalise.SEQUENCES},
    "bnpo": {"normalise": Normalise.MICRO_BATCH},
    "dapo": {"normalise": Normalise.TOKENS},
    "dr_grpo": {"normalise": Normalise.MAX_TOKENS, "max_tokens": 4},
    "grpo_gspo": {"normalise": Normalise.SEQUENCES, "clip": Clip(0.2, 0.28, level="sequence")},
    "grpo_kl0.04": {"normalise": Normalise.SEQUENCES, "kl": Kl(0.04, "k3")},
    "cispo_emax5": {"normalise": Normalise.TOKENS, "clip": DetachedClip(0.0, 5.0)},
    # One of four micro-batches of a step: a quarter of the loss of a step on its own.
    "grpo_ga4": {"normalise": Normalise.SEQUENCES, "step": StepSize(sequences=8, tokens=20)},
}


@pytest.fixture(scope="session")
def reference(data_dir: Path) -> dict[str, Any]:
    """What TRL's GRPO trainer computed in float64 on a fixed example: losses and gradients."""
    read: dict[str, Any] = json.loads((data_dir / "trl_grpo_reference.json").read_text("utf-8"))
    return read


def inputs_of(reference: dict[str, Any]) -> dict[str, torch.Tensor]:
    inputs = reference["inputs"]
    return {
        "logp_NT": torch.tensor(inputs["lp"], dtype=F64, requires_grad=True),
        "sampled_logp_NT": torch.tensor(inputs["old"], dtype=F64),
        "advantage_NT": torch.tensor(inputs["adv"], dtype=F64)[:, None],
        "action_mask_NT": torch.tensor(inputs["mask"], dtype=torch.bool),
    }


def loss_of(inputs: dict[str, torch.Tensor], **how: Any) -> Loss:
    how.setdefault("clip", Clip(0.2, 0.28))
    how.setdefault("normalise", Normalise.TOKENS)
    return policy_gradient_loss(**inputs, **how)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_losses_and_gradients_are_those_of_trl(name: str, reference: dict[str, Any]) -> None:
    inputs, how = inputs_of(reference), BY_NAME[name]
    if "kl" in how:
        how = {**how, "reference_logp_NT": torch.tensor(reference["inputs"]["ref"], dtype=F64)}
    loss = loss_of(inputs, **how)
    loss.total.backward()
    assert float(loss.total.detach()) == pytest.approx(reference["loss"][name], abs=1e-9)
    expected = torch.tensor(reference["grad"][name], dtype=F64)
    torch.testing.assert_close(inputs["logp_NT"].grad, expected, rtol=0, atol=1e-9)


def test_every_reference_value_is_tested(reference: dict[str, Any]) -> None:
    assert set(BY_NAME) == set(reference["loss"]) == set(reference["grad"])


SETTINGS: list[dict[str, Any]] = [
    {"normalise": normalise, "clip": clip, **extra}
    for normalise in (Normalise.SEQUENCES, Normalise.TOKENS, Normalise.MAX_TOKENS)
    for clip in (
        Clip(),
        Clip(3e-4, 4e-4, level="sequence"),
        Clip(dual=3.0),
        DetachedClip(),
        ProbabilityClip(0.1, 0.1),
    )
    for extra in ({}, {"kl": Kl(0.1, "k2"), "entropy": 0.02})
]


def random_inputs(
    seed: int, sequences: int = 6, tokens: int = 7
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Inputs of the loss, and the extra ones of the divergence and entropy terms."""
    g = torch.Generator().manual_seed(seed)

    def normal() -> torch.Tensor:
        return torch.randn(sequences, tokens, generator=g, dtype=F64)

    mask = torch.rand(sequences, tokens, generator=g) < 0.6
    mask[:, 0] = True
    logp = -normal().abs()
    inputs = {
        "logp_NT": logp,
        "sampled_logp_NT": logp + 0.3 * normal(),
        "advantage_NT": normal()[:, :1],
        "action_mask_NT": mask,
    }
    return inputs, {"reference_logp_NT": logp + normal(), "entropy_NT": normal().abs()}


def gradient(
    inputs: dict[str, torch.Tensor], extra: dict[str, torch.Tensor], **how: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Loss, and its gradients by log-probabilities and entropies."""
    inputs = {**inputs, "logp_NT": inputs["logp_NT"].clone().requires_grad_()}
    how.setdefault("max_tokens", 7 if how["normalise"] is Normalise.MAX_TOKENS else None)
    if "kl" in how:
        entropy = extra["entropy_NT"].clone().requires_grad_()
        how.update(reference_logp_NT=extra["reference_logp_NT"], entropy_NT=entropy)
    loss = policy_gradient_loss(**inputs, **how)
    loss.total.backward()
    return (
        loss.total.detach(),
        inputs["logp_NT"].grad,
        how["entropy_NT"].grad if "kl" in how else None,
    )


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 1e300])
def test_nothing_at_masked_positions_changes_anything(how: dict[str, Any], poison: float) -> None:
    inputs, extra = random_inputs(0)
    mask = inputs["action_mask_NT"]

    def poisoned(values: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, values.expand_as(mask), poison)

    dirty = {k: v if k == "action_mask_NT" else poisoned(v) for k, v in inputs.items()}
    dirty_extra = {name: poisoned(values) for name, values in extra.items()}
    clean_result, dirty_result = gradient(inputs, extra, **how), gradient(dirty, dirty_extra, **how)
    for clean, other in zip(clean_result, dirty_result, strict=True):
        if clean is not None:
            assert other is not None
            assert torch.equal(clean, other)
            if clean.ndim:
                assert not other[~mask].any()


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=6, max_size=6))
@pytest.mark.parametrize("how", SETTINGS)
def test_splitting_a_step_into_micro_batches_changes_nothing(
    how: dict[str, Any], seed: int, part_of: list[int]
) -> None:
    inputs, extra = random_inputs(seed)
    step = StepSize(6, int(inputs["action_mask_NT"].sum()))
    whole, grad, entropy_grad = gradient(inputs, extra, **how)
    total = torch.zeros((), dtype=F64)
    for part in set(part_of):
        rows = [row for row, its_part in enumerate(part_of) if its_part == part]
        micro, micro_grad, micro_entropy_grad = gradient(
            {name: values[rows] for name, values in inputs.items()},
            {name: values[rows] for name, values in extra.items()},
            step=step,
            **how,
        )
        total += micro
        torch.testing.assert_close(micro_grad, grad[rows])
        if entropy_grad is not None:
            torch.testing.assert_close(micro_entropy_grad, entropy_grad[rows])
    torch.testing.assert_close(total, whole)


@pytest.mark.parametrize("how", SETTINGS)
def test_order_and_padding_change_nothing(how: dict[str, Any]) -> None:
    """Rows in another order; columns of padding on either side or in between."""
    inputs, extra = random_inputs(1)
    whole, grad, _ = gradient(inputs, extra, **how)
    order = [3, 0, 5, 1, 4, 2]
    columns = [0, 7, 1, 2, 7, 7, 3, 4, 5, 6, 7]  # 7 is padding

    def moved(values: torch.Tensor) -> torch.Tensor:
        if values.shape[1] == 1:
            return values[order]
        filler = torch.zeros(6, 1, dtype=values.dtype)
        return torch.cat([values, filler], dim=1)[order][:, columns]

    other, other_grad, _ = gradient(
        {name: moved(values) for name, values in inputs.items()},
        {name: moved(values) for name, values in extra.items()},
        **how,
    )
    torch.testing.assert_close(other, whole)
    torch.testing.assert_close(other_grad, moved(grad))


@pytest.mark.parametrize(
    "clip", [Clip(), Clip(3e-4, 4e-4, level="sequence"), DetachedClip(), ProbabilityClip()]
)
def test_on_policy_the_gradient_is_reinforce(clip: AnyClip) -> None:
    """Before the first step all ratios are 1: whatever the clip, the gradient is -A / tokens."""
    inputs, extra = random_inputs(2)
    inputs["sampled_logp_NT"] = inputs["logp_NT"]
    mask = inputs["action_mask_NT"]
    _, grad, _ = gradient(inputs, extra, clip=clip, normalise=Normalise.TOKENS)
    expected = -(inputs["advantage_NT"] * mask) / mask.sum()
    if isinstance(clip, Clip) and clip.level == "sequence":  # shared out among its tokens
        expected = expected.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True) * mask
    torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize(
    ("ratio", "advantage", "has_gradient"),
    [
        (1.1, 1.0, True),
        (1.25, 1.0, True),  # more room upwards than downwards
        (1.3, 1.0, False),  # already likelier than the clip allows
        (1.3, -1.0, True),
        (0.7, -1.0, False),  # already unlikelier than the clip allows
        (0.7, 1.0, True),
        (0.79, -1.0, False),
        (3.5, -1.0, False),  # the dual clip
        (2.5, -1.0, True),
    ],
)
def test_the_clip_cuts_the_gradient_on_the_right_side(
    ratio: float, advantage: float, has_gradient: bool
) -> None:
    logp = torch.tensor([[math.log(ratio)]], dtype=F64, requires_grad=True)
    zero, one = torch.zeros(1, 1, dtype=F64), torch.full((1, 1), advantage, dtype=F64)
    loss = policy_gradient_loss(
        logp,
        zero,
        one,
        torch.ones(1, 1, dtype=torch.bool),
        clip=Clip(0.2, 0.28, dual=3.0),
        normalise=Normalise.TOKENS,
    )
    loss.total.backward()
    assert bool(logp.grad.any()) == has_gradient
    assert float(loss.clipped) == float(not has_gradient)
    if ratio == 3.5:
        assert float(loss.total.detach()) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("sampled", "now", "advantage", "has_gradient"),
    [
        (0.5, 0.75, 1.0, True),
        (0.5, 0.85, 1.0, False),  # good, and already 0.3 likelier
        (0.5, 0.85, -1.0, True),
        (0.5, 0.35, -1.0, True),
        (0.5, 0.25, -1.0, False),  # bad, and already 0.2 unlikelier
        (0.5, 0.25, 1.0, True),
        (0.001, 0.1, 1.0, True),  # a hundred times likelier, which a clip of ratios would cut off
        (0.99, 0.7, -1.0, False),  # a ratio of 0.7 is more than `Clip` allows, too
        (0.9, 0.5, 0.0, False),  # neither good nor bad: nothing to cut off
    ],
)
def test_a_probability_clip_looks_at_the_difference(
    sampled: float, now: float, advantage: float, has_gradient: bool
) -> None:
    logp = torch.tensor([[math.log(now)]], dtype=F64, requires_grad=True)
    loss = policy_gradient_loss(
        logp,
        torch.tensor([[math.log(sampled)]], dtype=F64),
        torch.tensor([[advantage]], dtype=F64),
        torch.ones(1, 1, dtype=torch.bool),
        clip=ProbabilityClip(0.2, 0.3),
        normalise=Normalise.TOKENS,
    )
    loss.total.backward()
    assert bool(logp.grad.any()) == has_gradient
    assert float(loss.clipped) == float(not has_gradient and advantage != 0)
    if has_gradient:
        assert float(logp.grad) == pytest.approx(-advantage * now / sampled)
    else:
        assert float(loss.total.detach()) == 0.0


@pytest.mark.parametrize("clip", [Clip(), Clip(dual=3.0), DetachedClip(), ProbabilityClip()])
def test_a_ratio_that_overflows_spoils_no_other_action(clip: AnyClip) -> None:
    """An action that was all but impossible when it was sampled, in float32."""
    logp = torch.tensor([[-0.1, -1.0]], requires_grad=True)
    loss = policy_gradient_loss(
        logp,
        torch.tensor([[-200.0, -1.0]]),
        torch.tensor([[1.0]]),
        torch.ones(1, 2, dtype=torch.bool),
        clip=clip,
        normalise=Normalise.TOKENS,
    )
    loss.total.backward()
    assert torch.isfinite(loss.total)
    assert torch.isfinite(logp.grad).all()
    assert float(logp.grad[0, 1]) == -0.5
    assert float(loss.clipped) == 0.5


def test_a_sequence_clip_keeps_each_turns_own_advantage() -> None:
    """Equation 14 of GSPO: the ratio is the sequence's, the credit and gradient each token's."""
    inputs, _ = random_inputs(5)
    mask = inputs["action_mask_NT"]
    inputs["advantage_NT"] = torch.arange(1.0, 8.0, dtype=F64).expand(6, 7)
    inputs["logp_NT"] = inputs["logp_NT"].clone().requires_grad_()
    loss = loss_of(inputs, clip=Clip(1.0, 1e9, level="sequence"))
    loss.total.backward()
    log_ratio = torch.where(mask, inputs["logp_NT"] - inputs["sampled_logp_NT"], 0.0).detach()
    ratio = (log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)).exp()
    expected = -torch.where(mask, ratio * inputs["advantage_NT"], 0.0) / mask.sum()
    torch.testing.assert_close(inputs["logp_NT"].grad, expected)


REWARD = torch.tensor([0.2, 1.0, -0.5], dtype=F64)


def expected_reward(theta: torch.Tensor) -> torch.Tensor:
    return (theta.softmax(-1) * REWARD).sum()


@pytest.mark.parametrize(
    "clip", [Clip(0.9, 9.0), DetachedClip(0.0, 10.0), ProbabilityClip(0.9, 0.9)]
)
@pytest.mark.parametrize("behaviour", [None, [0.5, 0.3, 0.2]])
def test_the_expected_gradient_is_that_of_the_expected_reward(
    clip: AnyClip, behaviour: list[float] | None
) -> None:
    """A softmax policy over three tokens, every outcome enumerated and weighed by its probability.

    On policy, and with samples of another policy within the clip: the importance weights make up
    for it. The right side comes from finite differences and knows nothing of policy gradients.
    """
    theta = torch.tensor([0.3, -0.4, 0.1], dtype=F64)
    sampled = theta.softmax(-1) if behaviour is None else torch.tensor(behaviour, dtype=F64)
    expectation = torch.zeros(3, dtype=F64)
    for token in range(3):
        parameter = theta.clone().requires_grad_()
        loss = policy_gradient_loss(
            parameter.log_softmax(-1)[token].reshape(1, 1),
            sampled[token].log().reshape(1, 1),
            REWARD[token].reshape(1, 1),
            torch.ones(1, 1, dtype=torch.bool),
            clip=clip,
            normalise=Normalise.TOKENS,
        )
        loss.total.backward()
        expectation += sampled[token] * parameter.grad
    eps = 1e-6
    by_difference = [
        (expected_reward(theta + eps * unit) - expected_reward(theta - eps * unit)) / (2 * eps)
        for unit in torch.eye(3, dtype=F64)
    ]
    torch.testing.assert_close(-expectation, torch.stack(by_difference), rtol=0, atol=1e-8)


def test_divergence_estimators() -> None:
    """For p = (.5, .3, .2) and q = (.4, .4, .2): k1 and k3 are unbiased, k2 is not."""
    p, q = torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]], dtype=F64)
    mean = {k: float((p * kl_estimate(p.log(), q.log(), k)).sum()) for k in ("k1", "k2", "k3")}
    assert mean["k1"] == pytest.approx(0.0252671539, abs=1e-10)
    assert mean["k3"] == pytest.approx(mean["k1"], abs=1e-12)
    assert mean["k2"] == pytest.approx(0.0248624, abs=1e-7)
    assert (kl_estimate(p.log(), q.log(), "k3") >= 0).all()


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_each_penalty_pulls_by_the_gradient_that_its_description_names(estimator: Any) -> None:
    """Every token of a policy over three, weighed by its probability: nothing is left to chance.

    k2 has the gradient of KL(policy || reference), k3 that of KL(reference || policy).
    """
    theta = torch.tensor([0.5, -0.3, 1.0], dtype=F64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([1.0, 0.0, -1.0], dtype=F64), 0)
    policy = torch.log_softmax(theta, 0)
    divergence = {
        "k2": (policy.exp() * (policy - reference)).sum(),
        "k3": (reference.exp() * (reference - policy)).sum(),
    }[estimator]
    (expected,) = torch.autograd.grad(divergence, theta)
    pull = torch.zeros(3, dtype=F64)
    for token, probability in enumerate(policy.detach().exp()):
        logp = torch.log_softmax(theta, 0)[token].view(1, 1)
        loss = policy_gradient_loss(
            logp,
            logp.detach(),
            torch.zeros(1, 1, dtype=F64),
            torch.ones(1, 1, dtype=torch.bool),
            clip=Clip(),
            normalise=Normalise.TOKENS,
            kl=Kl(1.0, estimator),
            reference_logp_NT=reference[token].view(1, 1),
        )
        pull += probability * torch.autograd.grad(loss.total, theta)[0]
    assert expected.norm() > 0.1
    torch.testing.assert_close(pull, expected, rtol=0, atol=1e-12)


def test_k1_estimates_the_divergence_and_pulls_nowhere() -> None:
    """Why `Kl` takes it off the reward instead: in expectation its gradient is zero."""
    theta = torch.tensor([0.5, -0.3, 1.0], dtype=F64, requires_grad=True)
    logp = torch.log_softmax(theta, 0)
    estimate = kl_estimate(logp, torch.log(torch.tensor([0.6, 0.3, 0.1], dtype=F64)), "k1")
    (pull,) = torch.autograd.grad((logp.detach().exp() * estimate).sum(), theta)
    torch.testing.assert_close(pull, torch.zeros(3, dtype=F64), rtol=0, atol=1e-12)


def test_reports_are_means_over_the_actions() -> None:
    inputs, extra = random_inputs(3)
    mask = inputs["action_mask_NT"]
    loss = policy_gradient_loss(
        **inputs, **extra, clip=Clip(), normalise=Normalise.TOKENS, kl=Kl(0.5, "k2"), entropy=0.1
    )
    log_ratio = (inputs["logp_NT"] - inputs["sampled_logp_NT"])[mask]
    assert loss.entropy == pytest.approx(float(extra["entropy_NT"][mask].mean()))
    assert loss.kl == pytest.approx(
        float((inputs["logp_NT"] - extra["reference_logp_NT"])[mask].square().mean() / 2)
    )
    assert loss.moved == pytest.approx(float((log_ratio.exp() - 1 - log_ratio).mean()))
    assert float(loss.total) == pytest.approx(
        float(loss.policy) + 0.5 * float(loss.kl) - 0.1 * float(loss.entropy)
    )


def test_a_sequence_without_actions_costs_nothing() -> None:
    inputs, extra = random_inputs(4)
    inputs["action_mask_NT"][2] = False
    for how in SETTINGS:
        _, grad, _ = gradient(inputs, extra, **how)
        assert torch.isfinite(grad).all()
        assert not grad[2].any()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Clip(-0.1),
        lambda: Clip(1.1),
        lambda: Clip(high=-1.0),
        lambda: Clip(level="word"),  # type: ignore[arg-type]
        lambda: Clip(dual=0.5),
        lambda: DetachedClip(2.0, 1.0),
        lambda: ProbabilityClip(0.0),
        lambda: ProbabilityClip(high=1.5),
        lambda: loss_of(random_inputs(0)[0], normalise=Normalise.MAX_TOKENS),
        lambda: loss_of(random_inputs(0)[0], kl=Kl(), reference_logp_NT=None),
        lambda: Kl(estimator="k4"),  # type: ignore[arg-type]
        lambda: loss_of(random_inputs(0)[0], kl=Kl(0.1, "k1")),
        lambda: Kl(coefficient=-0.1),
        lambda: Kl(coefficient=math.nan),
        lambda: kl_estimate(torch.zeros(1), torch.zeros(1), "k4"),  # type: ignore[arg-type]
        lambda: loss_of(random_inputs(0)[0], entropy=0.1),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        wrong()
