"""Two levels: below, a policy is trained on the reward; above, a user's answers tune the reward."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rolecraft.errors import UsageError
from rolecraft.rewards.learned.asking import Pair
from rolecraft.rewards.learned.feedback import Label
from rolecraft.rewards.learned.guided import Decision, GuidedReward
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.observation import Observation, observe
from rolecraft.trajectories.trajectory import Trajectory

Played = Iterable[Observation | Trajectory]
Inner = Callable[[LearnedReward], Played | Awaitable[Played]]
"""Trains K steps on the reward, and returns runs that the policy plays then."""
Ask = Callable[[Sequence[Pair]], Iterable[Label] | Awaitable[Iterable[Label]]]
"""Puts pairs of runs to the user, and returns what they said of those that they answered."""


async def bilevel(
    guided: GuidedReward,
    inner: Inner,
    ask: Ask,
    *,
    rounds: int,
    labels_per_round: int,
    runs: Played = (),
    replayed: int = 256,
) -> list[Decision]:
    """`rounds` times: ask, fit, and train the policy on what was learned.

    The first questions are about `runs`, those of a policy that has learned nothing yet; later
    ones about what the last training came to, so that a policy that has found a way to be paid for
    nothing is what the user is asked about next. The newest `replayed` runs are the replay set of
    the trust region. Trajectories are told apart by their round and place, since attempts at a task
    may share an id. Both callbacks may be async. Raises what they raise.
    """
    if rounds < 1 or labels_per_round < 1:
        raise UsageError("`rounds` and `labels_per_round` are at least 1.")
    fresh = _observed(runs, 0)
    decisions = []
    for number in range(1, rounds + 1):
        guided.replay = (guided.replay + fresh)[-replayed:]
        said = ask(guided.ask(guided.replay, labels_per_round))
        decisions.append(guided.learn(await said if inspect.isawaitable(said) else said))
        played = inner(guided.reward)
        fresh = _observed(await played if inspect.isawaitable(played) else played, number)
    return decisions


def _observed(played: Played, number: int) -> list[Observation]:
    return [
        run if isinstance(run, Observation) else observe(run, name=f"{number}/{place}/{run.id}")
        for place, run in enumerate(played)
    ]
