"""A team that plays rows, each in an environment of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Self

from rolecraft.actions.codeact import SandboxTool
from rolecraft.environments.team import Team
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import ALL
from rolecraft.models.base import Model, Sampling
from rolecraft.models.resolve import resolve_model
from rolecraft.roles.role import Role
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.items import Item
from rolecraft.rollouts.batch.stages import BatchStages, Playing, limits_of, tools_of
from rolecraft.rollouts.endings import Ended, crossed, of_stop
from rolecraft.sandboxes.default import default_provider
from rolecraft.sandboxes.live import SandboxProvider


class TeamStages(BatchStages):
    """Rows are ideas for a team: for everyone who listens to the user, or for its only role.

    `model` and `role_models` take the place of the team's own. Where roles have tools that work in
    the environment's sandbox (CodeAct's), each item has one of `provider`; with a `provider` every
    item has. Raises `UsageError` for a team that cannot begin.
    """

    def __init__(
        self,
        team: Team,
        config: BatchConfig,
        *,
        model: Model | str | None = None,
        role_models: Mapping[str, Model | str] | None = None,
        provider: SandboxProvider | None = None,
    ) -> None:
        super().__init__(config)
        if not team.roles:
            raise UsageError("The team has no roles. Give it some: `Team([Writer(), Editor()])`.")
        if team.env.begun:
            raise UsageError("The team has begun already: its file runs it. Let it only be made.")
        for name in role_models or {}:
            if name not in team.roles:
                raise UnknownName("Role", name, team.roles)
        self._team, self._provider = team, provider
        self._model, self._role_models = model, dict(role_models or {})
        self._made: list[Model] = []
        self._in_sandbox = getattr(team.env, "sandbox", None) is None and any(
            _wants_sandbox(role) for role in team.roles.values()
        )

    @property
    def tools(self) -> tuple[str, ...]:
        return tools_of(self._team.roles.values())

    async def __aenter__(self) -> Self:
        """Make the models that are given as text, once for all items."""
        made: dict[str, Model] = {}

        async def resolved(spec: Model | str | None) -> Model | None:
            if not isinstance(spec, str):
                return spec
            if spec not in made:
                made[spec] = await asyncio.to_thread(resolve_model, spec)
                self._made.append(made[spec])
            return made[spec]

        env = self._team.env
        if self._model is not None:
            env.model = self._model
        env.model = await resolved(env.model)
        for name, role in env.roles.items():
            if self._model is not None or name in self._role_models:
                role.model = self._role_models.get(name)
            role.model = await resolved(role.model)
        if self.config.usd is not None:
            for role in env.roles.values():
                await check_price(env.model_of(role))
        return self

    async def __aexit__(self, *error: object) -> None:
        for model in self._made:
            await model.aclose()

    async def _begin(self, item: Item) -> Playing:
        env = self._team.env.again()
        env.id, env.seed = item.id.name, item.seed
        env.limits = limits_of(self.config, env.limits)
        live = Playing(env)
        if self._provider is not None or self._in_sandbox:
            provider: SandboxProvider | None = self._provider
            if provider is None:
                provider = await asyncio.to_thread(default_provider)
            live.sandbox = await provider.create(item.sandbox)
            env.sandbox = live.sandbox  # type: ignore[attr-defined]
        return live

    async def _play(self, item: Item, live: Playing) -> Ended:
        env = live.env
        send_to = next(iter(env.roles)) if len(env.roles) == 1 else ALL
        done = await Team(env=env).run(item.prompt, send_to=send_to, rounds=self.config.rounds)
        return of_stop(done.stop, crossed(env.trajectory))


def _wants_sandbox(role: Role) -> bool:
    """Whether a tool of the role works in the sandbox of its environment."""
    return any(isinstance(tool, SandboxTool) and tool.needs_sandbox for tool in role.tools)


async def check_price(model: Model | None) -> None:
    """Raise `UsageError` if money is limited and a model's price is unknown."""
    if model is None or not model.real:
        return
    await model.prepare()
    session = model.session()
    if await asyncio.to_thread(model.estimate_usd, session, Sampling()) is None:
        raise UsageError(
            f"A limit in US dollars cannot be kept: no price is known for the model "
            f"{model.name!r}. Give it `prices=(usd_per_prompt_token, usd_per_answer_token)`, or "
            f"limit `tokens` instead."
        )
