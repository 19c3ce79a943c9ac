"""Whether a role thinks before it answers: one model, whose chat template is told so for each role.

Templates of models that can do both have a switch, under one of two names; which one, and whether
there is any, is found by trying. Roles that nothing is said of are left to the template's default.
"""

from __future__ import annotations

from collections.abc import Mapping

from rolecraft.errors import UsageError
from rolecraft.models._lending import LendingModel
from rolecraft.models._token_request import Sampled, TokenRequest
from rolecraft.models._turns import Turn
from rolecraft.models.base import Model, Session
from rolecraft.models.chat_template import ChatTemplate, TemplateRefuses
from rolecraft.models.token_model import TokenModel

SWITCHES = ("enable_thinking", "thinking")
"""Names of the template's argument: of Qwen3, GLM-4.5 and SmolLM3; of Granite and DeepSeek-V3.1."""


class Thinking(LendingModel):
    """`model`, with thinking switched on or off in the conversations of the roles in `roles`.

    Raises `UsageError` for a model without a chat template, and for one whose template has no
    switch.
    """

    def __init__(self, model: Model, roles: Mapping[str, bool]) -> None:
        if not isinstance(model, TokenModel):
            raise UsageError(
                f"Thinking is switched by a chat template, and {model.name!r} has none here: that "
                f"wants a local model, `transformers:PATH` or `vllm:PATH`."
            )
        super().__init__(model)
        self.roles = dict(roles)
        switch = switch_of(model)
        self._told = {
            on: _Told(model, {**model.template.arguments, switch: on})
            for on in dict.fromkeys(self.roles.values())
        }

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> Session:
        """A conversation with the model itself; all that differs is what the template writes."""
        on = self.roles.get(role)
        model = self.model if on is None else self._told[on]
        return model.session(role, system=system, seed=seed)


def switch_of(model: TokenModel) -> str:
    """The name of the argument that changes what the template writes.

    Raises `UsageError` if none does.
    """
    for name in SWITCHES:
        on, off = (_tried(model, {name: value}) for value in (True, False))
        if on != off:
            return name
    names = " or ".join(f"`{name}`" for name in SWITCHES)
    raise UsageError(
        f"The chat template of {model.name!r} has no switch for thinking ({names}): a role thinks "
        f"there as the model always does. Leave the setting out, or set "
        f"`tokenizer.chat_template` to a template with a switch."
    )


def _tried(model: TokenModel, settings: Mapping[str, bool]) -> str:
    """A short conversation, as the template writes it with these settings."""
    given = {**model.template.arguments, **settings}
    template = ChatTemplate(model.tokenizer, name=model.name, settings=given)
    try:
        return template.render([Turn("user", "hello")])
    except TemplateRefuses:
        return ""


class _Told(TokenModel):
    """`model` itself, but for what its chat template is told: it samples, counts and serves."""

    def __init__(self, model: TokenModel, settings: Mapping[str, object]) -> None:
        # Its tokenizer, reader and bounds, whatever they were made from.
        self.__dict__.update(vars(model))
        self.real, self.person = model.real, model.person
        self._of = model
        self.template = ChatTemplate(model.tokenizer, name=model.name, settings=settings)

    async def sample(self, request: TokenRequest) -> Sampled:
        return await self._of.sample(request)

    async def prepare(self) -> None:
        await self._of.prepare()

    async def aclose(self) -> None:
        await self._of.aclose()
