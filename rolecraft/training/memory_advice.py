"""What to change about a run that does not fit, in the order of what it costs the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rolecraft.training.device_memory import gib
from rolecraft.training.memory import Estimate, Method, Step, estimate
from rolecraft.training.model_sizes import ModelSizes

SHORTEST = 256
"""Tokens below which a shorter `--max-length` is not proposed: too little of a dialogue is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Whether a run fits into the memory that is free, and what would make it fit."""

    wanted: Estimate
    free: int
    """Bytes."""
    instead: Estimate | None = None
    """The first change that fits; None where the run fits as it is, or nothing helps."""

    @property
    def fits(self) -> bool:
        return self.wanted.total <= self.free

    @property
    def flags(self) -> str:
        """The options of `rolecraft sft` that make it fit; empty if none do, or none need to."""
        return "" if self.instead is None else options(self.wanted.step, self.instead.step)

    def in_words(self) -> str:
        """What is needed, what is there and what to do, for people."""
        text = (
            f"Estimated for model and training, the program itself not counted: "
            f"{self.wanted.in_words()}; {gib(self.free)} are free."
        )
        if self.fits:
            return text
        if self.instead is None:
            return f"{text} Nothing that can be set makes it fit: take a smaller model or device."
        return f"{text} It fits with `{self.flags}` (about {gib(self.instead.total)})."


def advise(sizes: ModelSizes, step: Step, free: int) -> Advice:
    """Compare the estimate with the `free` bytes of the device, and look for what would fit.

    First what changes nothing about the result (SDPA for eager attention; smaller micro-batches,
    more of them), then what takes time (gradient checkpointing), then what trains on less (shorter
    sequences), then what trains less (LoRA), and at last what rounds the base (8 bits, 4 bits).
    """
    wanted = estimate(sizes, step)
    if wanted.total <= free:
        return Advice(wanted=wanted, free=free)
    for other in _changes(sizes, step):
        instead = estimate(sizes, other)
        if instead.total <= free:
            return Advice(wanted=wanted, free=free, instead=instead)
    return Advice(wanted=wanted, free=free)


def smaller(sizes: ModelSizes, step: Step) -> Step | None:
    """The next smaller setting after a step that ran out of memory; None where there is none.

    The least change that the estimate says takes less. Halving the micro-batch of full fine-tuning
    may take more: gradients are then kept from one to the next.
    """
    now = estimate(sizes, step).total
    return next((each for each in _next(sizes, step) if estimate(sizes, each).total < now), None)


def _next(sizes: ModelSizes, step: Step) -> Iterator[Step]:
    if step.batch > 1:
        yield _halved(step)
    if not step.gradient_checkpointing:
        yield replace(step, gradient_checkpointing=True)
    if step.length > SHORTEST:
        yield replace(step, length=max(SHORTEST, step.length // 2))
    for method in _lighter(sizes, step):
        yield replace(step, method=method)


def _lighter(sizes: ModelSizes, step: Step) -> list[Method]:
    """Ways to train less, or on a base that takes less. Quantised bases want a GPU."""
    found: list[Method] = ["lora"] if step.method == "full" else []
    if step.device == "cuda" and not sizes.quantised:
        if not step.method.startswith("qlora"):
            found.append("qlora-8")
        if step.method != "qlora-4":
            found.append("qlora-4")
    return found


def _changes(sizes: ModelSizes, step: Step) -> Iterator[Step]:
    if step.attention == "eager":
        step = replace(step, attention="sdpa")
        yield step
    yield from _batches(step)
    if not step.gradient_checkpointing:
        step = replace(step, gradient_checkpointing=True)
        yield step
        yield from _batches(step)
    shorter = last = _smallest_batch(step)
    while shorter.length > SHORTEST:
        shorter = last = replace(shorter, length=max(SHORTEST, shorter.length // 2))
        yield shorter
    for method in _lighter(sizes, step):
        other = replace(step, method=method)
        yield other
        yield from _batches(other)
        yield replace(last, method=method)


def _batches(step: Step) -> Iterator[Step]:
    while step.batch > 1:
        step = _halved(step)
        yield step


def _smallest_batch(step: Step) -> Step:
    return [step, *_batches(step)][-1]


def _halved(step: Step) -> Step:
    """Half the micro-batch and as many more of them that a step sees no fewer sequences."""
    batch = step.batch // 2
    return replace(step, batch=batch, accumulate=-(-step.batch * step.accumulate // batch))


def options(before: Step, after: Step) -> str:
    """The options of `rolecraft sft` that make one step into another."""
    flags = []
    if after.attention != before.attention:
        flags.append(f"--attention {after.attention}")
    if after.batch != before.batch:
        flags.append(f"--batch {after.batch} --accumulate {after.accumulate}")
    if after.gradient_checkpointing and not before.gradient_checkpointing:
        flags.append("--gradient-checkpointing")
    if after.length != before.length:
        flags.append(f"--max-length {after.length}")
    if after.method != before.method:
        flags.append(f"--method {after.method}")
    return " ".join(flags)
