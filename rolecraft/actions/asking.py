"""`ask`: how roles and actions put a question to a model."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar, Unpack, overload

from rolecraft.models.base import Model, Sampling, Session
from rolecraft.models.questions import Check, put_question

T = TypeVar("T")


class Options(TypedDict, total=False):
    """What every form of `ask` takes besides the prompt and the type of the answer."""

    system: str | None
    sampling: Sampling | None
    session: Session | None
    check: Check | None


class Asks:
    """Whoever can ask a model: a role, and an action on behalf of its role."""

    @overload
    async def ask(self, prompt: str, **options: Unpack[Options]) -> str: ...
    @overload
    async def ask(self, prompt: str, *, returns: type[T], **options: Unpack[Options]) -> T: ...
    @overload  # a `Literal[...]` or `list[...]`, which no type checker takes for a `type`
    async def ask(self, prompt: str, *, returns: Any, **options: Unpack[Options]) -> Any: ...
    async def ask(
        self,
        prompt: str,
        *,
        returns: Any = str,
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
        check: Check | None = None,
    ) -> Any:
        """Ask the role's model one question, by default in a conversation of its own.

        `returns` is the answer's type: str, a `Literal`, a pydantic model, any type pydantic
        knows. `system` replaces the role's system prompt. Pass `session` (from `open_session`)
        to go on with a conversation. `check` may refuse an answer of the right type by raising
        `ValueError`: the question is asked again, with its text. Raises `InvalidAnswer` if the
        model never gives that type, `UsageError` if there is no model, and what
        `Session.generate` raises.
        """
        session = session or self.open_session(system=system)
        return await put_question(session, prompt, returns=returns, sampling=sampling, check=check)

    async def _aask(self, prompt: str, system_msgs: list[str] | None = None) -> str:
        """MetaGPT's name for `ask`."""
        return await self.ask(prompt, system="\n".join(system_msgs) if system_msgs else None)

    def open_session(
        self, *, system: str | None = None, model: Model | str | None = None
    ) -> Session:
        """A new conversation with the role's model, or with `model`; every call is recorded."""
        raise NotImplementedError
