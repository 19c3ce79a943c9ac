"""How well it went: rewards as functions of what the environment measured."""

from rolecraft.rewards.reward import Reward, RewardBreakdown, reward, turns
from rolecraft.rewards.signals import MissingSignal, Signals

__all__ = ["MissingSignal", "Reward", "RewardBreakdown", "Signals", "reward", "turns"]
