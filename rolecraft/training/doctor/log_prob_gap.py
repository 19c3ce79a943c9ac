"""Whether trainer and sampler agree on how likely each sampled token was.

Policy gradients weigh each token by the ratio of the trainer's probability to the sampler's. Before
an update the ratio is 1; whatever else it is, by another temperature, another support, another
number format or other positions, is learnt as if the policy had meant it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rolecraft.training.doctor.finding import Finding, Verdict, number, skipped
from rolecraft.training.doctor.patient import MUCH, LogProbs, distances, largest, sampled
from rolecraft.training.policy.sequences import TrainingSequence

NAME = "log-prob gap"


def check_gap(
    sequences: Sequence[TrainingSequence],
    trained: LogProbs,
    limit: float,
    *,
    hows: Mapping[str, str] | None = None,
) -> Finding:
    """Compare what the sampler recorded with `trained`, the trainer's numbers, in nats.

    It fails where the mean is beyond `limit`, or one token by `MUCH` times. `hows` names the way
    that each sequence was sampled in.
    """
    rows = distances(sequences, sampled(sequences), trained)
    every = [gap for row in rows for gap in row]
    if not every:
        return skipped(NAME, "No token was sampled at a temperature above 0.")
    most, mean = largest(rows), sum(every) / len(every)
    worst = max(
        (largest([row]), sequence.name) for row, sequence in zip(rows, sequences, strict=True)
    )[1]
    how = (hows or {}).get(worst, f"`{worst}`")
    verdict: Verdict = "ok"
    if not (mean <= limit and most <= MUCH * limit):  # not a number is not within limits
        verdict = "fail"
    elif most > limit:
        verdict = "warn"
    return Finding(
        check=NAME,
        verdict=verdict,
        value=f"largest {number(most)}, mean {number(mean)} nats",
        limit=f"{number(limit)} nats",
        found=f"Ratios of {len(every)} tokens are within {number(_ratio(most))} of 1"
        if verdict == "ok"
        else f"Trainer and sampler disagree most on tokens sampled with {how}: the ratio of a "
        f"token is off by a factor of {number(_factor(most))}",
        advice=""
        if verdict == "ok"
        else "Use one number format for both (float32 if it is small enough), and let training "
        "and sampling read the same weights, temperature, top_p and adapter.",
        numbers={"largest": most, "mean": mean, "tokens": len(every), "ratio": _factor(most)},
    )


def _factor(gap: float) -> float:
    return math.exp(min(gap, 700.0))


def _ratio(gap: float) -> float:
    return math.expm1(gap)
