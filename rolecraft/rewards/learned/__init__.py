"""Rewards that users tune by feedback, on top of what was measured. Needs torch when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolecraft.rewards.learned.directions import Direction, directions
from rolecraft.rewards.learned.embedding import (
    Embedding,
    FunctionEmbedding,
    HashingEmbedding,
    ModelEmbedding,
)
from rolecraft.rewards.learned.feedback import (
    FEEDBACK,
    Label,
    Preference,
    Rating,
    append_feedback,
    read_feedback,
)
from rolecraft.rewards.learned.observation import FEATURES, Observation, Statistics, observe

if TYPE_CHECKING:
    from rolecraft.rewards.learned.asking import pairs_to_ask, runs_to_rate
    from rolecraft.rewards.learned.examination import Examination, examine
    from rolecraft.rewards.learned.fitting import fit
    from rolecraft.rewards.learned.folder import FeedbackFolder, FitReport, Wishes
    from rolecraft.rewards.learned.guided import Decision, GuidedReward, TrustSettings
    from rolecraft.rewards.learned.learned_reward import LearnedReward
    from rolecraft.rewards.learned.net import NetSettings
    from rolecraft.rewards.learned.saving import LearnedRewardError, load_learned, save_learned
    from rolecraft.rewards.learned.two_levels import bilevel

_WITH_TORCH = {
    "Decision": "guided",
    "Examination": "examination",
    "FeedbackFolder": "folder",
    "FitReport": "folder",
    "GuidedReward": "guided",
    "LearnedReward": "learned_reward",
    "LearnedRewardError": "saving",
    "NetSettings": "net",
    "TrustSettings": "guided",
    "Wishes": "folder",
    "bilevel": "two_levels",
    "examine": "examination",
    "fit": "fitting",
    "load_learned": "saving",
    "pairs_to_ask": "asking",
    "runs_to_rate": "asking",
    "save_learned": "saving",
}

__all__ = [
    "FEATURES",
    "FEEDBACK",
    "Decision",
    "Direction",
    "Embedding",
    "Examination",
    "FeedbackFolder",
    "FitReport",
    "FunctionEmbedding",
    "GuidedReward",
    "HashingEmbedding",
    "Label",
    "LearnedReward",
    "LearnedRewardError",
    "ModelEmbedding",
    "NetSettings",
    "Observation",
    "Preference",
    "Rating",
    "Statistics",
    "TrustSettings",
    "Wishes",
    "append_feedback",
    "bilevel",
    "directions",
    "examine",
    "fit",
    "load_learned",
    "observe",
    "pairs_to_ask",
    "read_feedback",
    "runs_to_rate",
    "save_learned",
]


def __getattr__(name: str) -> Any:
    if name in _WITH_TORCH:
        module = import_module(f"rolecraft.rewards.learned.{_WITH_TORCH[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
