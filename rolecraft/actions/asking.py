"""Typed questions: ask a model, get a validated value.

A `Literal` becomes a choice (local models can sample nothing else); any other type becomes a JSON
Schema in the prompt. An answer that does not validate is asked again with the reason, at most
`retries` times, and then is an `InvalidAnswer`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, overload

from rolecraft.errors import InvalidAnswer
from rolecraft.messages import Message
from rolecraft.models.base import Sampling, Session

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class Asks:
    """Whoever can ask a model: a role, and an action on behalf of its role."""

    @overload
    async def ask(
        self,
        prompt: str,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> str: ...
    @overload
    async def ask(
        self,
        prompt: str,
        *,
        returns: type[T],
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        prompt: str,
        *,
        returns: Any,  # a `Literal[...]` or `list[...]`, which no type checker takes for a `type`
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> Any: ...
    async def ask(
        self,
        prompt: str,
        *,
        returns: Any = str,
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> Any:
        """Ask the role's model one question, by default in a conversation of its own.

        `returns` is the answer's type: str, a `Literal`, a pydantic model, any type pydantic
        knows. `system` replaces the role's system prompt. Pass `session` (from `open_session`)
        to go on with a conversation. Raises `InvalidAnswer` if the model never gives that type,
        `UsageError` if there is no model, and what `Session.generate` raises.
        """
        session = session or self.open_session(system=system)
        return await put_question(session, prompt, returns=returns, sampling=sampling)

    async def _aask(self, prompt: str, system_msgs: list[str] | None = None) -> str:
        """MetaGPT's name for `ask`."""
        return await self.ask(prompt, system="\n".join(system_msgs) if system_msgs else None)

    def open_session(self, *, system: str | None = None) -> Session:
        """A new conversation with the role's model; every call in it is recorded."""
        raise NotImplementedError


async def put_question(
    session: Session,
    prompt: str,
    *,
    returns: Any = str,
    sampling: Sampling | None = None,
    retries: int = 2,
) -> Any:
    """Ask `prompt` in `session` and return an answer of type `returns`. See `Asks.ask`."""
    if returns is str:
        return (await session.generate([Message(prompt)], sampling=sampling)).text
    if get_origin(returns) is Literal:
        return await _ask_choice(session, prompt, get_args(returns), sampling, retries)
    return await _ask_json(session, prompt, returns, sampling, retries)


async def _ask_choice(
    session: Session, prompt: str, values: tuple[Any, ...], sampling: Sampling | None, retries: int
) -> Any:
    by_text = {str(value): value for value in values}
    sampling = replace(sampling or Sampling(), choices=tuple(by_text))
    for _ in range(retries + 1):
        text = (await session.generate([Message(prompt)], sampling=sampling)).text
        answer = text.strip()
        if answer in by_text:
            return by_text[answer]
        loose = [
            value for key, value in by_text.items() if key.lower() == answer.strip(".`'\"").lower()
        ]
        if len(loose) == 1:
            return loose[0]
        listed = ", ".join(by_text)
        prompt = f"The answer {answer!r} is not one of the choices. Answer with one of: {listed}"
    raise InvalidAnswer(
        f"Model {session.model.name!r} answered {text!r}, which is none of {list(by_text)}, "
        f"{retries + 1} times."
    )


async def _ask_json(
    session: Session, prompt: str, returns: Any, sampling: Sampling | None, retries: int
) -> Any:
    from pydantic import ValidationError

    adapter, schema = _validator(returns)
    prompt = f"{prompt}\n\nAnswer with JSON only, of this JSON Schema:\n{schema}"
    problem = ""
    for _ in range(retries + 1):
        text = (await session.generate([Message(prompt)], sampling=sampling)).text
        try:
            return adapter.validate_json(json_part(text))
        except ValidationError as error:
            problem = "; ".join(
                f"{'.'.join(map(str, part['loc'])) or 'answer'}: {part['msg']}"
                for part in error.errors(include_url=False)
            )
        prompt = f"That answer is not valid ({problem}). Answer again, with JSON only."
    raise InvalidAnswer(
        f"Model {session.model.name!r} gave no valid {getattr(returns, '__name__', returns)} in "
        f"{retries + 1} attempts ({problem}). Its last answer: {text!r}"
    )


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
