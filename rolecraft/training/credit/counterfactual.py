"""What a role was worth: the team's reward, less what it is with somebody else in the role.

    D_role = G(team) - G(team without role)

Difference rewards (Wolpert and Tumer 2001); for language-model teams, CCPO (arXiv 2603.21563). The
second term does not depend on what the role did, so that the expected gradient of the role's policy
is that of the team's reward, with less of the others' noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.chance import UniformModel
from rolecraft.rewards import Ranking
from rolecraft.rollouts.attempts import as_attempt
from rolecraft.rollouts.collect import Failed, collect
from rolecraft.scenarios import Episode, Scenario

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.models.limits import Limits


def difference_rewards(value: float, without: Mapping[str, float]) -> dict[str, float]:
    """Each role's difference reward: `value` less the team's reward without that role."""
    return {role: value - its_value for role, its_value in without.items()}


def check_scale(scenario: Scenario) -> None:
    """Raise `UsageError` for opinions that only one side of the comparison can have.

    A judge's ranking is relative to the group. The team without a role is in no group: its reward
    would lack the share, and every role would gain it, whatever it did.
    """
    for each in scenario.reward.tree():
        if isinstance(each, Ranking):
            raise UsageError(
                f"`Credit(reward='counterfactual')` takes what the team is worth without a role "
                f"off what it is worth, and `Ranking({each.name!r})` compares the attempts of a "
                f"group, to which runs without a role do not belong. Take "
                f"`Opinion({each.name!r}, ...)`, which is asked of both alike, or other credit."
            )


async def play_without(
    scenario: Scenario,
    episodes: Sequence[Episode],
    *,
    model: Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    roles: Collection[str] | None = None,
    replacement: Model | str | None = None,
    attempts: int = 1,
    concurrency: int = 256,
    limits: Limits | None = None,
) -> list[dict[str, float]]:
    """Of each episode: the team's mean reward with each of `roles` played by `replacement`.

    Each task is played again for each role, `attempts` times: first with the episode's own seed,
    so that the other roles draw as they did as long as they see the same, then with others. `model`
    and `role_models` are those of the episodes. `roles` are all of the team, `replacement` is a
    `UniformModel`, which guesses. Of a role whose runs all failed, or whose reward is no number,
    nothing is said: `assign` then leaves that attempt out. At most `concurrency` are played at the
    same time, each within `limits` (by default the scenario's).

    Raises `UnknownName` for a role that the team has not, and `UsageError` for a reward with a
    `Ranking`.
    """
    check_scale(scenario)
    if attempts < 1:
        raise UsageError(f"`play_without(attempts=...)` wants a number from 1, got {attempts!r}.")
    names = [role.name for role in scenario.team()]
    for role in roles or ():
        if role not in names:
            raise UnknownName(f"Role of scenario `{scenario.name}`", role, names)
    tasks = [
        episode.task if number == 0 else as_attempt(episode.task, number, episode.task.seed)
        for episode in episodes
        for number in range(attempts)
    ]
    values: list[dict[str, float]] = [{} for _ in episodes]
    options: dict[str, Any] = {} if limits is None else {"limits": limits}
    for role in names if roles is None else roles:
        results = await collect(
            scenario,
            tasks,
            model=model,
            role_models={**(role_models or {}), role: replacement or UniformModel()},
            concurrency=concurrency,
            **options,
        )
        for number, its_values in enumerate(values):
            mine = results[number * attempts : (number + 1) * attempts]
            rewards = [each.reward.value for each in mine if not isinstance(each, Failed)]
            finite = [reward for reward in rewards if math.isfinite(reward)]
            if finite:
                its_values[role] = fmean(finite)
    return values
