"""Training sequences are a session's tokens, and only what was chosen counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from rolecraft.errors import RolecraftError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.training.policy.sequences import BrokenSequence, training_sequences
from rolecraft.trajectories.codec import decode_event, encode_event
from rolecraft.trajectories.events import Event, TokenSpan
from rolecraft.trajectories.trajectory import Trajectory

torch.set_num_threads(1)


def span(session: str, start: int, given: list[int], sampled: list[int], **more: Any) -> TokenSpan:
    more.setdefault("logprobs", [-0.5] * len(sampled))
    return TokenSpan(session, start, given, sampled, **more)


def calls(*spans: tuple[str, TokenSpan | None]) -> Trajectory:
    """A trajectory of model calls, with other events in between."""
    trajectory = Trajectory("run-1")
    for role, tokens in spans:
        trajectory.events.append(Event("message", role=role, content="hello"))
        trajectory.events.append(Event("model_call", role=role, tokens=tokens))
    return trajectory


def test_spans_of_a_session_make_one_sequence() -> None:
    (sequence,) = training_sequences(
        calls(
            ("r", span("s", 0, [1, 2], [3, 4], logprobs=[-0.1, -0.2], version=3)),
            ("r", span("s", 4, [5], [6], logprobs=[-0.3], version=2, temperature=0.7)),
        )
    )
    assert sequence.ids == [1, 2, 3, 4, 5, 6]
    assert sequence.action_mask == [False, False, True, True, False, True]
    assert sequence.logprobs == [0.0, 0.0, -0.1, -0.2, 0.0, -0.3]
    assert sequence.temperatures == [1.0, 1.0, 1.0, 1.0, 1.0, 0.7]
    assert sequence.support == [None] * 6
    assert (sequence.name, sequence.role, sequence.version) == ("run-1:s", "r", 2)


def test_forced_tokens_are_not_actions() -> None:
    """Where only one token was allowed, there was no choice: nothing to learn, nothing to count."""
    tokens = span("s", 0, [1], [7, 8, 9], logprobs=[0.0, -1.0, 0.0], support=[[7], [8, 5], [9]])
    (sequence,) = training_sequences(calls(("r", tokens)))
    assert sequence.action_mask == [False, False, True, False]
    assert sequence.support == [None, [7], [8, 5], [9]]


def test_sessions_and_roles_are_kept_apart_whatever_the_order_of_their_calls() -> None:
    found = training_sequences(
        calls(
            ("a", span("a/1", 0, [1], [2])),
            ("b", span("b/1", 0, [10], [20])),
            ("a", span("a/2", 0, [1], [4])),
            ("b", span("b/1", 2, [11], [21])),
            ("a", span("a/1", 2, [], [3])),
        )
    )
    assert [(s.role, s.ids) for s in found] == [
        ("a", [1, 2, 3]),
        ("b", [10, 20, 11, 21]),
        ("a", [1, 4]),
    ]


def test_calls_without_tokens_are_left_out() -> None:
    """API models and roles that are not trained."""
    found = training_sequences(calls(("api", None), ("r", span("s", 0, [1], [2])), ("api", None)))
    assert [sequence.role for sequence in found] == ["r"]
    assert training_sequences(Trajectory()) == []


@pytest.mark.parametrize("start", [0, 2, 4, 99])
def test_a_gap_or_an_overlap_is_an_error_that_names_the_sequence(start: int) -> None:
    with pytest.raises(BrokenSequence, match=f"`run-1:s`.*token {start}, but 3 tokens"):
        training_sequences(
            calls(("r", span("s", 0, [1, 2], [3])), ("r", span("s", start, [4], [5])))
        )
    assert issubclass(BrokenSequence, RolecraftError)


@pytest.mark.parametrize("wrong", [{"logprobs": [-0.1]}, {"support": [[1, 2]]}])
def test_lists_of_different_lengths_are_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(BrokenSequence, match="equally many"):
        training_sequences(calls(("r", span("s", 0, [1], [2, 3], **wrong))))


def test_greedy_samples_are_no_actions_and_are_counted() -> None:
    """One greedy call of a role does not keep the others, or its own, from training."""
    (sequence,) = training_sequences(
        calls(
            ("r", span("s", 0, [1], [2, 3], logprobs=[0.0, 0.0], temperature=0.0)),
            ("r", span("s", 3, [4], [5], temperature=0.5)),
        )
    )
    assert sequence.action_mask == [False, False, False, False, True]
    assert sequence.temperatures == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert sequence.greedy == 2


async def test_a_real_conversation_survives_its_journal_and_becomes_one_sequence() -> None:
    """Three turns, through JSON and back: the sequence is what the session holds."""
    model = tiny_model("abcdefgh")
    session = model.session("r", system="a", seed=3)
    trajectory = Trajectory("t")
    for text, how in (
        ("b c", Sampling(choices=("d", "d e", "f"))),
        ("g", Sampling(max_tokens=4, temperature=0.5)),
        ("h", Sampling(max_tokens=5, top_p=0.8)),
    ):
        completion = await session.generate([Message(text)], sampling=how)
        event = Event("model_call", role="r", tokens=completion.tokens)
        event.seq = len(trajectory.events)
        trajectory.events.append(decode_event(json.loads(encode_event(event))))
    (sequence,) = training_sequences(trajectory)
    assert sequence.ids == session.tokens
    spans = [event.tokens for event in trajectory.events if event.tokens]
    assert sum(sequence.action_mask) == sum(
        len(allowed) > 1 if allowed else True
        for s in spans
        for allowed in s.support or [None] * len(s.sampled)
    )
    at = 0
    for s in spans:
        assert not any(sequence.action_mask[at : at + len(s.given)])
        at += len(s.given) + len(s.sampled)


def test_a_sequence_knows_its_adapters_and_why_it_began() -> None:
    first = span("s+1", 0, [1], [2], adapter="a@1", rewrite="reasoning of an answer dropped")
    second = span("s+1", 2, [3], [4], adapter="a@2", rewrite="text of an answer dropped")
    (sequence,) = training_sequences(calls(("r", first), ("r", second)))
    assert sequence.adapters == ["a@1", "a@2"]
    assert sequence.rewrite == "reasoning of an answer dropped"
