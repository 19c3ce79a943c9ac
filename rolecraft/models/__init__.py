"""Who thinks: models, their sessions, budgets, and test doubles."""

from rolecraft.models.base import Completion, FinishReason, Model, Sampling, Session, Tool
from rolecraft.models.budget import Budget, Limits
from rolecraft.models.doubles import FunctionModel, ModelCall, ScriptedModel
from rolecraft.models.switch import allow_real_models, forbid_real_models

__all__ = [
    "Budget",
    "Completion",
    "FinishReason",
    "FunctionModel",
    "Limits",
    "Model",
    "ModelCall",
    "Sampling",
    "ScriptedModel",
    "Session",
    "Tool",
    "allow_real_models",
    "forbid_real_models",
]
