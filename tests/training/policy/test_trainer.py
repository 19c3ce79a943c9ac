"""One update: what it changes, what it must not depend on, and what it does with bad numbers."""

from __future__ import annotations

import asyncio
import copy
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training import (
    FROM_SCRATCH,
    Algorithm,
    Clip,
    DetachedClip,
    Kl,
    Normalise,
    Trainer,
    TrainingDiverged,
    TrainingSequence,
    training_sequences,
)
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

torch.set_num_threads(1)

LETTERS = tuple("abcdefgh")
STEADY = Algorithm(learning_rate=1e-3, epochs=1)


def policy() -> TransformersModel:
    model = tiny_model(LETTERS)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.module.lm_head.weight, std=0.1)
    return model


async def attempt(model: TransformersModel, seed: int) -> TrainingSequence:
    session = model.session("r", seed=seed)
    trajectory = Trajectory(f"t{seed}")
    for turn in range(1 + seed % 2):
        prompt = " ".join(LETTERS[seed % 5 : seed % 5 + 1 + turn])
        how = Sampling(choices=LETTERS, temperature=1.5) if seed % 3 else Sampling(max_tokens=3)
        completion = await session.generate([Message(prompt)], sampling=how)
        trajectory.events.append(Event("model_call", role="r", tokens=completion.tokens))
    (sequence,) = training_sequences(trajectory)
    sequence.credit(random.Random(seed).uniform(-1, 1))
    return sequence


def attempts(model: TransformersModel, count: int = 16) -> list[TrainingSequence]:
    async def play() -> list[TrainingSequence]:
        return await asyncio.gather(*(attempt(model, seed) for seed in range(count)))

    return asyncio.run(play())


def weights(module: Any) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in module.parameters()]


def gradients(algorithm: Algorithm, sequences: Sequence[TrainingSequence]) -> list[torch.Tensor]:
    """The gradient of one update, in float64, of a model that is always the same."""
    module = copy.deepcopy(policy().module).double()
    trainer = Trainer(module, replace(algorithm, epochs=1, max_grad_norm=1e9))
    seen: list[torch.Tensor] = []

    def look(*_: Any) -> None:
        seen.extend(weight.grad.clone() for weight in trainer.groups[""].weights)

    trainer.groups[""].optimizer.register_step_pre_hook(look)
    trainer.update(sequences)
    return seen


@pytest.fixture(scope="module")
def sequences() -> list[TrainingSequence]:
    return attempts(policy())


@pytest.mark.parametrize(
    "algorithm",
    [
        Algorithm(),
        Algorithm(normalise=Normalise.SEQUENCES, entropy=0.05),
        Algorithm(normalise=Normalise.MAX_TOKENS, max_tokens=3, clip=DetachedClip()),
        Algorithm(clip=Clip(3e-4, 4e-4, level="sequence"), kl=Kl(0.1)),
    ],
)
def test_the_gradient_does_not_depend_on_micro_batches_or_order(
    algorithm: Algorithm, sequences: list[TrainingSequence]
) -> None:
    whole = gradients(algorithm, sequences)
    assert any(gradient.any() for gradient in whole)
    shuffled = random.Random(1).sample(sequences, len(sequences))
    for micro_batch_tokens in (1, 20, 50):
        split = gradients(replace(algorithm, micro_batch_tokens=micro_batch_tokens), shuffled)
        for ours, theirs in zip(split, whole, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_tool_tokens_and_what_follows_the_last_action_get_no_gradient(
    sequences: list[TrainingSequence],
) -> None:
    """Embeddings of tokens that were only ever the last given ones stay as they are."""
    longer = [
        replace(
            s,
            ids=[*s.ids, 9],
            action_mask=[*s.action_mask, False],
            logprobs=[*s.logprobs, math.nan],
            temperatures=[*s.temperatures, 1.0],
            support=[*s.support, None],
            advantages=[*s.advantages, math.nan],
        )
        for s in sequences
    ]
    for ours, theirs in zip(
        gradients(Algorithm(), longer), gradients(Algorithm(), sequences), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_before_the_first_step_trainer_and_sampler_agree() -> None:
    model = policy()
    stats = Trainer(model.module, STEADY).update(attempts(model))
    assert stats.gap < 1e-5
    assert stats.clipped == 0.0
    assert stats.moved == pytest.approx(0.0, abs=1e-9)
    assert stats.skipped == ()
    assert stats.sequences == 16


def test_good_answers_become_likelier_and_bad_ones_less() -> None:
    model = policy()
    sequences = attempts(model, 64)
    trainer = Trainer(model.module, Algorithm(learning_rate=1e-3, epochs=5, clip=Clip(0.5, 0.5)))

    def weighed() -> float:
        """Mean of advantage times log-probability."""
        with torch.no_grad():
            return sum(
                float((batch.log_probs(model.module)[0] * batch.advantage_NA).sum())
                for batch in trainer.policy.batches(sequences)
            )

    before = weighed()
    stats = trainer.update(sequences)
    assert weighed() > before
    assert stats.moved > 0


def test_without_advantages_only_the_entropy_bonus_moves_the_weights() -> None:
    model = policy()
    sequences = [
        replace(sequence, advantages=[0.0] * len(sequence.ids)) for sequence in attempts(model)
    ]
    before = weights(model.module)
    Trainer(model.module, STEADY).update(sequences)
    assert all(map(torch.equal, before, weights(model.module)))
    trainer = Trainer(model.module, replace(STEADY, entropy=0.1, epochs=8))
    first = trainer.update(sequences).entropy
    assert trainer.update(sequences).entropy > first


def test_a_penalty_keeps_the_policy_near_its_reference() -> None:
    def distance(kl: Kl | None) -> float:
        model = policy()
        sequences = attempts(model, 48)
        start = copy.deepcopy(model.module)
        algorithm = Algorithm(learning_rate=3e-3, epochs=12, clip=DetachedClip(0.0, 100.0), kl=kl)
        Trainer(model.module, algorithm).update(sequences)
        look = Trainer(model.module, replace(algorithm, kl=Kl(1e-9)), reference=start)
        return look.update(sequences).kl

    assert distance(Kl(5.0)) < 0.3 * distance(None)


def test_weights_that_need_no_gradient_stay_bit_for_bit() -> None:
    model = policy()
    model.module.model.embed_tokens.requires_grad_(False)
    before = model.module.model.embed_tokens.weight.clone()
    head = model.module.lm_head.weight.clone()
    Trainer(model.module, FROM_SCRATCH).update(attempts(model))
    assert torch.equal(before, model.module.model.embed_tokens.weight)
    assert not torch.equal(head, model.module.lm_head.weight)


def test_the_same_update_gives_the_same_weights(sequences: list[TrainingSequence]) -> None:
    """Bit for bit. The sequences are played once: which of them one forward pass answers together
    is a matter of time, and a pass over others rounds their log-probabilities otherwise.
    """
    before = weights(policy().module)
    results = []
    for _ in range(2):
        model = policy()
        Trainer(model.module, FROM_SCRATCH).update(copy.deepcopy(sequences))
        results.append(weights(model.module))
    assert all(map(torch.equal, *results))
    assert not all(map(torch.equal, before, results[0]))


def poison_advantage(sequence: TrainingSequence) -> TrainingSequence:
    return replace(sequence, advantages=[math.nan] * len(sequence.ids))


def poison_logprob(sequence: TrainingSequence) -> TrainingSequence:
    return replace(sequence, logprobs=[-math.inf] * len(sequence.ids))


def poison_model(sequence: TrainingSequence) -> TrainingSequence:
    """One of its tokens has an embedding that is no number in the model below."""
    return replace(sequence, ids=[13 if token == 3 else token for token in sequence.ids])


@pytest.mark.parametrize("poison", [poison_advantage, poison_logprob, poison_model])
def test_a_sequence_with_bad_numbers_is_left_out_as_if_it_had_never_been(
    poison: Callable[[TrainingSequence], TrainingSequence],
) -> None:
    sequences = attempts(tiny_model([*LETTERS, "never"]), 12)
    results = []
    for bad in (True, False):
        model = tiny_model([*LETTERS, "never"])
        with torch.no_grad():
            model.module.model.embed_tokens.weight[13] = math.nan
        broken = [poison(sequence) for sequence in sequences[3:5]]
        trainer = Trainer(model.module, FROM_SCRATCH)
        stats = trainer.update([*sequences[:3], *(broken if bad else []), *sequences[5:]])
        assert sorted(stats.skipped) == (["t3:r:3", "t4:r:4"] if bad else [])
        assert stats.sequences == 10
        results.append(weights(model.module))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_bad_numbers_three_updates_in_a_row_are_an_error_that_names_them() -> None:
    model = policy()
    good = attempts(model, 6)
    bad = [poison_advantage(good[0]), *good[1:]]
    trainer = Trainer(model.module, STEADY)
    for batch in (bad, bad, good, bad, bad):  # never three in a row
        trainer.update(batch)
    with pytest.raises(TrainingDiverged, match=r"`t0:r:0`.*rewards") as raised:
        trainer.update(bad)
    assert raised.value.skipped == ("t0:r:0",)


def test_damaged_weights_are_never_made_worse_and_end_in_an_error() -> None:
    model = policy()
    sequences = attempts(model, 6)
    with torch.no_grad():
        model.module.model.norm.weight[0] = math.nan
    before = weights(model.module)
    trainer = Trainer(model.module, STEADY)
    for _ in range(2):
        assert len(trainer.update(sequences).skipped) == 6
    with pytest.raises(TrainingDiverged, match="and 3 more"):
        trainer.update(sequences)
    for ours, theirs in zip(before, weights(model.module), strict=True):
        assert torch.equal(ours.nan_to_num(7), theirs.nan_to_num(7))


def test_a_gradient_that_overflows_is_no_step() -> None:
    model = policy()
    sequences = [
        replace(s, advantages=[1e38 * a for a in s.advantages]) for s in attempts(model, 6)
    ]
    before = weights(model.module)
    trainer = Trainer(model.module, replace(STEADY, normalise=Normalise.SEQUENCES))
    stats = trainer.update(sequences)
    assert not math.isfinite(stats.grad_norm)
    assert all(map(torch.equal, before, weights(model.module)))
    trainer.update(sequences)
    with pytest.raises(TrainingDiverged, match="gradient was not finite"):
        trainer.update(sequences)


def test_a_step_that_ruins_the_weights_is_named_as_the_reason() -> None:
    """Not the gradient: it was the next step that found log-probabilities to be no numbers."""
    model = policy()
    sequences = attempts(model, 6)
    sound = copy.deepcopy(model.module.state_dict())
    trainer = Trainer(model.module, Algorithm(learning_rate=1e36, epochs=2))
    for _ in range(2):
        assert trainer.update(sequences).skipped == ()
        model.module.load_state_dict(sound)
    with pytest.raises(
        TrainingDiverged, match=r"After 1 of its steps.*log-prob.*`t0:r:0`"
    ) as raised:
        trainer.update(sequences)
    assert "gradient" not in str(raised.value)


def test_nothing_to_learn_from_is_an_error() -> None:
    trainer = Trainer(policy().module, STEADY)
    forced = TrainingSequence("x", "r", [1, 2], [False] * 2, [0.0] * 2, [1.0] * 2, [None] * 2)
    for nothing in ([], [forced]):
        with pytest.raises(UsageError, match="nothing to learn from"):
            trainer.update(nothing)


def test_a_model_without_weights_to_train_is_an_error() -> None:
    with pytest.raises(UsageError, match="requires_grad"):
        Trainer(policy().module.requires_grad_(False), STEADY)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": 1},
        {"group": 2.5},
        {"epochs": 0},
        {"micro_batch_tokens": 0},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"max_grad_norm": -1.0},
        {"entropy": -0.1},
        {"advantage": "best"},
        {"normalise": Normalise.MAX_TOKENS},
        {"max_tokens": 5},
        {"normalise": Normalise.MICRO_BATCH},
    ],
)
def test_settings_that_make_no_sense_are_refused_when_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Algorithm(**wrong)
