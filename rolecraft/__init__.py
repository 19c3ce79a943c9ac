"""Rolecraft: teams of language-model agents that learn from their own failures.

The names most programs need; everything else is in the sub-packages. Importing this loads
pydantic and loguru only; heavier libraries are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loguru import logger

from rolecraft.actions import Action, UserRequirement
from rolecraft.environments import Environment, Run, Task, TaskEnvironment, Team
from rolecraft.errors import RolecraftError
from rolecraft.messages import Message
from rolecraft.models import FunctionModel, Limits, Model, Sampling, ScriptedModel
from rolecraft.roles import Role, RoleReactMode
from rolecraft.trajectories import Trajectory

__version__ = "0.1.0"

logger.disable("rolecraft")  # until somebody wants it: `logger.enable("rolecraft")`

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import annotate
    from rolecraft.rewards import Signals, reward
    from rolecraft.scenarios import Scenario
    from rolecraft.training import GRPO, train

_LATER = {
    "annotate": "rolecraft.failure_taxonomy",
    "reward": "rolecraft.rewards",
    "Signals": "rolecraft.rewards",
    "Scenario": "rolecraft.scenarios",
    "GRPO": "rolecraft.training",
    "train": "rolecraft.training",
}
"""Names of higher floors, imported when first used."""

__all__ = [
    "GRPO",
    "Action",
    "Environment",
    "FunctionModel",
    "Limits",
    "Message",
    "Model",
    "Role",
    "RoleReactMode",
    "RolecraftError",
    "Run",
    "Sampling",
    "Scenario",
    "ScriptedModel",
    "Signals",
    "Task",
    "TaskEnvironment",
    "Team",
    "Trajectory",
    "UserRequirement",
    "annotate",
    "reward",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'rolecraft' has no attribute {name!r}")
