"""How well it went: rewards as functions of what the environment measured."""

from typing import TYPE_CHECKING, Any

from rolecraft.rewards.breakdown import RewardBreakdown, StepShare
from rolecraft.rewards.checks import check
from rolecraft.rewards.composition import Clip, Gate
from rolecraft.rewards.failures import FailureShaping
from rolecraft.rewards.measured import ask_judges
from rolecraft.rewards.opinions import Opinion, Ranking, rank
from rolecraft.rewards.potential import Potential
from rolecraft.rewards.reward import Reward, reward, signal, turns
from rolecraft.rewards.safety import SafetyReport, UnsafeReward, check_reward, examine
from rolecraft.rewards.signals import MissingSignal, Signals
from rolecraft.rewards.teams import Counterfactual, TeamMix

if TYPE_CHECKING:
    from rolecraft.rewards.check_contexts import BlockingToolContext

__all__ = [
    "BlockingToolContext",
    "Clip",
    "Counterfactual",
    "FailureShaping",
    "Gate",
    "MissingSignal",
    "Opinion",
    "Potential",
    "Ranking",
    "Reward",
    "RewardBreakdown",
    "SafetyReport",
    "Signals",
    "StepShare",
    "TeamMix",
    "UnsafeReward",
    "ask_judges",
    "check",
    "check_reward",
    "examine",
    "rank",
    "reward",
    "signal",
    "turns",
]


def __getattr__(name: str) -> Any:
    if name == "BlockingToolContext":  # brings the tools of sandboxes
        from rolecraft.rewards.check_contexts import BlockingToolContext

        return BlockingToolContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
