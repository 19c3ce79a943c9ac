"""What an update reports of each role, what it leaves out, and every published algorithm in it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.models.tiny import tiny_model
from rolecraft.training import (
    ALGORITHMS,
    AdapterSettings,
    Algorithm,
    Clip,
    Importance,
    Normalise,
    Trainer,
    TrainingSequence,
    algorithm,
)

torch.set_num_threads(1)

ROLES = ("planner", "executor")
CONTEXT = 24
PLAIN = Algorithm(learning_rate=1e-3, max_grad_norm=1e9)


def base() -> Any:
    module = tiny_model("abcdefgh", hidden=16, heads=2, context=CONTEXT).module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.nn.init.normal_(module.lm_head.weight, std=0.3)
    return module


def sequence(number: int, length: int, seed: int = 0) -> TrainingSequence:
    drawn = random.Random(1000 * seed + number)
    mask = [index >= 2 and index % 5 != 4 for index in range(length)]
    return TrainingSequence(
        f"s{number}",
        ROLES[number % 2],
        [drawn.randrange(13) for _ in mask],
        mask,
        [-2.5 if action else 0.0 for action in mask],
        [1.0] * length,
        [None] * length,
        [drawn.uniform(-1, 1) if action else 0.0 for action in mask],
    )


def played(count: int = 8, seed: int = 0) -> list[TrainingSequence]:
    return [sequence(number, 5 + 2 * number, seed) for number in range(count)]


def on_policy(module: Any, sequences: Sequence[TrainingSequence]) -> list[TrainingSequence]:
    """The same, as if `module` had sampled them."""
    trainer = Trainer(module, PLAIN, reference=module)
    logprobs = trainer.reference_logprobs(sequences)
    return [replace(s, logprobs=lp) for s, lp in zip(sequences, logprobs, strict=True)]


def updated(module: Any, settings: Algorithm, sequences: Sequence[TrainingSequence]) -> Any:
    """The gradient of one update, and its numbers."""
    trainer = Trainer(module, replace(settings, epochs=1))
    group = trainer.groups[""]
    seen: list[Any] = []

    def look(*_: Any) -> None:
        gradients = [weight.grad for weight in group.masters if weight.grad is not None]
        seen.append(torch.cat([gradient.flatten() for gradient in gradients]))

    group.optimizer.register_step_pre_hook(look)
    stats = trainer.update(sequences)
    return seen[0], stats


@pytest.mark.parametrize("adapters", [None, AdapterSettings(roles=ROLES)])
@pytest.mark.parametrize("normalise", [Normalise.TOKENS, Normalise.SEQUENCES])
def test_numbers_of_the_roles_make_up_those_of_the_whole(
    adapters: AdapterSettings | None, normalise: Normalise
) -> None:
    settings = replace(PLAIN, normalise=normalise, entropy=0.1, micro_batch_tokens=30, epochs=2)
    stats = Trainer(base(), settings, adapters=adapters).update(played())
    roles = stats.roles
    assert set(roles) == set(ROLES)
    counted = {role: sum(sum(s.action_mask) for s in played() if s.role == role) for role in ROLES}
    assert {role: numbers.actions for role, numbers in roles.items()} == counted
    assert stats.actions == sum(counted.values())
    assert stats.sequences == 8 == sum(numbers.sequences for numbers in roles.values())
    for name in ("entropy", "moved", "clipped"):
        mean = sum(getattr(roles[r], name) * counted[r] for r in ROLES) / stats.actions
        assert getattr(stats, name) == pytest.approx(mean, rel=1e-6)
    assert stats.loss == pytest.approx(sum(numbers.loss for numbers in roles.values()))
    assert stats.gap == max(numbers.gap for numbers in roles.values())
    norms = [numbers.grad_norm for numbers in roles.values()]
    assert stats.grad_norm == pytest.approx(norms[0] if adapters is None else math.hypot(*norms))
    assert 0 < roles["planner"].entropy < math.log(13)


def test_sequences_longer_than_the_context_are_left_out_named_and_counted() -> None:
    """The model reads all but the last action: a sequence may be one token longer, no more."""
    fits, just, over = sequence(0, 10), sequence(1, CONTEXT + 1), sequence(2, CONTEXT + 3)
    over.action_mask[-1] = just.action_mask[-1] = True
    assert just.given_length == CONTEXT
    trainer = Trainer(base(), PLAIN)
    for _ in range(4):  # no reason to stop, however often
        stats = trainer.update([fits, over, just])
        assert stats.too_long == ("s2",)
        assert stats.skipped == ()
        assert stats.sequences == 2
    with pytest.raises(UsageError, match=rf"longer than the model's context of {CONTEXT}.*`s2`"):
        trainer.update([over])


def test_what_follows_the_last_action_does_not_make_a_sequence_too_long() -> None:
    tail = sequence(0, CONTEXT + 20)
    tail.action_mask[8:] = [False] * (len(tail.ids) - 8)
    assert Trainer(base(), PLAIN).update([tail]).too_long == ()


def test_sequences_without_actions_change_nothing() -> None:
    silent = replace(sequence(9, 12), action_mask=[False] * 12)
    settings = replace(PLAIN, normalise=Normalise.SEQUENCES)
    with_it, stats = updated(base(), settings, [*played(), silent])
    without, _ = updated(base(), settings, played())
    assert torch.equal(with_it, without)
    assert stats.sequences == 8
    with pytest.raises(UsageError, match="nothing to learn from"):
        Trainer(base(), settings).update([silent])


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_importance_weighs_what_another_policy_sampled(level: Any) -> None:
    """The sampler says a third of the probability for every action of one sequence: it weighs 3,
    or the cap. Ratios are against the trainer's own: 1 before the first step."""
    sequences = on_policy(base(), played(1))
    count = sum(sequences[0].action_mask)
    third = [
        replace(s, logprobs=[lp - math.log(3.0) if lp else 0.0 for lp in s.logprobs])
        for s in sequences
    ]
    once, _ = updated(base(), PLAIN, sequences)
    for cap, weight in ((2.0, 2.0), (1000.0, 3.0 if level == "token" else 3.0**count)):
        importance = Importance(cap=cap, level=level)
        found, stats = updated(base(), replace(PLAIN, importance=importance), third)
        torch.testing.assert_close(found, weight * once, rtol=1e-3, atol=1e-5)
        assert stats.capped == (1.0 if weight == cap else 0.0)
        assert stats.clipped == 0
    dropping = Trainer(base(), replace(PLAIN, importance=Importance(drop=True)))
    before = [weight.detach().clone() for weight in dropping.module.parameters()]
    assert dropping.update(third).grad_norm == 0
    assert all(map(torch.equal, before, dropping.module.parameters()))


def test_importance_takes_no_further_pass_and_keeps_the_first_log_probabilities() -> None:
    module = base()
    passes = [0]
    module.model.register_forward_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    settings = replace(
        PLAIN, learning_rate=0.05, epochs=3, clip=Clip(0.01, 0.01), importance=Importance(cap=1e6)
    )
    sequences = played()
    trainer = Trainer(module, settings)
    trainer.update(sequences)  # how the model takes rows is found out once
    passes[0] = 0
    stats = trainer.update(sequences)
    assert passes[0] == 3
    # Against itself at each epoch nothing would ever be clipped; against the first, most is.
    assert stats.clipped > 0.3


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_published_algorithm_makes_good_actions_likelier(name: str) -> None:
    settings = algorithm(name, learning_rate=2e-3, epochs=4)
    module = base()
    trainer = Trainer(module, settings, adapters=AdapterSettings(roles=ROLES))
    sequences = on_policy(base(), played())
    if settings.critic is not None:
        trainer.value(sequences)
        for each in sequences:
            each.returns = [0.5 if action else 0.0 for action in each.action_mask]

    def weighed() -> float:
        before = trainer.policy.each(sequences, lambda batch: trainer.policy.score(batch)[0])
        return sum(
            logp * advantage
            for logps, s in zip(before, sequences, strict=True)
            for logp, advantage in zip(logps, s.advantages, strict=True)
        )

    start = weighed()
    stats = trainer.update(sequences)
    assert stats.skipped == ()
    assert stats.gap < 1e-4
    assert weighed() > start
