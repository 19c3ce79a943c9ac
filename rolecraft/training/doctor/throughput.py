"""How fast this device samples and trains the model, and whether the memory will do.

Both are measured for about a second each; memory is counted from shapes (`training/memory.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.device_memory import free_memory, gib
from rolecraft.training.doctor.finding import Finding, number, skipped
from rolecraft.training.doctor.gradients import credited, step_gradient
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import asked
from rolecraft.training.memory import SIZE, Format, Step, estimate
from rolecraft.training.model_sizes import read_sizes
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.sequences import TrainingSequence, actions
from rolecraft.training.policy.trainer import Trainer

SPEED, MEMORY = "throughput", "memory"

SECONDS = 1.0
"""How long is measured, at least."""

_AT_ONCE, _TOKENS = 8, 32
"""Answers at once, and tokens of each."""
_ROWS, _LENGTH = 2, 256
"""Sequences that are trained at a time, and tokens of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a training step will be asked to do."""

    episodes: int = 64
    tokens: int = 512
    """Of an episode's sequences together, on average."""
    sampled: int = 256
    """How many of them are sampled."""

    @classmethod
    def of(cls, played: Sequence[Sequence[TrainingSequence]], episodes: int) -> Load:
        """As the sequences of episodes that were played say; by default if there is none."""
        if not any(played):
            return cls(episodes=episodes)
        tokens = sum(len(sequence.ids) for each in played for sequence in each)
        sampled = sum(actions(each) for each in played)
        count = len(played)
        return cls(episodes=episodes, tokens=tokens // count, sampled=sampled // count)


async def check_speed(
    patient: Patient,
    algorithm: Algorithm,
    load: Load,
    *,
    slow: float | None = None,
    seconds: float = SECONDS,
) -> Finding:
    """Tokens a second, sampled and trained; it fails where a step takes more seconds than `slow`.

    Measured with a few answers at once: many more are sampled faster.
    """
    sampling = await _sampled(patient, seconds)
    training = await patient.model.run(lambda: _trained(patient, algorithm, seconds))
    play = load.episodes * load.sampled / sampling
    update = algorithm.epochs * load.episodes * load.tokens / training
    return Finding(
        check=SPEED,
        verdict="ok" if slow is None or play + update <= slow else "fail",
        value=f"{number(sampling)} tokens/s sampled, {number(training)} trained",
        limit="" if slow is None else f"{number(slow)} s a step",
        found=f"A step of {load.episodes} episodes of {load.tokens} tokens, {load.sampled} of them "
        f"sampled, takes about {number(play)} s of sampling and {number(update)} s of training",
        advice="Train a smaller model, fewer or shorter episodes, or another device."
        if slow is not None and play + update > slow
        else "",
        numbers={
            "sampled_per_second": sampling,
            "trained_per_second": training,
            "sampling_seconds": play,
            "training_seconds": update,
        },
    )


async def _sampled(patient: Patient, seconds: float) -> float:
    model, question = patient.model, asked(patient.model)[0]
    role = next(iter(patient.adapters), "")
    room = _TOKENS if model.context is None else max(1, min(_TOKENS, model.context // 2))

    async def answer(seed: int) -> int:
        session = model.session(role, seed=seed)
        sampling = Sampling(temperature=1.0, max_tokens=room)
        return (
            await session.generate([Message(question)], sampling=sampling)
        ).usage.completion_tokens

    await answer(0)  # what the first call sets up counts for none
    began, tokens, seed = time.perf_counter(), 0, 1
    while True:
        tokens += sum(await asyncio.gather(*(answer(seed + n) for n in range(_AT_ONCE))))
        seed += _AT_ONCE
        took = time.perf_counter() - began
        if took >= seconds:
            return tokens / took


def _trained(patient: Patient, algorithm: Algorithm, seconds: float) -> float:
    settings = patient.settings() if patient.adapters else None
    plain = Algorithm(micro_batch_tokens=algorithm.micro_batch_tokens)
    trainer = Trainer(patient.module, plain, adapters=settings)
    judged = credited([_long(patient, number) for number in range(_ROWS)])
    each = sum(sequence.given_length for sequence in judged)
    step_gradient(trainer, judged)
    began, tokens = time.perf_counter(), 0
    while True:
        step_gradient(trainer, judged)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        tokens += each
        took = time.perf_counter() - began
        if took >= seconds:
            return tokens / took


def _long(patient: Patient, number: int) -> TrainingSequence:
    """A sequence of nobody's, of which no other one is the beginning."""
    room, words = min(patient.model.context or _LENGTH, _LENGTH), len(patient.model.tokenizer)
    ids = [(number + at * (at + 3)) % words for at in range(room)]
    mask = [at > 0 for at in range(room)]
    return TrainingSequence(
        name=f"throughput {number}",
        role=next(iter(patient.adapters), ""),
        ids=ids,
        action_mask=mask,
        logprobs=[-math.log(words) * action for action in mask],
        temperatures=[1.0] * room,
        support=[None] * room,
        advantages=[0.0] * room,
    )


def check_memory(
    folder: str | Path,
    *,
    dtype: str,
    device: str,
    algorithm: Algorithm,
    load: Load,
    adapters: AdapterSettings | None = None,
    free: int | None = None,
    loaded: bool = True,
    copies: int = 0,
) -> Finding:
    """What training takes on top of the weights, if they are `loaded`, against the bytes `free`.

    By default what the device has. `copies` is how often the weights are held once more, as an
    asynchronous training of all of them does. Raises `ModelError` for a folder whose sizes are not
    known.
    """
    if dtype not in SIZE:
        return skipped(MEMORY, f"Nothing is known of the memory that {dtype} takes.")
    weights: Format = dtype  # type: ignore[assignment]
    sizes = read_sizes(folder)
    length = max(1, load.tokens)
    step = Step(
        batch=max(1, algorithm.micro_batch_tokens // length),
        length=length,
        accumulate=2,
        method="full" if adapters is None else "lora",
        rank=8 if adapters is None else adapters.rank,
        weights=weights,
        compute=weights,
        padded=False,
        # Weights below float32 are stepped on copies, which have moments of their own.
        optimiser_bytes=8 if weights == "float32" else 12,
        device="cuda" if device.startswith("cuda") else "cpu",
    )
    guess = estimate(sizes, step)
    held = guess.parts["weights"]
    copies += algorithm.kl is not None and adapters is None  # of the reference
    needed = guess.total + copies * held - (held if loaded else 0)
    free = free_memory(device) if free is None else free
    fits = needed <= free
    return Finding(
        check=MEMORY,
        verdict="ok" if fits else "fail",
        value=f"{gib(needed)}{' more' if loaded else ''}",
        limit=f"{gib(free)} free",
        found=f"Training takes {guess.in_words()}",
        advice=""
        if fits
        else "Train adapters, lower `micro_batch_tokens`, or load the weights in bfloat16.",
        numbers={"needed_bytes": needed, "free_bytes": free},
    )
