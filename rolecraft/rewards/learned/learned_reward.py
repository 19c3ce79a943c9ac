"""A reward that was learned from a user's feedback: a `Reward` like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rolecraft.errors import UsageError
from rolecraft.rewards.learned._torch import torch
from rolecraft.rewards.learned.embedding import Embedding, HashingEmbedding
from rolecraft.rewards.learned.net import Estimates, Inputs, NetSettings, estimate, prior
from rolecraft.rewards.learned.observation import Observation, Statistics, observe, statistics
from rolecraft.rewards.learned.pessimism import pessimistic
from rolecraft.rewards.reward import Reward
from rolecraft.rewards.signals import Signals

if TYPE_CHECKING:
    from torch import Tensor

RESIDUAL, PESSIMISM = "residual", "pessimism"
"""Names of the shares that belong to no signal."""


@dataclass(frozen=True, eq=False)
class LearnedReward(Reward):
    """An ensemble's pessimistic value of a run, in log-odds of being preferred.

    A pure function of the log: signals, counted features and the goal, never the text. An average
    run is worth 0. Every signal has a share, beside `residual` and `pessimism` (what the members'
    disagreement takes off); they add up to the value.
    """

    settings: NetSettings
    statistics: Mapping[str, Statistics]
    embedding: Embedding
    weights: dict[str, Tensor] = field(repr=False)
    goal: str | None = None
    """The user's goal for every run; None takes each run's own, from its header."""
    fits: int = 0
    """How many fits led here; 0 is the prior alone."""
    goals: dict[str, Sequence[float]] = field(default_factory=dict, repr=False, compare=False)
    """Goals that were embedded before, so that each is embedded once."""

    @classmethod
    def untrained(
        cls,
        settings: NetSettings,
        runs: Iterable[Observation],
        *,
        embedding: Embedding | None = None,
        goal: str | None = None,
    ) -> LearnedReward:
        """The prior: it knows the directions and nothing of the user. `runs` set the statistics."""
        embedding = embedding or HashingEmbedding(settings.goal_size)
        if embedding.size != settings.goal_size:
            settings = replace(settings, goal_size=embedding.size)
        known = statistics(runs, [direction.name for direction in settings.directions])
        return cls(settings, known, embedding, prior(settings), goal)

    def shares(self, signals: Signals) -> dict[str, float]:
        """What the run was worth. Of bare signals the features of the interaction are missing."""
        observation = observe(signals)
        seen = [x.name for x in self.settings.directions if x.name in observation.values]
        for name in seen:
            signals.note(name, [name])
        for share in (RESIDUAL, PESSIMISM):
            signals.note(share, seen)
        return self.shares_of(observation)

    def shares_of(self, observation: Observation) -> dict[str, float]:
        """What each signal, the residual and pessimism give; the value is their sum."""
        said = self.estimates([observation])
        names = [direction.name for direction in self.settings.directions]
        shares = dict(zip(names, said.signals_EBK[:, 0].mean(0).tolist(), strict=True))
        shares[RESIDUAL] = float(said.residual_EB[:, 0].mean())
        total_EB = said.total_EB
        shares[PESSIMISM] = float((pessimistic(total_EB) - total_EB.mean(0))[0])
        return shares

    def values(self, observations: Sequence[Observation]) -> list[float]:
        """The values of many runs at once."""
        if not observations:
            return []
        values: list[float] = pessimistic(self.estimates(observations).total_EB).tolist()
        return values

    def preference(self, first: Observation, second: Observation) -> float:
        """The probability, in the members' mean, that the user prefers `first`."""
        total_EB = self.estimates([first, second]).total_EB
        return float(torch.sigmoid(total_EB[:, 0] - total_EB[:, 1]).mean())

    def estimates(self, observations: Sequence[Observation]) -> Estimates:
        """What each member says of each run."""
        with torch.no_grad():
            return estimate(self.weights, self.settings, self.inputs(observations))

    def inputs(self, observations: Sequence[Observation]) -> Inputs:
        """Runs as the net takes them."""
        limit = self.settings.limit
        x, present, goals = [], [], []
        for each in observations:
            row, seen = [], []
            for direction in self.settings.directions:
                value = each.values.get(direction.name)
                known = self.statistics[direction.name]
                missing = -limit if direction.promised else 0.0
                seen.append(float(value is not None))
                row.append(
                    missing if value is None else direction.sign * known.standardised(value, limit)
                )
            x.append(row)
            present.append(seen)
            goals.append(self.embed(each.goal if self.goal is None else self.goal))
        k, g = len(self.settings.directions), self.settings.goal_size
        return Inputs(_rows(x, k), _rows(present, k), _rows(goals, g))

    def embed(self, goal: str) -> Sequence[float]:
        """The goal as numbers; nothing said is 0 everywhere."""
        if not goal:
            return [0.0] * self.settings.goal_size
        if goal not in self.goals:
            self.goals[goal] = tuple(self.embedding(goal))
        return self.goals[goal]

    def weigh(self, goal: str = "") -> dict[str, float]:
        """What one standard deviation towards the better gives, by signal; the members' mean.

        Negative for a signal without a promise where less is better.
        """
        goal_BG = torch.tensor([self.embed(goal or self.goal or "")], dtype=torch.float64)
        one_BK = torch.ones(1, len(self.settings.directions), dtype=torch.float64)
        with torch.no_grad():
            said = estimate(self.weights, self.settings, Inputs(one_BK, one_BK, goal_BG))
        names = [direction.name for direction in self.settings.directions]
        return dict(zip(names, said.signals_EBK[:, 0].mean(0).tolist(), strict=True))

    def with_goal(self, goal: str | None) -> LearnedReward:
        """The same reward for another goal of the user."""
        if goal is not None and not isinstance(goal, str):
            raise UsageError(f"`with_goal({goal!r})`: a goal is a text, or None.")
        return replace(self, goal=goal)


def _rows(rows: Sequence[Sequence[float]], width: int) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), width)
