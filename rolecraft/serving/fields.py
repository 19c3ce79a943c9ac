"""The request bodies that the server reads, as pydantic models, and what it makes of the rest.

Invariant: a field either does what OpenAI's reference says of it, or cannot change the answer and
is ignored, or is refused with its name. None is silently without effect.
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rolecraft.serving.refusals import Refusal

MOST_CHOICES = 64
MOST_STOPS = 16
MOST_TOP_LOGPROBS = 20
MOST_PROMPTS = 2048
MOST_MESSAGES = 10_000
MOST_PARTS = 20_000
"""Parts of messages and calls in them, over all messages; also the tools of a request."""
MOST_TOKENS = 2**22
"""Of a prompt in tokens; the model's context is mostly less."""

# Fields that cannot change an answer: labels, bookkeeping, hints to a cache.
_HARMLESS = frozenset(
    {"metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"}
    | {"service_tier", "store", "user"}
)
# Values with which a field that is not supported says nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": (),
    "functions": ([],),
    "logit_bias": ({},),
    "min_p": (0,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "top_k": (0, -1),
    "verbosity": ("medium",),
    "web_search_options": (),
}
_INSTEAD = {
    "function_call": "Use `tool_choice`.",
    "functions": "Use `tools`.",
    "parallel_tool_calls": "Leave it out; take the first call if you want one at a time.",
    "response_format": "Ask for the format in the prompt, and check the answer.",
}

# Never writes out what is large.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 100

Fields = TypeVar("Fields", bound="_Body")
Text = Annotated[str, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]
Token = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
# Numbers: JSON has one kind, so 1 is a temperature too.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Stop = Annotated[str, Field(strict=True, min_length=1)]
Tokens = Annotated[list[Token], Field(fail_fast=True, max_length=MOST_TOKENS)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class TextPart(_Part):
    type: Text
    text: Text | None = None


Parts = Annotated[list[TextPart], Field(fail_fast=True, max_length=MOST_PARTS)]


class FunctionCall(_Part):
    name: Annotated[str, Field(strict=True, min_length=1)]
    arguments: Text = "{}"


class Call(_Part):
    id: Text = ""
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(_Part):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: (
        Text | Annotated[list[TextPart], Field(fail_fast=True, max_length=MOST_PARTS)] | None
    ) = None
    reasoning_content: Text | None = None
    tool_calls: Annotated[list[Call], Field(fail_fast=True, max_length=MOST_PARTS)] | None = None
    tool_call_id: Text | None = None


class Function(_Part):
    name: Annotated[str, Field(strict=True, min_length=1)]
    description: Text | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(_Part):
    type: Literal["function"]
    function: Function


class NamedFunction(_Part):
    name: Text


class NamedTool(_Part):
    type: Literal["function"]
    function: NamedFunction


class StreamOptions(_Part):
    include_usage: Flag | None = None


class _Body(BaseModel):
    """What both kinds of request share."""

    model_config = ConfigDict(extra="allow")

    path: ClassVar[str]

    model: Text
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    n: Annotated[Whole, Field(ge=1, le=MOST_CHOICES)] | None = None
    seed: Annotated[Whole, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    max_tokens: Annotated[Whole, Field(ge=1)] | None = None
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: Flag | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class ChatBody(_Body):
    """`POST /v1/chat/completions`."""

    path = "/v1/chat/completions"

    messages: Annotated[
        list[ChatMessage], Field(fail_fast=True, min_length=1, max_length=MOST_MESSAGES)
    ]
    tools: Annotated[list[OfferedTool], Field(fail_fast=True, max_length=MOST_PARTS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    max_completion_tokens: Annotated[Whole, Field(ge=1)] | None = None
    logprobs: Flag | None = None
    top_logprobs: Annotated[Whole, Field(ge=0, le=MOST_TOP_LOGPROBS)] | None = None


class CompletionBody(_Body):
    """`POST /v1/completions`."""

    path = "/v1/completions"

    prompt: (
        Text
        | Annotated[list[Text], Field(fail_fast=True, max_length=MOST_PROMPTS)]
        | Tokens
        | Annotated[list[Tokens], Field(fail_fast=True, max_length=MOST_PROMPTS)]
    )
    logprobs: Annotated[Whole, Field(ge=0, le=MOST_TOP_LOGPROBS)] | None = None


class LoadAdapterBody(BaseModel):
    """`POST /v1/load_lora_adapter`."""

    model_config = ConfigDict(extra="forbid")

    lora_name: Annotated[str, Field(strict=True, min_length=1)]
    lora_path: Annotated[str, Field(strict=True, min_length=1)]
    load_inplace: Flag | None = None


class UnloadAdapterBody(BaseModel):
    """`POST /v1/unload_lora_adapter`."""

    model_config = ConfigDict(extra="forbid")

    lora_name: Annotated[str, Field(strict=True, min_length=1)]


AnyBody = TypeVar("AnyBody", bound=BaseModel)


def read_body(kind: type[AnyBody], data: bytes | bytearray) -> AnyBody:
    """The fields of a request. Raises `Refusal` for the first thing that is wrong with them.

    Takes its time for a large body: to be called in a thread.
    """
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"The body is no JSON: {error}.", code="invalid_json") from None
    if not isinstance(record, dict):
        raise Refusal(f"The body is to be a JSON object, got {_short(record)}.")
    _check_parts(record)
    try:
        body = kind.model_validate(record)
    except ValidationError as error:
        raise _refusal(error, record) from None
    except RecursionError:
        raise Refusal("The body is nested too deeply.") from None
    if isinstance(body, _Body):
        _check_rest(body.model_extra or {}, type(body).model_fields)
    return body


def _check_parts(record: Mapping[str, Any]) -> None:
    """Refuse what would take long to check: pydantic lets no other thread run meanwhile."""
    messages = record.get("messages")
    if not isinstance(messages, list) or len(messages) > MOST_MESSAGES:
        return  # said by its field
    lists = (
        message.get(field)
        for message in messages
        if isinstance(message, dict)
        for field in ("content", "tool_calls")
    )
    if sum(len(each) for each in lists if isinstance(each, list)) > MOST_PARTS:
        raise Refusal(
            f"`messages` has more than {MOST_PARTS} parts and calls. Send fewer, longer ones.",
            param="messages",
        )


def _check_rest(rest: Mapping[str, Any], known: Iterable[str]) -> None:
    for name, value in rest.items():
        if value is None or name in _HARMLESS:
            continue
        if name not in _NEUTRAL:
            near = difflib.get_close_matches(name[:100], known, n=1)
            instead = f"Did you mean `{near[0]}`?" if near else "Leave it out."
            raise Refusal(
                f"Unrecognized request argument supplied: {_short(name)}. {instead}",
                param=name,
                code="unknown_parameter",
            )
        if not any(value == neutral for neutral in _NEUTRAL[name]):
            instead = _INSTEAD.get(name, "Leave it out.")
            raise Refusal(
                f"`{name}` is not supported by this server; got {_short(value)}. {instead}",
                param=name,
                code="unsupported_parameter",
            )


def _refusal(error: ValidationError, record: Mapping[str, Any]) -> Refusal:
    """The first thing that is wrong, with its path as OpenAI writes it: `messages.0.role`."""
    # Of a union pydantic says what is wrong with each member: the one that got furthest is meant.
    first = error.errors(include_url=False, include_context=False)
    if too_long := [found for found in first if found["type"] == "too_long"]:
        first = too_long
    where = {_at(found["loc"], record) for found in first}
    param = max(where, key=lambda path: (path.count("."), path)) if len(where) > 1 else where.pop()
    found = next(item for item in first if _at(item["loc"], record) == param)
    if found["type"] == "missing":
        text = f"Missing required parameter: `{param}`."
        code = "missing_required_parameter"
    else:
        text = f"Invalid value for `{param}`: {_short(found['input'])}. {found['msg']}."
        code = "invalid_value"
    return Refusal(text, param=param, code=code)


def _at(loc: tuple[int | str, ...], record: Any) -> str:
    """`loc` without the names of union members that pydantic puts into it."""
    path: list[str] = []
    here = record
    for step in loc:
        if isinstance(step, int):
            if isinstance(here, list) and step < len(here):
                here = here[step]
                path.append(str(step))
        elif isinstance(here, dict) and (step in here or not _is_member(step)):
            here = here.get(step)
            path.append(step)
    return ".".join(path)


def _is_member(step: str) -> bool:
    return "[" in step or step in ("str", "int", "NamedTool", "literal")


def _short(value: Any) -> str:
    if isinstance(value, (list, dict)) and len(value) > 8:
        kind, what = ("an array", "values") if isinstance(value, list) else ("an object", "members")
        return f"{kind} of {len(value)} {what}"
    text = _REPR.repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
