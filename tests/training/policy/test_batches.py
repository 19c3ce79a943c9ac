"""Log-probabilities in the trainer are the sampler's, and nothing beside them matters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.policy.batches import Batch, micro_batches
from rolecraft.training.policy.sequences import BrokenSequence, TrainingSequence, training_sequences
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

torch.set_num_threads(1)

WORDS = [*"abcdefgh"]
CHOICES = ("a", "a b", "c d", "e")
WAYS = [
    Sampling(max_tokens=4),
    Sampling(max_tokens=4, temperature=0.6),
    Sampling(choices=CHOICES),
    Sampling(choices=CHOICES, temperature=1.8),
    Sampling(max_tokens=4, top_p=0.7),
    Sampling(choices=tuple("abcdefgh"), top_p=0.5, temperature=1.3),
]


def opinionated() -> TransformersModel:
    model = tiny_model(WORDS)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.module.lm_head.weight, std=0.3)
    return model


async def converse(model: TransformersModel, seed: int) -> TrainingSequence:
    """Two turns, sampled in two ways; equal seeds modulo 4 share their first prompt."""
    session = model.session("r", seed=seed)
    trajectory = Trajectory(f"t{seed}")
    for turn in range(2):
        how = WAYS[(seed + 3 * turn) % len(WAYS)]
        prompt = " ".join(WORDS[: 1 + seed % 4])
        completion = await session.generate([Message(prompt)], sampling=how)
        trajectory.events.append(Event("model_call", role="r", tokens=completion.tokens))
    (sequence,) = training_sequences(trajectory)
    sequence.credit(float(seed % 3 - 1))
    return sequence


async def sampled(model: TransformersModel, count: int = 24) -> list[TrainingSequence]:
    return await asyncio.gather(*(converse(model, seed) for seed in range(count)))


@pytest.fixture(params=["packed", "padded"], autouse=True)
def arrangement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test is of rows end to end, and of rows of their own for a model that needs them."""
    if request.param == "padded":
        monkeypatch.setattr("rolecraft.training.policy.batches.takes_blocks", lambda *_: False)
    return str(request.param)


def batches(
    model: TransformersModel, sequences: Sequence[TrainingSequence], **how: Any
) -> list[Batch]:
    how.setdefault("max_tokens", 10**9)
    return list(micro_batches(sequences, model.module, dtype=torch.float64, **how))


def scored(
    model: TransformersModel, batches: Sequence[Batch]
) -> dict[str, tuple[list[float], list[float]]]:
    """By sequence: its actions' log-probabilities and entropies."""
    result = {}
    for batch in batches:
        logp_NA, entropy_NA = batch.log_probs(model.module)
        for n, sequence in enumerate(batch.sequences):
            here = batch.mask_NA[n]
            result[sequence.name] = (logp_NA[n][here].tolist(), entropy_NA[n][here].tolist())
    return result


def one_by_one(
    model: TransformersModel, sequence: TrainingSequence
) -> tuple[list[float], list[float]]:
    """The same by a plain forward pass of one sequence, one position at a time."""
    logits = model.module(input_ids=torch.tensor([sequence.ids])).logits[0]
    logps, entropies = [], []
    for at, action in enumerate(sequence.action_mask):
        if action:
            row = logits[at - 1] / sequence.temperatures[at]
            allowed = sequence.support[at] or list(range(len(row)))
            logp = row[allowed].log_softmax(-1)
            logps.append(float(logp[allowed.index(sequence.ids[at])].detach()))
            entropies.append(float(-(logp.exp() * logp).sum().detach()))
    return logps, entropies


async def test_the_trainer_agrees_with_the_sampler() -> None:
    """Under every temperature, choice and nucleus: the first ratio is 1, to rounding."""
    model = opinionated()
    sequences = await sampled(model)
    for batch in batches(model, sequences):
        logp_NA, _ = batch.log_probs(model.module)
        assert float((logp_NA - batch.sampled_logp_NA).detach().abs().max()) < 1e-5


async def test_packed_log_probabilities_and_entropies_are_those_of_plain_forward_passes() -> None:
    model = opinionated()
    sequences = await sampled(model)
    model.module.double()
    for name, (logps, entropies) in scored(model, batches(model, sequences)).items():
        (sequence,) = (s for s in sequences if s.name == name)
        plain_logps, plain_entropies = one_by_one(model, sequence)
        assert logps == pytest.approx(plain_logps, abs=1e-12)
        assert entropies == pytest.approx(plain_entropies, abs=1e-12)


async def test_every_sequence_is_in_exactly_one_batch_of_bounded_size() -> None:
    model = opinionated()
    sequences = await sampled(model)
    longest = max(len(sequence.ids) for sequence in sequences)
    for bound in (1, longest, 3 * longest, 10**9):
        packed = batches(model, sequences, max_tokens=bound)
        names = sorted(sequence.name for batch in packed for sequence in batch.sequences)
        assert names == sorted(sequence.name for sequence in sequences)
        for batch in packed:
            assert batch.ids_UT.numel() <= bound or len(batch.ids_UT) == 1


async def test_batch_size_order_and_company_change_nothing() -> None:
    model = opinionated()
    sequences = await sampled(model)
    model.module.double()
    expected = scored(model, batches(model, sequences))
    random.Random(0).shuffle(sequences)
    for bound in (1, 60, 200):
        for name, (logps, entropies) in scored(
            model, batches(model, sequences, max_tokens=bound)
        ).items():
            assert logps == pytest.approx(expected[name][0], abs=1e-12)
            assert entropies == pytest.approx(expected[name][1], abs=1e-12)


async def test_equal_beginnings_are_computed_once_with_the_same_result() -> None:
    """64 samples of one prompt that differ only in what was chosen last: one row."""
    model = opinionated()

    async def choose(seed: int) -> TrainingSequence:
        session = model.session("r", seed=seed)
        trajectory = Trajectory(f"t{seed}")
        completion = await session.generate(
            [Message("a b")], sampling=Sampling(choices=tuple("abc"))
        )
        trajectory.events.append(Event("model_call", role="r", tokens=completion.tokens))
        return training_sequences(trajectory)[0]

    sequences = await asyncio.gather(*(choose(seed) for seed in range(64)))
    (batch,) = batches(model, sequences)
    assert len({tuple(sequence.ids) for sequence in sequences}) > 1
    assert batch.ids_UT.shape == (1, len(sequences[0].ids) - 2)
    assert len(batch.place_D) == 1
    assert len(batch.sequences) == 64
    for name, (logps, _) in scored(model, [batch]).items():
        (sequence,) = (s for s in sequences if s.name == name)
        assert logps == pytest.approx(one_by_one(model, sequence)[0], abs=1e-5)


async def test_segments_name_each_role_once_and_cover_its_rows_alone() -> None:
    """However roles are mixed, one role's rows are neighbours; equal rows of two roles are two."""
    model = opinionated()
    once = await sampled(model, 8)
    mixed = [replace(s, role=role, name=f"{s.name}:{role}") for s in once for role in ("b", "a")]
    for bound in (40, 10**9):
        for batch in batches(model, mixed, max_tokens=bound):
            roles = [segment.adapter for segment in batch.segments]
            assert roles == sorted(set(roles))
            edges = [0, *(segment.stop for segment in batch.segments)]
            assert [segment.start for segment in batch.segments] == edges[:-1]
            assert edges[-1] == batch.ids_UT.numel()
            for n, sequence in enumerate(batch.sequences):
                place = int(batch.place_D[batch.decision_NA[n, 0]])
                (role,) = (s.adapter for s in batch.segments if s.start <= place < s.stop)
                assert role == sequence.role


async def test_tokens_after_the_last_action_change_nothing() -> None:
    model = opinionated()
    sequences = await sampled(model, 6)
    longer = [
        replace(
            s,
            ids=[*s.ids, 5, 6],
            action_mask=[*s.action_mask, False, False],
            logprobs=[*s.logprobs, float("nan"), 0.0],
            temperatures=[*s.temperatures, 1.0, 1.0],
            support=[*s.support, None, [6]],
        )
        for s in sequences
    ]
    assert scored(model, batches(model, longer)) == scored(model, batches(model, sequences))


def test_sequences_without_actions_are_left_out() -> None:
    model = tiny_model(WORDS)
    empty = TrainingSequence("x", "r", [1, 2], [False, False], [0.0, 0.0], [1.0, 1.0], [None, None])
    assert batches(model, [empty]) == []
    assert batches(model, []) == []


def test_an_action_that_nothing_precedes_is_an_error() -> None:
    model = tiny_model(WORDS)
    first = TrainingSequence("t:s", "r", [1], [True], [-1.0], [1.0], [None])
    with pytest.raises(BrokenSequence, match="`t:s` begins with a sampled token"):
        batches(model, [first])
