"""The doctor shows which tokens are trained, and finds masks that train anything else."""

from __future__ import annotations

import pytest

from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.doctor.mask import check_mask
from rolecraft.training.policy.sequences import training_sequences
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory


@pytest.fixture
async def episode(patient: TransformersModel) -> Trajectory:
    """A free answer, a tool's result with another one after it, a forced choice, a greedy one."""
    session = patient.session("coder")
    session.id = "coder"
    events: list[Event] = []
    for said, sampling in (
        (Message("Go.", role="user"), Sampling(max_tokens=6)),
        (Message("RESULT OF A TOOL", "tool"), Sampling(max_tokens=6)),
        (Message("Choose.", role="user"), Sampling(choices=("yes", "yesterday"))),
        (Message("Again.", role="user"), Sampling(temperature=0.0, max_tokens=4)),
    ):
        answer = await session.generate([said], sampling=sampling)
        events.append(Event("model_call", seq=len(events), role="coder", tokens=answer.tokens))
    return Trajectory("episode", {}, events)


def test_every_token_is_of_one_kind_and_the_pieces_are_the_whole_text(
    patient: TransformersModel, episode: Trajectory
) -> None:
    sequences = training_sequences(episode)
    finding = check_mask(episode, sequences, patient.tokenizer)
    assert finding.verdict == "ok", finding
    assert all(finding.numbers[kind] > 0 for kind in ("trained", "given", "forced", "greedy"))
    assert sum(finding.numbers.values()) == sum(len(each.ids) for each in sequences)
    text = patient.tokenizer.decode(sequences[0].ids, skip_special_tokens=False)
    assert "".join(piece for piece, _ in finding.pieces) == text
    assert "RESULT OF A TOOL" in "".join(p for p, kind in finding.pieces if kind == "given")


def test_a_mask_that_trains_the_tokens_of_tools_fails(
    patient: TransformersModel, episode: Trajectory
) -> None:
    sequences = training_sequences(episode)
    result = patient.encode("RESULT")
    ids = sequences[0].ids
    at = next(n for n in range(len(ids)) if ids[n : n + len(result)] == result)
    for token in range(at, at + len(result)):
        sequences[0].action_mask[token] = True
    finding = check_mask(episode, sequences, patient.tokenizer)
    assert finding.verdict == "fail"
    assert "6 given tokens are trained, such as 'R'" in finding.found


def test_a_mask_that_leaves_the_first_turn_out_fails(
    patient: TransformersModel, episode: Trajectory
) -> None:
    sequences = training_sequences(episode)
    first = sequences[0].action_mask.index(True)
    sequences[0].action_mask[first] = False
    finding = check_mask(episode, sequences, patient.tokenizer)
    assert finding.verdict == "fail"
    assert "left out" in finding.found


def test_an_episode_that_was_tokenised_again_fails(
    patient: TransformersModel, episode: Trajectory
) -> None:
    sequences = training_sequences(episode)
    sequences[0].ids[3] += 1
    assert check_mask(episode, sequences, patient.tokenizer).verdict == "fail"


async def test_an_episode_without_a_choice_fails(patient: TransformersModel) -> None:
    session = patient.session("coder")
    answer = await session.generate([Message("Go.")], sampling=Sampling(temperature=0.0))
    greedy = Trajectory("greedy", {}, [Event("model_call", role="coder", tokens=answer.tokens)])
    finding = check_mask(greedy, training_sequences(greedy), patient.tokenizer)
    assert finding.verdict == "fail"
    assert "No token is trained" in finding.found
