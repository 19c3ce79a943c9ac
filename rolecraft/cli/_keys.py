"""API keys that are missing, told before anything is loaded or asked.

LiteLLM takes seconds to import and is the one that knows every provider. For the providers that
most people use, whether there is a key can be seen without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rolecraft.errors import MissingKey

if TYPE_CHECKING:
    from rolecraft.models import Model

KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""For each provider, the environment variables from which LiteLLM takes its key."""


def check_keys(models: Iterable[Model | str | None]) -> None:
    """Raise `MissingKey` for a model that certainly has no key.

    Nothing is certain of other providers, of a server of one's own, and in a program that has
    imported LiteLLM itself and may have given it a key.
    """
    if "litellm" in sys.modules:
        return
    for model in models:
        name = _asks_an_api(model)
        provider = name.partition("/")[0]
        variables = KEYS.get(provider, ())
        elsewhere = [f"{provider.upper()}_{end}" for end in ("BASE_URL", "API_BASE")]
        if variables and not any(map(os.environ.get, (*variables, *elsewhere))):
            listed = " or ".join(f"`{variable}`" for variable in variables)
            raise MissingKey(
                f"No API key for the model {name!r}. Set the environment variable {listed}.",
                model=name,
            )


def has_key(provider: str) -> bool:
    """True if the environment has a key for a provider, as far as its variable is known here."""
    return any(map(os.environ.get, KEYS.get(provider, (f"{provider.upper()}_API_KEY",))))


def _asks_an_api(model: Model | str | None) -> str:
    """The name of a model behind a provider's API; empty for others."""
    if isinstance(model, str):
        return model
    from rolecraft.models import LiteLLMModel

    if not isinstance(model, LiteLLMModel):
        return ""
    own_way = model._api_key or model.base_url or model.extra
    return "" if own_way else model.name
