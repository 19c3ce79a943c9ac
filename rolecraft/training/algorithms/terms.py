"""Parts of an algorithm besides its clip: what sums are divided by, penalties, critic, step groups.

Plain settings: reading them needs no torch. What they do is in `losses.py`, `returns.py` and
`steps.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.checks import check_flag, check_number


class Normalise(Enum):
    """What the sum over action tokens is divided by."""

    SEQUENCES = "sequences"
    """Each sequence's mean over its tokens, then the mean over sequences: GRPO (2402.03300)."""
    TOKENS = "tokens"
    """All tokens of the step count alike: DAPO (2503.14476)."""
    MAX_TOKENS = "max_tokens"
    """Sequences times a constant length: Dr. GRPO (2503.20783). Needs `max_tokens`; with 1 it is
    each sequence's sum over its tokens, the REINFORCE of whole sequences."""
    MICRO_BATCH = "micro_batch"
    """Tokens of the micro-batch, averaged over micro-batches: TRL's "bnpo". It depends on how the
    step is split, and is here for comparisons only."""


@dataclass(frozen=True, slots=True)
class Kl:
    """A penalty for leaving the reference: `coefficient` times an estimate at each sampled token.

    All estimate KL(policy || reference); what matters is the gradient that they pull by, in
    expectation over tokens of the policy itself (tokens of an older policy are not reweighed):

    - `k1` is taken off the *reward* of each action (`charged` in `returns.py`), as in
      InstructGPT (arXiv 2203.02155). Its pull is the gradient of KL(policy || reference) over
      whole sequences. In the loss it would pull nowhere: the gradient of the log-probability is
      zero in expectation;
    - `k2` is in the loss, and pulls by the gradient of KL(policy || reference), which shuns what
      the reference finds unlikely;
    - `k3` is in the loss, and pulls by the gradient of KL(reference || policy), which keeps all
      that the reference finds likely. Equation 4 of GRPO (arXiv 2402.03300), and what most
      libraries use.
    """

    coefficient: float = 0.001
    estimator: Literal["k1", "k2", "k3"] = "k3"

    def __post_init__(self) -> None:
        if self.estimator not in ("k1", "k2", "k3"):
            raise UsageError(
                f"`Kl(estimator=...)` is 'k1' (in the reward), 'k2' or 'k3' (in the loss), got "
                f"{self.estimator!r}."
            )
        check_number(self, "coefficient", least=0)

    @property
    def in_reward(self) -> bool:
        """Whether it is taken off rewards (`k1`) rather than added to the loss (`k2`, `k3`)."""
        return self.estimator == "k1"


@dataclass(frozen=True, slots=True)
class Critic:
    """A learned value of each state, for `advantage="gae"` (PPO).

    `gamma` discounts rewards per action token, `lam` trades the critic's bias (0) against the
    variance of whole returns (1): generalised advantage estimation, arXiv 1506.02438. Half the
    squared error counts `coefficient` times; one update moves a value by no more than `clip`
    before its gradient ends (None: no bound). `learning_rate` is that of the critic's own weights.
    The defaults are verl's.

    With `bootstrap`, an episode that a limit cut off (of turns, tokens, time or money) is worth
    at its end what the critic expects there, instead of nothing: Pardo et al. 2018, Time limits in
    reinforcement learning, arXiv 1712.00378. That is right where the limit is the training's and
    no part of the task. It is off because elsewhere it makes dawdling pay: a team that runs into
    the limit would earn what the critic hopes for, and one that tries and fails nothing.
    """

    gamma: float = 1.0
    lam: float = 1.0
    coefficient: float = 1.0
    clip: float | None = 0.5
    learning_rate: float = 1e-5
    bootstrap: bool = False

    def __post_init__(self) -> None:
        check_flag(self, "bootstrap")
        for name in ("gamma", "lam"):
            check_number(self, name, least=0, most=1)
        for name in ("coefficient", "learning_rate"):
            check_number(self, name, above=0)
        if self.clip is not None:
            check_number(self, "clip", above=0)


@dataclass(frozen=True, slots=True)
class StepGroups:
    """GiGPO (arXiv 2505.10978): turns that saw the same are compared, beside whole episodes.

    A turn's advantage is its episode's plus `weight` times that of its return, discounted by
    `gamma` a turn, among all turns of the task that began with the same observation.
    """

    weight: float = 1.0
    gamma: float = 0.95

    def __post_init__(self) -> None:
        check_number(self, "weight", least=0)
        check_number(self, "gamma", least=0, most=1)


@dataclass(frozen=True, slots=True)
class Overlong:
    """A soft punishment of long answers (DAPO, arXiv 2503.14476, equation 13).

    Nothing up to `length - cache` action tokens, then linearly down to -1 at `length`, and -1
    beyond. It is added to the attempt's reward.
    """

    length: int
    cache: int

    def __post_init__(self) -> None:
        check_number(self, "length", least=1, whole=True)
        check_number(self, "cache", least=1, most=self.length, whole=True)
