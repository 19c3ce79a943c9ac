"""Who thinks: models, their sessions, budgets, and test doubles."""

from typing import TYPE_CHECKING, Any

from rolecraft.models.base import (
    RESET,
    Completion,
    FinishReason,
    Model,
    Sampling,
    Session,
    Tool,
)
from rolecraft.models.budget import Budget
from rolecraft.models.doubles import FunctionModel, ModelCall, ScriptedModel
from rolecraft.models.limits import Crossing, Decision, HandOver, Limits, MoreRoom, UseModel
from rolecraft.models.switch import allow_real_models, forbid_real_models

if TYPE_CHECKING:
    from rolecraft.models.adapters import AdapterVersion
    from rolecraft.models.cached_model import CachedModel
    from rolecraft.models.fallback import FallbackModel
    from rolecraft.models.human import HumanModel, Question
    from rolecraft.models.litellm_model import LiteLLMModel
    from rolecraft.models.phases import Phases
    from rolecraft.models.prompt_cache import PromptCache
    from rolecraft.models.rate_limiter import RateLimiter
    from rolecraft.models.resolve import resolve_model
    from rolecraft.models.retries import Retries
    from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.models.vllm_model import VLLMModel
    from rolecraft.models.vllm_server import VLLMServer

__all__ = [
    "RESET",
    "AdapterVersion",
    "Budget",
    "CachedModel",
    "Completion",
    "Crossing",
    "Decision",
    "FallbackModel",
    "FinishReason",
    "FunctionModel",
    "HandOver",
    "HumanModel",
    "Limits",
    "LiteLLMModel",
    "Model",
    "ModelCall",
    "MoreRoom",
    "Phases",
    "PromptCache",
    "Question",
    "RateLimiter",
    "Retries",
    "Sampled",
    "Sampling",
    "ScriptedModel",
    "Session",
    "TokenModel",
    "TokenRequest",
    "Tool",
    "TransformersModel",
    "UseModel",
    "VLLMModel",
    "VLLMServer",
    "allow_real_models",
    "forbid_real_models",
    "resolve_model",
]

# Modules that are imported when one of their names is first used.
_LAZY = {
    "AdapterVersion": "adapters",
    "CachedModel": "cached_model",
    "FallbackModel": "fallback",
    "HumanModel": "human",
    "LiteLLMModel": "litellm_model",
    "Phases": "phases",
    "PromptCache": "prompt_cache",
    "Question": "human",
    "RateLimiter": "rate_limiter",
    "Retries": "retries",
    "Sampled": "token_model",
    "TokenModel": "token_model",
    "TokenRequest": "token_model",
    "TransformersModel": "transformers_model",
    "VLLMModel": "vllm_model",
    "VLLMServer": "vllm_server",
    "resolve_model": "resolve",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
