"""What credit assignment hands to the trainer and to the loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from rolecraft.environments.task import Task
from rolecraft.training.credit.ema import CreditState
from rolecraft.training.credit.faults import Blamed
from rolecraft.training.policy.sequences import TrainingSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Sequences with their advantages, and what was left out and why."""

    sequences: list[TrainingSequence]
    unscored: list[str] = field(default_factory=list)
    """Attempts whose reward, or what a critic or the reference says of them, is not finite, by
    name. They belong to no group."""
    ungraded: list[str] = field(default_factory=list)
    """Ids of tasks of runs that the team broke off itself, so that they have no reward. They are
    not played again: the same would happen."""
    groups: int = 0
    """What was compared; 0 where an action's advantage is made from what followed it."""
    silent_groups: int = 0
    """Groups that say nothing: of one attempt, or with equal rewards. Their advantages are 0."""
    silent_tasks: list[Task] = field(default_factory=list)
    """Tasks of whose sequences none has any advantage, each once: for playing others instead. With
    `Algorithm.dynamic_sampling` their sequences are left out."""
    refill: list[Task] = field(default_factory=list)
    """Tasks of episodes that say nothing about the team, because a machine failed it: to be played
    again. One entry an episode."""
    shares: dict[str, float] = field(default_factory=dict)
    """Each role's share of all credit: of the sum of the sizes of advantages over actions. They
    add up to 1, or are 0 where there is none."""
    placed: dict[str, int] = field(default_factory=dict)
    """How many signals of each name in `Credit.steps` were placed at a turn: 0 for a name that no
    episode logged, or never with a `step` of a trained role."""
    wasted: dict[str, int] = field(default_factory=dict)
    """Turns that each role wasted, where `Credit.communication` asks for them."""
    blamed: Blamed | None = None
    """What became of failure findings, where `Credit.blame` asks for them."""
    state: CreditState = field(default_factory=CreditState)
    """For the next call, and for checkpoints."""
