"""A few short conversations with a model, sampled in each of the ways that training may sample."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Sampling
from rolecraft.models.token_model import TokenModel
from rolecraft.training.policy.sequences import TrainingSequence, training_sequences
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

PROBE = "sampling"
"""Names the check that fails where nothing can be sampled."""

ROLE = "doctor"
"""Whose conversations they are where no role has an adapter."""

ANSWER = 12
"""Tokens of an answer at most."""

_ASKED = ("What is seven times eight?", "Say it in other words.")

HOWS: dict[str, Sampling] = {
    "temperature 1": Sampling(temperature=1.0),
    "temperature 0.5": Sampling(temperature=0.5),
    "temperature 1.5": Sampling(temperature=1.5),
    "top_p 0.8": Sampling(temperature=1.0, top_p=0.8),
    "temperature 0": Sampling(temperature=0.0),
}
"""Ways to sample; `sample_probe` adds one with choices."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What was sampled."""

    trajectory: Trajectory
    hows: dict[str, str]
    """By the name of the token sequence: how it was sampled."""

    def of(self, role: str) -> list[TrainingSequence]:
        """Its sequences, as if they were all of this role."""
        return [replace(each, role=role) for each in training_sequences(self.trajectory)]


def asked(model: TokenModel) -> tuple[str, str]:
    """Two questions that the model's tokenizer can spell."""
    try:
        for text in _ASKED:
            model.encode(model.template.plain.mark(text))
    except UsageError:  # a tokenizer of a few words
        special = set(model.tokenizer.all_special_ids)
        every = range(len(model.tokenizer))
        words = [model.tokenizer.decode([i]) for i in every if i not in special]
        said = [word for word in words if word.strip()]
        return " ".join(said[:6]), " ".join(said[-4:])
    return _ASKED


async def sample_probe(
    model: TokenModel, roles: Sequence[str] = (ROLE,), *, turns: int = 2, seed: int = 0
) -> Probe:
    """Two turns for each role and way to sample, all at once. Raises what the model raises."""
    questions = asked(model)
    choices = tuple(dict.fromkeys(" ".join(questions).split()))[:3]
    ways = {**HOWS, "choices": Sampling(temperature=1.0, choices=choices)}
    names = [(role, how) for role in roles for how in ways]

    async def talk(role: str, how: str) -> list[Completion]:
        session = model.session(role, seed=seed)
        session.id = f"{role}, {how}"
        sampling = Sampling(max_tokens=ANSWER).filled(ways[how])
        answers = []
        for turn in range(turns):
            question = Message(questions[turn % 2], role="user")
            answers.append(await session.generate([question], sampling=sampling))
        return answers

    talks = await asyncio.gather(*(talk(*name) for name in names))
    events: list[Event] = []
    hows: dict[str, str] = {}
    for (role, how), answers in zip(names, talks, strict=True):
        for answer in answers:
            assert answer.tokens is not None
            hows[f"probe:{answer.tokens.session}"] = how
            events.append(Event("model_call", seq=len(events), role=role, tokens=answer.tokens))
    return Probe(Trajectory("probe", {}, events), hows)
