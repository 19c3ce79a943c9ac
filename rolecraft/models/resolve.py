"""From what a user writes for a model to a `Model`."""

from __future__ import annotations

import re

from rolecraft.errors import UsageError
from rolecraft.models.base import Model
from rolecraft.models.model_folder import check_folder

HUMAN = "human"
"""Names the person at the terminal."""

BETWEEN = "|"
"""Between the names of models of which the next is asked when one is not available."""

_LOCAL = "transformers:"
_VLLM = "vllm:"
API_NAME = re.compile(r"[A-Za-z][\w-]*/\S+")

ACCEPTED = (
    "a `Model` object",
    "'provider/name' for a model behind an API, such as 'openai/gpt-4o-mini'",
    "'transformers:PATH' for a model that runs in this process: a folder, or a name on the "
    "Hugging Face hub",
    "'vllm:PATH' for the same in vLLM",
    "'human' for the person at the terminal",
    "'FIRST | SECOND' for a model behind an API and the one to ask when it is not available",
)
"""The forms that `resolve_model` takes, in words."""


def check_model(spec: object) -> None:
    """Raise `UsageError` for what is neither a model, nor a string, nor None.

    What the string names is only looked at when the model is asked.
    """
    if not (spec is None or isinstance(spec, (str, Model))):
        raise UsageError(
            f"`model` is {spec!r}, which is no model. Write {'; '.join(ACCEPTED)}.{_hint(spec)}"
        )


def resolve_model(spec: Model | str) -> Model:
    """The model that `spec` means; a `Model` is returned as it is.

    `'provider/name'` makes a `LiteLLMModel` and asks nobody yet: whether the provider exists shows
    at the first call. `'first | second'` makes a `FallbackModel` of both. `'transformers:PATH'`
    loads the model now, which takes its time. `'human'` is the person at the terminal. Each call
    makes a new model; whoever wants to share one keeps it. Raises `UsageError` for anything else,
    and what the loading of a local model raises.
    """
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, str):
        if spec == HUMAN:
            from rolecraft.models.human import HumanModel

            return HumanModel()
        if spec.startswith(_LOCAL) and spec != _LOCAL:
            check_folder(spec.removeprefix(_LOCAL))  # before torch is imported, which takes seconds
            from rolecraft.models.transformers_model import TransformersModel

            return TransformersModel.load(spec.removeprefix(_LOCAL))
        if spec.startswith(_VLLM) and spec != _VLLM:
            from rolecraft.models.vllm_model import VLLMModel

            return VLLMModel(spec.removeprefix(_VLLM))
        if BETWEEN in spec:
            from rolecraft.models.fallback import FallbackModel

            return FallbackModel([each.strip() for each in spec.split(BETWEEN)])
        if API_NAME.fullmatch(spec):
            from rolecraft.models.litellm_model import LiteLLMModel

            return LiteLLMModel(spec)
    raise UsageError(f"{spec!r} names no model. Write {'; '.join(ACCEPTED)}.{_hint(spec)}")


def _hint(spec: object) -> str:
    if isinstance(spec, type) and issubclass(spec, Model):
        return f" `{spec.__name__}` is a class: make one, `{spec.__name__}(...)`."
    if isinstance(spec, str) and spec.startswith((".", "/", "~")):
        return f" For the folder: {_LOCAL + spec!r}."
    return ""
