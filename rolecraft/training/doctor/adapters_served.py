"""Whether the adapter that is served is the one in the folder, and whether it does anything.

The sampler's own numbers are held against two computations of the trainer's: with the adapter as
the folder has it, and without any. A sampler that lost the adapter agrees with the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rolecraft.models.adapter_files import read_adapter
from rolecraft.models.adapters import AdapterVersion
from rolecraft.training.doctor.finding import Finding, Verdict, number, skipped
from rolecraft.training.doctor.patient import Patient, distances, largest, sampled
from rolecraft.training.policy.sequences import TrainingSequence


def name_of(role: str) -> str:
    return f"adapter of {role}"


def check_adapter(
    patient: Patient,
    role: str,
    folder: Path,
    served: AdapterVersion | None,
    sequences: Sequence[TrainingSequence],
) -> Finding:
    """`served` is what the sampler says it has; `sequences` are what it sampled for the role."""
    name, limit = name_of(role), patient.limit
    stored = read_adapter(folder).digest
    if served is None or served.digest != stored:
        other = "no adapter" if served is None else f"digest {served.digest[:12]}"
        return _wrong(name, f"The sampler has {other} for {role!r}; `{folder}` has {stored[:12]}")
    mine = [sequence for sequence in sequences if sequence.role == role]
    names = {adapter for sequence in mine for adapter in sequence.adapters}
    trained, base = patient.log_probs(mine), patient.base_log_probs(mine)
    every = distances(mine, sampled(mine), trained)
    if not any(every):
        return skipped(name, "No token was sampled at a temperature above 0.")
    gap = largest(every)
    effect = largest(distances(mine, trained, base))
    without = largest(distances(mine, sampled(mine), base))
    numbers = {"gap": gap, "effect": effect, "gap_to_base": without}
    value = f"gap {number(gap)}, effect {number(effect)} nats"
    if names != {served.name} or not patient.agrees(gap, effect):
        as_base = without <= limit < effect
        return _wrong(
            name,
            f"Answers of {role!r} were sampled by {sorted(names)}"
            if names != {served.name}
            else "The sampler answers as the base does, without the adapter"
            if as_base
            else f"The sampler's log-probabilities are {number(gap)} from those of `{folder}`",
            value=value,
            limit=f"{number(limit)} nats",
            numbers=numbers,
        )
    verdict: Verdict = "ok" if effect > limit else "warn"
    return Finding(
        check=name,
        verdict=verdict,
        value=value,
        limit=f"{number(limit)} nats",
        found=f"What is served is what the folder has (digest {stored[:12]}), and it changes "
        f"log-probabilities by up to {number(effect)}"
        if verdict == "ok"
        else "The adapter changes nothing: its weights are 0, as before any training"
        if effect == 0
        else f"The adapter changes log-probabilities by {number(effect)} only, which proves "
        f"nothing",
        advice=""
        if verdict == "ok"
        else "If it was trained, its folder was written before that, or is another one.",
        numbers=numbers,
    )


def _wrong(
    name: str,
    found: str,
    *,
    value: str = "",
    limit: str = "",
    numbers: dict[str, float] | None = None,
) -> Finding:
    return Finding(
        check=name,
        verdict="fail",
        value=value,
        limit=limit,
        found=found,
        advice="Load the folder again, and let nothing else write to it; compare number formats.",
        numbers=numbers or {},
    )
