"""Many runs at once: `rollouts` yields them as they end, `collect` gathers them in a list."""

from rolecraft.rollouts.collect import Failed, collect, episodes
from rolecraft.rollouts.endings import Ended, StageCancelled, StageTimeout
from rolecraft.rollouts.events import PipelineEvent
from rolecraft.rollouts.pipeline import rollouts
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.scenario_stages import ScenarioStages
from rolecraft.rollouts.settings import PipelineSettings
from rolecraft.rollouts.stages import Records, Stages
from rolecraft.rollouts.stuck import StuckWatch

__all__ = [
    "Ended",
    "Failed",
    "PipelineEvent",
    "PipelineSettings",
    "Records",
    "Rollout",
    "ScenarioStages",
    "StageCancelled",
    "StageTimeout",
    "Stages",
    "StuckWatch",
    "collect",
    "episodes",
    "rollouts",
]
