"""How one item is played, whatever plays it: its tools, its share of the budget, its sample.

Invariant: two items share nothing but models, clients and the budget of the run; each has roles
and an environment of its own, and its sandbox is closed whatever happens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from rolecraft.environments.environment import Environment
from rolecraft.errors import LimitReached, RolecraftError
from rolecraft.models.budget import Budget
from rolecraft.models.limits import Limits
from rolecraft.roles.role import Role
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.conversations import Lost, conversations
from rolecraft.rollouts.batch.filters import status_of
from rolecraft.rollouts.batch.items import Item
from rolecraft.rollouts.batch.ledger import DISCARDED, OK, RETRYABLE, Entry
from rolecraft.rollouts.batch.measuring import measures, usage_fields
from rolecraft.rollouts.batch.samples import Sample
from rolecraft.rollouts.endings import Ended, of_error
from rolecraft.sandboxes.live import LiveSandbox
from rolecraft.trajectories.trajectory import Trajectory

WHOSE = "the batch"
"""Whose limit it is, in the crossings of the run's budget."""


class BudgetSpent(RolecraftError):
    """The money or the tokens of the whole run are used up."""


@dataclass(slots=True)
class Playing:
    """An item that is being played."""

    env: Environment
    sandbox: LiveSandbox | None = None
    ended: Ended = "cancelled"
    graded: bool = False


class BatchStages(ABC):
    """The stages of a batch run's items; see `Stages`. Subclasses say how to play.

    `note` gets the ledger's entry of every attempt that cost something and came to nothing.
    """

    in_sandboxes = True
    """Whether an item is played in the sandbox that its row describes (`Item.sandbox`)."""

    def __init__(self, config: BatchConfig) -> None:
        self.config = config
        self.budget = Budget(Limits(usd=config.usd, tokens=config.tokens), name=WHOSE)
        self.note: Callable[[Entry], None] = lambda entry: None

    @property
    @abstractmethod
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that the roles have."""

    @abstractmethod
    async def _begin(self, item: Item) -> Playing: ...

    @abstractmethod
    async def _play(self, item: Item, live: Playing) -> Ended: ...

    async def _measure(self, item: Item, live: Playing) -> tuple[Trajectory, dict[str, Any]]:
        """The whole trajectory, and the fields `reward` and `error` of the entry."""
        return live.env.trajectory, {}

    async def _end(self, item: Item, live: Playing) -> None:
        live.env.close()

    # --- the stages ---------------------------------------------------------------------------

    async def prepare(self, item: Item) -> Playing:
        """The roles, in an environment of their own."""
        live = await self._begin(item)
        try:
            self._equip(live.env, item)
        except BaseException:
            await self.close(item, live)
            raise
        return live

    async def run(self, item: Item, live: Playing) -> Ended:
        """Let them act. Raises `BudgetSpent` if the run's budget does not cover it."""
        try:
            live.ended = await self._play(item, live)
        except LimitReached as error:
            if getattr(error.crossing, "whose", "") == WHOSE:
                raise BudgetSpent(str(error)) from error
            live.ended = of_error(error, "run")
        else:
            self._check_budget(live.env.trajectory)
        return live.ended

    async def grade(self, item: Item, live: Playing) -> Sample:
        """The sample, and what it is worth where anybody says so."""
        trajectory, scored = await self._measure(item, live)
        live.graded = True
        return sample_of(item, trajectory, live.ended, self.config, **scored)

    async def close(self, item: Item, live: Playing) -> None:
        """Close the environment and the sandbox, and note what was spent in vain."""
        try:
            await self._end(item, live)
        finally:
            if live.sandbox is not None:
                await live.sandbox.close()
        trajectory = live.env.trajectory
        if not live.graded and trajectory.usage.calls:
            item.noted += 1
            entry = item.entry(RETRYABLE, error="an attempt came to nothing")
            self.note(entry.but(**usage_fields(trajectory)))

    def recorded(self, item: object, live: object) -> Trajectory | None:
        """What was recorded, whatever became of it."""
        return live.env.trajectory if isinstance(live, Playing) else None

    # --- what an item has of its own ----------------------------------------------------------

    def _equip(self, env: Environment, item: Item) -> None:
        """Give the roles their share of tools and the run's budget."""
        env.budget = Budget(env.limits or Limits(), parent=self.budget)
        toolsets = self.config.toolsets
        if toolsets is not None:
            for role in env.roles.values():
                allowed = toolsets.allowed(item.toolsets, [tool.name for tool in role.tools])
                role.tools = tuple(tool for tool in role.tools if tool.name in allowed)

    def _check_budget(self, trajectory: Trajectory) -> None:
        """A limit of the run that ended the play quietly is still the run's."""
        for event in trajectory.of("limit"):
            if event.data.get("whose") == WHOSE:
                raise BudgetSpent(event.content)


def tools_of(roles: Iterable[Role]) -> tuple[str, ...]:
    """The names of the roles' tools, each once."""
    return tuple(dict.fromkeys(tool.name for role in roles for tool in role.tools))


def sample_of(
    item: Item,
    trajectory: Trajectory,
    ended: str,
    config: BatchConfig,
    *,
    status: str = OK,
    reward: float | None = None,
    error: str = "",
) -> Sample:
    """What a trajectory comes to as a sample."""
    entry = item.entry(status, ended=ended, error=error)
    try:
        talks = conversations(trajectory)
    except Lost as lost:
        talks = []
        entry = entry.but(status=DISCARDED + "lost-answers", error=str(lost))
    entry = entry.but(reward=reward, **measures(trajectory, talks))
    entry = entry.but(status=status_of(entry, config))
    signals = {signal.name: signal.value for signal in trajectory.signals}
    return Sample(entry=entry, prompt=item.prompt, conversations=talks, signals=signals)


def limits_of(config: BatchConfig, own: Limits | None) -> Limits | None:
    """The limits of one item: those of the team, and the calls that the batch allows."""
    if config.calls is None:
        return own
    calls = config.calls if own is None or own.calls is None else min(config.calls, own.calls)
    return replace(own or Limits(), calls=calls)
