"""GiGPO (arXiv 2505.10978): turns that saw the same, compared. Pure functions without torch.

Two kinds of groups, and what each averages over:

- attempts at one task: each *attempt* is one member, however many turns it took. (The authors'
  code averages over turns by default, so that long attempts weigh more.)
- turns of one task that began with the same observation: each *turn* is one member, so that an
  attempt that comes back to the same place is in the group as often as it came. A turn that
  nobody else saw is a group of one: its step advantage is exactly 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.advantages import AdvantageName, group_advantages
from rolecraft.training.algorithms.terms import StepGroups


def step_returns(rewards: Sequence[float], *, gamma: float) -> list[float]:
    """Discounted return of each turn: G_k = r_k + gamma G_(k+1) (section 4.2 of GiGPO)."""
    result, later = [0.0] * len(rewards), 0.0
    for turn in reversed(range(len(rewards))):
        result[turn] = later = rewards[turn] + gamma * later
    return result


def step_groups(
    tasks: Sequence[Hashable], observations: Sequence[Sequence[Hashable]]
) -> list[list[tuple[Hashable, Hashable]]]:
    """The group of each turn of each attempt: its task and what it saw, compared for equality."""
    return [
        [(task, observation) for observation in seen]
        for task, seen in zip(tasks, observations, strict=True)
    ]


def step_advantages(
    returns: Sequence[Sequence[float]],
    groups: Sequence[Sequence[Hashable]],
    *,
    kind: AdvantageName = "dr_grpo",
) -> list[list[float]]:
    """Of each turn of each attempt: its return against those of its group.

    `kind` is `dr_grpo` ("mean_norm" in the authors' code) or `grpo` ("mean_std_norm").
    """
    if [len(row) for row in returns] != [len(row) for row in groups]:
        raise UsageError("`step_advantages` wants one return and one group for each turn.")
    flat = group_advantages(
        [value for row in returns for value in row],
        [group for row in groups for group in row],
        kind=kind,
    )
    rest = iter(flat)
    return [[next(rest) for _ in row] for row in returns]


def gigpo(
    rewards: Sequence[float],
    tasks: Sequence[Hashable],
    turn_rewards: Sequence[Sequence[float]],
    observations: Sequence[Sequence[Hashable]],
    *,
    steps: StepGroups,
    kind: AdvantageName = "dr_grpo",
) -> list[list[float]]:
    """The advantage of each turn of each attempt: A = A_attempt + weight A_step (equation 8).

    Of attempt i: `rewards[i]` is its whole reward, `tasks[i]` names its task (and role),
    `turn_rewards[i]` and `observations[i]` have an entry for each of its turns: what the turn
    earned, and what the role saw when it began.
    """
    whole = group_advantages(rewards, tasks, kind=kind)
    returns = [step_returns(row, gamma=steps.gamma) for row in turn_rewards]
    inside = step_advantages(returns, step_groups(tasks, observations), kind=kind)
    return [
        [advantage + steps.weight * step for step in row]
        for advantage, row in zip(whole, inside, strict=True)
    ]
