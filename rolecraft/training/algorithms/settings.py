"""Algorithms as settings: how rewards become advantages, ratios are clipped and sums normalised.

Reading and checking them needs no torch. Published ones are in `presets.py`, by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.advantages import ADVANTAGES, AdvantageName
from rolecraft.training.algorithms.checks import check_flag, check_number, check_part
from rolecraft.training.algorithms.clips import (
    CLIP_HIGHER,
    AnyClip,
    Clip,
    DetachedClip,
    Importance,
    ProbabilityClip,
)
from rolecraft.training.algorithms.terms import Critic, Kl, Normalise, Overlong, StepGroups

ALL_ADVANTAGES = (*ADVANTAGES, "returns", "gae")
OPTIONAL_PARTS: dict[str, type] = {
    "steps": StepGroups,
    "critic": Critic,
    "importance": Importance,
    "overlong": Overlong,
    "kl": Kl,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A policy-gradient algorithm. The defaults are GRPO, for fine-tuning a pretrained model.

    `advantage` says what an action is credited with: its attempt's reward against those of its
    `group` of attempts at the same task (`grpo`, `dr_grpo`, `rloo`, `maxrl`), the discounted
    rewards that follow it (`returns`), or those against a critic (`gae`). With `whiten` they are
    brought to unit spread over all actions of the batch. Each update takes `epochs` optimiser
    steps (Adam, constant `learning_rate`) over the whole batch, with gradients clipped to norm
    `max_grad_norm`. `entropy` is a bonus per nat and action. `kl` adds a penalty for leaving the
    initial weights. `micro_batch_tokens` bounds the tokens of one forward pass (memory, never
    results). Combinations that cannot work raise `UsageError` with the reason.
    """

    group: int = 8
    advantage: AdvantageName = "grpo"
    whiten: bool = False
    """Advantages over their spread among all actions of the batch; `returns` and `gae`, which have
    no baseline of their own task, are also moved to mean 0. See `whitening.py`."""
    gamma: float = 1.0
    """What a reward is worth one action token earlier, for `returns`. `Critic` and `StepGroups`
    have their own."""
    steps: StepGroups | None = None
    """GiGPO: also compare turns that saw the same."""
    critic: Critic | None = None
    """PPO: the value function of `gae`."""
    clip: AnyClip = CLIP_HIGHER
    importance: Importance | None = None
    """How to make up for a sampler that is not the policy the update starts from; None: the
    recorded log-probabilities count as that policy's."""
    normalise: Normalise = Normalise.TOKENS
    max_tokens: int | None = None
    """Constant length of `Normalise.MAX_TOKENS`: the longest answer, in action tokens."""
    dynamic_sampling: bool = False
    """DAPO: play on until every group of the batch says something (its rewards are not all
    equal)."""
    overlong: Overlong | None = None
    """DAPO: a soft punishment of long answers, added to the reward."""
    epochs: int = 1
    learning_rate: float = 1e-6
    max_grad_norm: float = 1.0
    entropy: float = 0.0
    kl: Kl | None = None
    micro_batch_tokens: int = 8192

    @property
    def compares_groups(self) -> bool:
        """Whether attempts at the same task are compared with each other."""
        return self.advantage in ADVANTAGES

    def __post_init__(self) -> None:
        if self.advantage not in ALL_ADVANTAGES:
            raise UsageError(
                f"`Algorithm(advantage=...)` is one of {sorted(ALL_ADVANTAGES)}, got "
                f"{self.advantage!r}."
            )
        self._check_values()
        for reason in self._contradictions():
            raise UsageError(reason)

    def _check_values(self) -> None:
        for name in ("group", "epochs", "micro_batch_tokens"):
            check_number(self, name, least=1, whole=True)
        if self.max_tokens is not None:
            check_number(self, "max_tokens", least=1, whole=True)
        for name in ("learning_rate", "max_grad_norm"):
            check_number(self, name, above=0)
        check_number(self, "entropy", least=0)
        check_number(self, "gamma", least=0, most=1)
        for name in ("whiten", "dynamic_sampling"):
            check_flag(self, name)
        check_part(self, "clip", Clip, DetachedClip, ProbabilityClip)
        check_part(self, "normalise", Normalise)
        for name, kind in OPTIONAL_PARTS.items():
            check_part(self, name, kind, optional=True)

    def _contradictions(self) -> list[str]:
        """Why these settings cannot work together; empty if they can."""
        kind = f"`advantage={self.advantage!r}`"
        reasons = []
        if self.compares_groups and self.group < 2:
            reasons.append(
                f"{kind} compares the attempts at one task, and `group=1` leaves nothing to "
                f"compare: every advantage would be 0. Play at least 2, or take 'returns' or 'gae'."
            )
        if (self.advantage == "gae") != (self.critic is not None):
            reasons.append(
                "`advantage='gae'` and `Algorithm(critic=...)` belong together: give both, or "
                "neither. Nothing else uses a critic's values, and 'gae' is made of them."
            )
        if self.gamma != 1.0 and self.advantage != "returns":
            reasons.append(
                f"`Algorithm(gamma=...)` discounts the rewards of `advantage='returns'`; {kind} "
                f"would not use it. `Critic` and `StepGroups` have a `gamma` of their own."
            )
        if self.whiten and self.advantage in ("grpo", "maxrl"):
            reasons.append(
                f"{kind} scales each group already; with `whiten` it would be scaled twice. "
                f"REINFORCE++-baseline is `advantage='dr_grpo', whiten=True`."
            )
        if self.steps is not None and self.advantage not in ("grpo", "dr_grpo"):
            reasons.append(
                f"`Algorithm(steps=...)` compares turns as it compares attempts, with "
                f"`advantage='dr_grpo'` (mean) or 'grpo' (mean and std), not {self.advantage!r}."
            )
        if self.dynamic_sampling and not self.compares_groups:
            reasons.append(
                f"`dynamic_sampling` replaces groups whose rewards are all equal, and {kind} has "
                f"no groups."
            )
        if self.advantage == "maxrl" and (self.overlong or (self.kl and self.kl.in_reward)):
            reasons.append(
                "`advantage='maxrl'` divides by a group's mean reward, which must not be negative: "
                "it goes with neither `overlong` nor a `k1` penalty, which take from the reward."
            )
        if self.importance is not None and isinstance(self.clip, ProbabilityClip):
            reasons.append(
                "`ProbabilityClip` measures how far an action has moved from the policy that "
                "sampled it, and its ratios are against that one; with `importance` the "
                "difference would be weighed twice."
            )
        if (self.normalise is Normalise.MAX_TOKENS) != (self.max_tokens is not None):
            reasons.append(
                "`Normalise.MAX_TOKENS` and `Algorithm(max_tokens=...)` belong together: give "
                "both, or neither."
            )
        if self.normalise is Normalise.MICRO_BATCH:
            reasons.append(
                "`Normalise.MICRO_BATCH` makes the result depend on how a step is split into "
                "micro-batches. Train with `Normalise.TOKENS`."
            )
        return reasons


FROM_SCRATCH = Algorithm(group=16, advantage="dr_grpo", epochs=4, learning_rate=1e-3, entropy=0.01)
"""For tiny models that start from random weights: large steps, several per batch, and an entropy
bonus that keeps them from settling early."""
