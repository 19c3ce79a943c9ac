"""Advantages of single actions: from what followed them, alone or against a critic.

The actions of a role's turns, whichever session they were in, are one line in the order in which
they were chosen; with `timeline="team"` those of all roles are. What a turn earned stands at its
last action. Given tokens are in no line, so that nothing they hold can matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.returns import charged, gae, token_returns
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.terms import Kl
from rolecraft.training.credit.attempts import Attempt, Place, cut_off
from rolecraft.training.credit.critics import (
    RoleCritic,
    TeamCritic,
    by_episode,
    fill_values,
    in_order,
)
from rolecraft.training.credit.settings import Credit
from rolecraft.training.policy.sequences import TrainingSequence


class _Action(NamedTuple):
    sequence: TrainingSequence
    at: int


def credit_tokens(
    attempts: Sequence[Attempt],
    algorithm: Algorithm,
    credit: Credit,
    critic: RoleCritic | TeamCritic | None,
) -> None:
    """Give every action of the attempts its advantage, and with a critic its return."""
    if algorithm.critic is not None:
        for attempt in attempts if algorithm.critic.bootstrap else ():
            attempt.places[-1].sequence.cut_off = cut_off(attempt.episode)
        fill_values(attempts, critic)
    lines = by_episode(attempts) if credit.timeline == "team" else [[each] for each in attempts]
    for line in lines:
        turns = in_order(line)
        actions, rewards = _line(line, turns)
        mask = [True] * len(actions)
        if algorithm.critic is None:
            advantages = token_returns(rewards, mask, gamma=algorithm.gamma)
            returns = None
        else:
            values = [action.sequence.values[action.at] for action in actions]
            gamma, lam = algorithm.critic.gamma, algorithm.critic.lam
            after = turns[-1][2].sequence.after  # where it was cut off, chosen there or not
            advantages, returns = gae(rewards, values, mask, gamma=gamma, lam=lam, bootstrap=after)
            for attempt in line:
                for sequence in attempt.sequences:
                    sequence.returns = [0.0] * len(sequence.ids)
        for number, (sequence, at) in enumerate(actions):
            sequence.advantages[at] = advantages[number]
            if returns is not None:
                sequence.returns[at] = returns[number]


def _line(
    team: Sequence[Attempt], turns: Sequence[tuple[Attempt, int, Place]]
) -> tuple[list[_Action], list[float]]:
    """The actions of these attempts' turns in order, and what each earned.

    What a turn earned that has no action counts for the last action before it, or else the first
    of all: all that was earned is somewhere, unless there is no action at all.
    """
    actions: list[_Action] = []
    rewards: list[float] = []
    early = 0.0
    for attempt, number, place in turns:
        mine = place.actions
        actions += [_Action(place.sequence, at) for at in mine]
        rewards += attempt.kl[number] if attempt.kl else [0.0] * len(mine)
        if rewards:
            rewards[-1] += attempt.paid[number]
        else:
            early += attempt.paid[number]
    if rewards:
        # Attempts of one team share its worth: what no turn was paid comes once, at the end.
        paid = sum(sum(attempt.paid) for attempt in team)
        rewards[0] += early
        rewards[-1] += team[0].worth + sum(attempt.charged for attempt in team) - paid
    return actions, rewards


def charge_kl(
    attempts: Sequence[Attempt],
    kl: Kl | None,
    reference: Sequence[Sequence[float]] | None,
) -> None:
    """Take the `k1` penalty off the rewards: see `rolecraft.training.algorithms.returns.charged`.

    `reference[i]` are the reference policy's log-probabilities of the tokens of sequence i, counted
    over all attempts. Raises `UsageError` if the algorithm asks for the penalty without them.
    """
    if kl is None or not kl.in_reward:
        return
    if reference is None:
        raise UsageError(
            "`Kl(estimator='k1')` is taken off the reward and needs the reference policy's "
            "log-probabilities: give `assign(..., reference=trainer.reference_logprobs)`, or take "
            "'k2' or 'k3'."
        )
    rest = iter(reference)
    for attempt in attempts:
        costs = {
            id(sequence): _kl_rewards(sequence, next(rest), kl) for sequence in attempt.sequences
        }
        attempt.kl = [
            [costs[id(place.sequence)][at] for at in place.actions] for place in attempt.places
        ]


def _kl_rewards(sequence: TrainingSequence, reference: Sequence[float], kl: Kl) -> list[float]:
    nothing = [0.0] * len(sequence.ids)
    return charged(nothing, sequence.logprobs, reference, sequence.action_mask, kl=kl)
