"""Typed questions: ask a session, get a validated value.

A `Literal` becomes a choice (local models can sample nothing else); any other type becomes a JSON
Schema in the prompt. An answer that does not validate is asked again with the reason, at most
`retries` times, and then is an `InvalidAnswer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from rolecraft.errors import InvalidAnswer
from rolecraft.messages import Message
from rolecraft.models.base import Sampling, Session

if TYPE_CHECKING:
    from pydantic import TypeAdapter


async def put_question(
    session: Session,
    prompt: str,
    *,
    returns: Any = str,
    sampling: Sampling | None = None,
    retries: int = 2,
) -> Any:
    """Ask `prompt` in `session` and return an answer of type `returns`.

    Raises `InvalidAnswer` after `retries` further attempts, and what `Session.generate` raises.
    """
    read: Callable[[str], Any] = str
    if get_origin(returns) is Literal:
        by_text = {str(value): value for value in get_args(returns)}
        sampling = replace(sampling or Sampling(), choices=tuple(by_text))
        read = partial(_read_choice, by_text)
    elif returns is not str:
        adapter, schema = _validator(returns)
        prompt = f"{prompt}\n\nAnswer with JSON only, of this JSON Schema:\n{schema}"
        read = partial(_read_json, adapter)
    problem = text = ""
    for _ in range(retries + 1):
        text = (await session.generate([Message(prompt)], sampling=sampling)).text
        try:
            return read(text)
        except _Unreadable as error:
            problem = str(error)
        prompt = f"That answer is not valid: {problem}"
    raise InvalidAnswer(
        f"Model {session.model.name!r} gave no valid {getattr(returns, '__name__', returns)} in "
        f"{retries + 1} attempts. Its last answer was {text!r}. {problem}"
    )


class _Unreadable(ValueError):
    """An answer is not of the type that was asked for; says to the model what to do."""


def _read_choice(by_text: dict[str, Any], text: str) -> Any:
    answer = text.strip()
    if answer in by_text:
        return by_text[answer]
    plain = answer.strip(".`'\"").lower()
    loose = [value for choice, value in by_text.items() if choice.lower() == plain]
    if len(loose) != 1:
        choices = ", ".join(by_text)
        raise _Unreadable(f"{answer!r} is none of the choices. Answer with one of: {choices}")
    return loose[0]


def _read_json(adapter: TypeAdapter[Any], text: str) -> Any:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(json_part(text))
    except ValidationError as error:
        flaws = "; ".join(
            f"{'.'.join(map(str, flaw['loc'])) or 'answer'}: {flaw['msg']}"
            for flaw in error.errors(include_url=False)
        )
    raise _Unreadable(f"{flaws}. Answer again, with JSON only.")


@lru_cache(maxsize=256)
def _validator(returns: Any) -> tuple[TypeAdapter[Any], str]:
    """What checks an answer of this type, and its JSON Schema as text. Slow to make."""
    from pydantic import TypeAdapter

    adapter = TypeAdapter(returns)
    return adapter, json.dumps(adapter.json_schema(), ensure_ascii=False)


def json_part(text: str) -> str:
    """The JSON in a reply that may wrap it in a code fence or in words."""
    text = text.strip()
    try:
        json.loads(text)
    except ValueError:
        pass
    else:
        return text
    if "```" in text:
        fenced = text.split("```", 2)[1]
        return fenced.removeprefix("json").strip()
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    if starts:
        end = max(text.rfind("}"), text.rfind("]"))
        return text[min(starts) : end + 1]
    return text
