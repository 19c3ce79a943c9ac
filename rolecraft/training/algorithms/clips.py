"""How far one update may move the policy: bounds on how an action's probability changes.

Plain settings: reading them needs no torch. What they do is in `losses.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.checks import check_flag, check_number


@dataclass(frozen=True, slots=True)
class Clip:
    """Keep the probability ratio in [1 - low, 1 + high]; outside there is no gradient.

    PPO (arXiv 1707.06347) has low = high = 0.2; a larger `high` (0.28) is the "clip-higher" of
    DAPO (arXiv 2503.14476). `level="sequence"` takes the ratio of whole sequences, the geometric
    mean of their tokens' ratios: GSPO (arXiv 2507.18071), with low 3e-4 and high 4e-4. `dual`
    bounds the loss of a bad action at `dual * |advantage|` (arXiv 1912.09729; commonly 3).
    """

    low: float = 0.2
    high: float = 0.28
    level: Literal["token", "sequence"] = "token"
    dual: float | None = None

    def __post_init__(self) -> None:
        check_number(self, "low", least=0, most=1)
        check_number(self, "high", least=0, finite=False)
        if self.level not in ("token", "sequence"):
            raise UsageError(f"`Clip(level=...)` is 'token' or 'sequence', got {self.level!r}.")
        if self.dual is not None:
            check_number(self, "dual", above=1)


CLIP_HIGHER = Clip(0.2, 0.28)
"""DAPO's: more room upwards, so that unlikely actions can grow."""


@dataclass(frozen=True, slots=True)
class DetachedClip:
    """CISPO (arXiv 2506.13585): the ratio, clipped to [low, high], only weighs the gradient.

    Unlike `Clip`, every action keeps a gradient.
    """

    low: float = 0.0
    high: float = 5.0

    def __post_init__(self) -> None:
        check_number(self, "low", least=0)
        check_number(self, "high", above=self.low, finite=False)


@dataclass(frozen=True, slots=True)
class ProbabilityClip:
    """DPPO (arXiv 2602.04879): an action's probability itself may move by so much, not its ratio.

    A good action has no gradient once it is more than `high` likelier than when it was sampled, a
    bad one once it is more than `low` unlikelier. A ratio bounds unlikely tokens tightly and
    likely ones hardly at all; a difference is the token's share of the total variation distance
    between the policies, and treats them alike.
    """

    low: float = 0.2
    high: float = 0.2

    def __post_init__(self) -> None:
        for name in ("low", "high"):  # differences of probabilities
            check_number(self, name, above=0, most=1)


AnyClip: TypeAlias = Clip | DetachedClip | ProbabilityClip


@dataclass(frozen=True, slots=True)
class Importance:
    """Truncated importance sampling: makes up for a sampler that is not the trainer's own policy.

    With a sampler that computes in other kernels or another precision, or that is some versions
    behind, actions come from a policy mu which is not the one that the update starts from. Then
    the trainer's own log-probabilities of the first epoch, before its step, are the old policy's:
    ratios and clips are taken against those, and each action's policy gradient is multiplied by
    w = min(pi_old / mu, cap) of the token (IMPALA, arXiv 1802.01561; cap commonly 2), or of the
    product over the sequence's actions (commonly 5). `drop=True` gives actions whose weight is
    above the cap no gradient, instead of the cap's. The product grows with length, so that long
    sequences are the first to be cut off: look at `Loss.capped`.

    Without it (`Algorithm.importance` is None) the recorded log-probabilities are the old policy's,
    and the clip bounds what staleness may do. Neither takes a further pass.
    """

    cap: float = 2.0
    level: Literal["token", "sequence"] = "token"
    drop: bool = False

    def __post_init__(self) -> None:
        check_number(self, "cap", least=1)  # the weight of the trainer's own actions is 1
        check_flag(self, "drop")
        if self.level not in ("token", "sequence"):
            raise UsageError(
                f"`Importance(level=...)` is 'token' or 'sequence', got {self.level!r}."
            )
