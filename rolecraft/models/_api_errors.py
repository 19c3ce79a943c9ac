"""What `LiteLLMModel` raises in the end: the last failure in words, with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.errors import BadModelResponse, MissingKey, ModelError, ModelUnavailable
from rolecraft.models import _litellm
from rolecraft.models._failures import Failure

if TYPE_CHECKING:
    from rolecraft.models.litellm_model import LiteLLMModel


def missing_keys(name: str) -> list[str]:
    """The environment variables for a model's key that LiteLLM looked for and did not find."""
    missing = _litellm.load().validate_environment(name)["missing_keys"]
    return [name for name in missing if name.endswith(("_KEY", "_TOKEN"))]


def api_error(model: LiteLLMModel, failure: Failure, attempts: int) -> ModelError:
    """The error for a call whose last attempt ended in `failure`."""
    kind: type[ModelError] = ModelUnavailable
    last = f"{attempts} attempt{'s' if attempts != 1 else ''}. The last one: {failure}."
    text = f"The model {model.name!r} did not answer in {last}"
    if failure.kind == "key":
        kind, text = MissingKey, _about_key(model, failure)
    elif failure.kind == "malformed":
        kind = BadModelResponse
        text = f"The server of {model.name!r} gave no usable answer in {last}"
        if model.base_url is not None:
            text += f" Is {model.base_url!r} the right address? See the server's log."
    elif failure.kind == "refused":
        kind = ModelError
        text = f"The provider of {model.name!r} refused the request: {failure}."
    elif failure.kind == "quota":
        text += " The account has no money left: top it up, or use another `api_key=`."
    elif (failure.retry_after or 0.0) > model.retries.longest_retry_after:
        text += (
            f" The server asks to wait {failure.retry_after:g} s, more than "
            f"`Retries(longest_retry_after={model.retries.longest_retry_after:g})`."
        )
    elif failure.kind == "timeout":
        text += f" Each attempt had `timeout={model.timeout:g}` seconds."
    elif failure.kind == "connection" and model.base_url is not None:
        text += f" Is it running? Check `base_url={model.base_url!r}`."
    else:
        text += " Try again later, or allow more with `LiteLLMModel(retries=...)`."
    return kind(text, model=model.name, attempts=attempts, status=failure.status)


def _about_key(model: LiteLLMModel, failure: Failure) -> str:
    variables = " or ".join(f"`{name}`" for name in missing_keys(model.name))
    if model._api_key is None and variables:
        text = (
            f"No API key for the model {model.name!r} of {model._provider}. "
            f"Give `LiteLLMModel(api_key=...)` or set the environment variable {variables}."
        )
    else:
        text = (
            f"{model._provider} does not accept the API key for the model {model.name!r}: "
            f"{failure}. Check `api_key=` or the environment variable that it comes from."
        )
    if model.base_url is not None:
        text += " For a server that wants no key, give any: `api_key='none'`."
    return text
