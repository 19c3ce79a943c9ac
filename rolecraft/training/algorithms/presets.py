"""Published algorithms by name, with the defaults of their paper or its own implementation.

`docs/rl-algorithms.md` has the source of each number. What depends on your task, above all
lengths and the group's size, is there to be changed: `algorithm("dapo", group=8)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rolecraft.errors import UnknownName
from rolecraft.training.algorithms.clips import CLIP_HIGHER, Clip, DetachedClip, ProbabilityClip
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.terms import Critic, Kl, Normalise, Overlong, StepGroups

PPO_CLIP = Clip(0.2, 0.2)

ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(group=64, clip=PPO_CLIP, normalise=Normalise.SEQUENCES, kl=Kl(0.04, "k3")),
    "dr_grpo": Algorithm(
        advantage="dr_grpo", clip=PPO_CLIP, normalise=Normalise.MAX_TOKENS, max_tokens=3000
    ),
    "dapo": Algorithm(
        group=16, clip=CLIP_HIGHER, dynamic_sampling=True, overlong=Overlong(20480, 4096)
    ),
    "rloo": Algorithm(
        group=4,
        advantage="rloo",
        clip=PPO_CLIP,
        # The action is the whole answer: its log-probability is a sum over tokens.
        normalise=Normalise.MAX_TOKENS,
        max_tokens=1,
        kl=Kl(0.05, "k1"),
    ),
    "reinforce++": Algorithm(
        group=1,
        advantage="returns",
        whiten=True,
        clip=PPO_CLIP,
        learning_rate=5e-7,
        kl=Kl(1e-4, "k1"),
    ),
    "reinforce++_baseline": Algorithm(
        advantage="dr_grpo", whiten=True, clip=PPO_CLIP, learning_rate=5e-7, kl=Kl(1e-5, "k2")
    ),
    "gspo": Algorithm(clip=Clip(3e-4, 4e-4, level="sequence"), normalise=Normalise.SEQUENCES),
    "cispo": Algorithm(group=16, clip=DetachedClip(0.0, 5.0)),
    "dppo": Algorithm(
        group=16,
        advantage="dr_grpo",
        clip=ProbabilityClip(0.15, 0.15),
        normalise=Normalise.MAX_TOKENS,
        max_tokens=8192,
    ),
    "maxrl": Algorithm(group=16, advantage="maxrl", clip=PPO_CLIP, max_grad_norm=0.3),
    "ppo": Algorithm(group=1, advantage="gae", whiten=True, critic=Critic(), clip=PPO_CLIP),
    "gigpo": Algorithm(advantage="dr_grpo", steps=StepGroups(), clip=PPO_CLIP, kl=Kl(0.01, "k3")),
}


def algorithm(name: str, **changes: Any) -> Algorithm:
    """The algorithm of that name, with some settings changed.

    Raises `UnknownName` for a name or setting that there is not, `UsageError` for a combination
    that cannot work.
    """
    if name not in ALGORITHMS:
        raise UnknownName("Algorithm", name, ALGORITHMS)
    for setting in changes:
        if setting not in Algorithm.__dataclass_fields__:
            raise UnknownName("Setting of `Algorithm`", setting, Algorithm.__dataclass_fields__)
    return replace(ALGORITHMS[name], **changes)
