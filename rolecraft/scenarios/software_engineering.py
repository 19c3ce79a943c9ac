"""A CodeAct role mends faults in real code, for tests that it does not see.

    software_engineering = scenario()      # the 20 examples, fetched when a task is drawn
    mine = scenario(SoftwareTasks(load("rows.jsonl", places=...).instances))
    ours = scenario(team=lambda: [Mender()])      # roles of one's own

The reward is 1 for a fix that every test accepts, less at most a tenth for what it cost. Nothing
but a fix earns anything, and what fails has 0 whatever it cost: to give up sooner saves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rolecraft.environments.software_engineering import SoftwareEnvironment
from rolecraft.environments.software_engineering.examples import examples, swe_examples
from rolecraft.environments.software_engineering.examples.solvers import reference_solver
from rolecraft.environments.task import TaskSource
from rolecraft.errors import UsageError
from rolecraft.models.base import Model
from rolecraft.rewards import Gate, Signals, reward
from rolecraft.roles.ready.codeact import CodeAct
from rolecraft.roles.role import Role
from rolecraft.scenarios.scenario import Scenario

LARGE = 200
"""A fix that changes so many lines, or more, pays the whole price of its size."""
FINDINGS = 10
"""So many new findings of ruff, or more, cost the whole price of them."""


@reward
def resolved(signals: Signals) -> float:
    """1 if every test passes and nothing was meddled with, else 0."""
    return signals["resolved"]


@reward
def size(signals: Signals) -> float:
    """How large the fix is, from 0 to 1: the lines that it changes, of `LARGE`.

    1 where they cannot be counted: a patch must not be cheaper for being hard to measure.
    """
    if "lines.added" not in signals or "lines.removed" not in signals:
        return 1.0
    return min(1.0, (signals["lines.added"] + signals["lines.removed"]) / LARGE)


@reward
def findings(signals: Signals) -> float:
    """What ruff finds in the touched files that it did not find before, from 0 to 1."""
    new = signals.get("ruff.after", 0.0) - signals.get("ruff.before", 0.0)
    return min(1.0, max(0.0, new) / FINDINGS)


@reward
def dollars(signals: Signals) -> float:
    """What the models cost, from 0 to 1: a dollar or more is 1."""
    return min(1.0, signals.get("cost", 0.0))


def scenario(
    tasks: TaskSource | None = None,
    *,
    team: Callable[[], Sequence[Role]] = lambda: [CodeAct()],
    model: Model | str | None = None,
    name: str = "software_engineering",
    **options: Any,
) -> Scenario:
    """A scenario with the roles that `team` makes: one `CodeAct`, unless given.

    `tasks` are the examples unless given. Roles that name no model ask `model`. `options` go to the
    `SoftwareEnvironment` (`provider`, `grader`, `limits`, …). Raises `UsageError` for a `team` that
    is no function; one that makes no list raises it when an episode begins.
    """
    if not callable(team) or isinstance(team, type):
        raise _no_team(team)

    def roles() -> Sequence[Role]:
        made = team()
        if isinstance(made, Role):
            raise _no_team(made)
        for role in made:
            role.model = model if role.model is None else role.model
        return made

    return Scenario(
        name=name,
        team=roles,
        environment=partial(SoftwareEnvironment, **options),
        tasks=tasks or swe_examples(),
        reward=Gate(resolved, resolved - 0.04 * size - 0.03 * findings - 0.03 * dollars),
    )


def _no_team(got: object) -> UsageError:
    return UsageError(
        f"`scenario(team=...)` wants a function that makes a list of fresh roles, for each episode "
        f"has its own, got {got!r}: write `team=lambda: [MyRole()]`."
    )


software_engineering = scenario()


def rehearsal() -> Scenario:
    """The same with a test double that knows the solutions of the examples: no model is needed."""
    return scenario(model=reference_solver(examples().values()), name="rehearsal")
