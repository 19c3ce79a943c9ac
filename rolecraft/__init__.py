"""Rolecraft: teams of language-model agents that learn from their own failures.

The names most programs need; everything else is in the sub-packages. Importing this loads
pydantic and loguru only; heavier libraries are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loguru import logger

from rolecraft.actions import Action, Finish, UserRequirement, idempotency_key, tool
from rolecraft.environments import Environment, Run, Task, TaskEnvironment, Team
from rolecraft.errors import RolecraftError
from rolecraft.messages import Message
from rolecraft.models import FunctionModel, Limits, Model, Sampling, ScriptedModel
from rolecraft.roles import Role, RoleReactMode
from rolecraft.trajectories import Trajectory

__version__ = "0.1.0"

logger.disable("rolecraft")  # until somebody wants it: `logger.enable("rolecraft")`

if TYPE_CHECKING:
    from rolecraft.actions import Ask
    from rolecraft.failure_taxonomy import annotate
    from rolecraft.models import HumanModel
    from rolecraft.rewards import Signals, reward
    from rolecraft.roles import Human, Planning, SqliteMemory
    from rolecraft.scenarios import Scenario
    from rolecraft.training import Algorithm as Algorithm
    from rolecraft.training import train as train

_LATER = {
    "Ask": "rolecraft.actions",
    "annotate": "rolecraft.failure_taxonomy",
    "Human": "rolecraft.roles",
    "HumanModel": "rolecraft.models",
    "Planning": "rolecraft.roles",
    "SqliteMemory": "rolecraft.roles",
    "reward": "rolecraft.rewards",
    "Signals": "rolecraft.rewards",
    "Scenario": "rolecraft.scenarios",
    "Algorithm": "rolecraft.training",
    "train": "rolecraft.training",
}
"""Names that are imported when first used."""

# `from rolecraft import *` works without extras: `Algorithm` and `train` need one and are not here.
__all__ = [
    "Action",
    "Ask",
    "Environment",
    "Finish",
    "FunctionModel",
    "Human",
    "HumanModel",
    "Limits",
    "Message",
    "Model",
    "Planning",
    "Role",
    "RoleReactMode",
    "RolecraftError",
    "Run",
    "Sampling",
    "Scenario",
    "ScriptedModel",
    "Signals",
    "SqliteMemory",
    "Task",
    "TaskEnvironment",
    "Team",
    "Trajectory",
    "UserRequirement",
    "annotate",
    "idempotency_key",
    "reward",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'rolecraft' has no attribute {name!r}")
