"""From a request to what the model is to do: prompts in tokens, and how to sample their answers.

Invariant: everything that can be wrong with a request is found here, before a token is sampled.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import Tool
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.fields import Call, ChatBody, ChatMessage, CompletionBody
from rolecraft.serving.refusals import Refusal

# OpenAI's default for `/v1/completions`.
COMPLETION_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One prompt, and how to answer it `n` times."""

    ids: list[int]
    prompt: str
    """The prompt as text, for whoever reads the answer; empty where it came as tokens."""
    role: str
    """Whose adapter answers; empty for the base model."""
    tools: tuple[Tool, ...] = ()
    first_call: int = 0
    """How many calls the conversation has already: ids go on from there."""
    parse: bool = True
    """Whether reasoning and calls are read out of the answer."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int
    n: int = 1
    report: int | None = None


def longest_token(model: TokenModel) -> int:
    """Characters of the longest token: no text is longer than its tokens times this.

    Of tokenizers that make one token of what they do not know, or leave spaces out, that is not
    quite so; but no context full of such text was meant.
    """
    return max(map(len, model.tokenizer.get_vocab()), default=1)


def chat_order(
    model: TokenModel, body: ChatBody, role: str, *, max_tokens: int, longest: int
) -> Order:
    """The order of a chat. Raises `Refusal`. `longest` is that of `longest_token`."""
    if body.top_logprobs is not None and not body.logprobs:
        raise Refusal("`top_logprobs` wants `logprobs: true`.", param="top_logprobs")
    tools = _tools(body)
    messages = [_message(message, at) for at, message in enumerate(body.messages)]
    thoughts = {
        at: message.reasoning_content
        for at, message in enumerate(body.messages)
        if message.role == "assistant" and message.reasoning_content
    }
    _check_length(model, sum(len(message.content) for message in messages), "messages", longest)
    try:
        if tools:
            model.check_tools(tools)
            model.reader.parser.stream(tools)  # their schemas are read here
        prompt = model.render(messages, tools, thoughts)
        ids = model.encode(prompt)
    except UsageError as error:  # what this model's template and tokenizer cannot write
        raise Refusal(str(error), param="tools" if tools else "messages") from error
    wanted = body.max_completion_tokens or body.max_tokens or max_tokens
    return Order(
        ids=ids,
        prompt=prompt,
        role=role,
        tools=tools,
        first_call=sum(len(message.tool_calls or ()) for message in body.messages),
        max_tokens=_room(model, ids, wanted, "messages"),
        report=(body.top_logprobs or 0) if body.logprobs else None,
        **_sampling(body),
    )


def prompts_of(body: CompletionBody) -> list[str] | list[list[int]]:
    """The prompts of a plain completion. Raises `Refusal` if one is empty."""
    prompts: Any = body.prompt if isinstance(body.prompt, list) else [body.prompt]
    if prompts and isinstance(prompts[0], int):
        prompts = [prompts]
    if not prompts or not all(prompts):
        raise Refusal("`prompt` is empty: there is nothing to go on with.", param="prompt")
    checked: list[str] | list[list[int]] = prompts
    return checked


def completion_orders(
    model: TokenModel, body: CompletionBody, role: str, *, longest: int
) -> list[Order]:
    """An order for each prompt of a plain completion."""
    prompts = prompts_of(body)
    size = len(model.tokenizer)
    orders = []
    for prompt in prompts:
        if isinstance(prompt, str):
            _check_length(model, len(prompt), "prompt", longest)
            # Unlike in a chat, special tokens in the text mean what they mean: whoever writes a
            # whole prompt writes its control tokens too.
            ids = _encoded(model, prompt)
        else:
            ids = prompt
            _room(model, ids, 1, "prompt")
            if bad := [token for token in ids if token >= size]:
                raise Refusal(
                    f"`prompt` has the token id {bad[0]}; this model has {size} tokens, from 0.",
                    param="prompt",
                )
        orders.append(
            Order(
                ids=ids,
                prompt="",
                role=role,
                parse=False,
                max_tokens=_room(model, ids, body.max_tokens or COMPLETION_TOKENS, "prompt"),
                report=body.logprobs,
                **_sampling(body),
            )
        )
    return orders


def _sampling(body: ChatBody | CompletionBody) -> dict[str, Any]:
    return {
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "stop": body.stops,
        "seed": secrets.randbits(63) if body.seed is None else body.seed,
        "n": body.n or 1,
    }


def _room(model: TokenModel, ids: Sequence[int], wanted: int, param: str) -> int:
    """How many tokens an answer may have: those wanted, as far as the context has room."""
    context = model.context
    if context is None:
        return wanted
    if len(ids) >= context:
        raise Refusal(
            f"This model's maximum context length is {context} tokens. However, your {param} "
            f"resulted in {len(ids)} tokens, which leaves no room for an answer. Shorten it.",
            param=param,
            code="context_length_exceeded",
        )
    return min(wanted, context - len(ids))


def _check_length(model: TokenModel, characters: int, param: str, longest: int) -> None:
    """Refuse a text that is too long whatever its tokens are, before it is tokenised."""
    if model.context is not None and characters > model.context * longest:
        raise Refusal(
            f"This model's maximum context length is {model.context} tokens, of {longest} "
            f"characters at most. However, your {param} has {characters} characters. Shorten it.",
            param=param,
            code="context_length_exceeded",
        )


def _encoded(model: TokenModel, prompt: str) -> list[int]:
    try:
        ids: list[int] = model.tokenizer.encode(prompt)
    except Exception as error:  # the tokenizers library raises plain `Exception`
        raise Refusal(f"The tokenizer cannot spell the prompt: {error}.", param="prompt") from error
    if not ids:
        raise Refusal("`prompt` has no tokens: there is nothing to go on with.", param="prompt")
    return ids


def _tools(body: ChatBody) -> tuple[Tool, ...]:
    choice = body.tool_choice
    if choice is not None and not isinstance(choice, str):
        wanted = f"the function {choice.function.name!r}"
    else:
        wanted = "a call" if choice == "required" else ""
    if wanted:
        raise Refusal(
            f"`tool_choice` demands {wanted}, and nothing can make this model write one. Use "
            f"'auto' and say in the prompt what you want.",
            param="tool_choice",
            code="unsupported_parameter",
        )
    if choice == "none":
        return ()
    offered = [tool.function for tool in body.tools or ()]
    names = [function.name for function in offered]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal(f"`tools` has {min(twice)!r} twice.", param="tools")
    return tuple(
        Tool(
            name=function.name,
            description=function.description or "",
            parameters=function.parameters or {},
        )
        for function in offered
    )


def _message(message: ChatMessage, at: int) -> Message:
    where = f"messages.{at}"
    text = _text(message, where)
    role = "system" if message.role == "developer" else message.role
    if role == "assistant":
        if message.content is None and not message.tool_calls and not message.reasoning_content:
            raise Refusal(
                f"`{where}` has neither `content` nor `tool_calls`.", param=f"{where}.content"
            )
        calls = [
            _call(call, f"{where}.tool_calls.{n}")
            for n, call in enumerate(message.tool_calls or ())
        ]
        return Message(text, role=role, metadata={"tool_calls": calls} if calls else None)
    if message.content is None:
        raise Refusal(
            f"Missing required parameter: `{where}.content`.",
            param=f"{where}.content",
            code="missing_required_parameter",
        )
    if role == "tool":
        if not message.tool_call_id:
            raise Refusal(
                f"`{where}` is what a tool returned: say in `tool_call_id` which call it answers.",
                param=f"{where}.tool_call_id",
                code="missing_required_parameter",
            )
        return Message(text, role=role, metadata={"tool_call_id": message.tool_call_id})
    return Message(text, role=role)


def _text(message: ChatMessage, where: str) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    for n, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise Refusal(
                f"`{where}.content.{n}` is of type {part.type[:40]!r}; only text is read here.",
                param=f"{where}.content.{n}",
                code="unsupported_content",
            )
    return "".join(part.text or "" for part in content)


def _call(call: Call, where: str) -> ToolCall:
    written = call.function.arguments
    try:
        arguments = json.loads(written) if written.strip() else {}
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        # A call that was cut off comes back as it was given; its text is all there is to show.
        arguments = {} if not written.strip() else {"arguments": written}
        return ToolCall(call.function.name, arguments, call.id, incomplete=True, raw=written)
    return ToolCall(call.function.name, arguments, call.id)
