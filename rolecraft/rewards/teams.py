"""Rewards that give each role something of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rolecraft.errors import UsageError
from rolecraft.rewards.reward import Composed, Reward, added, shares_of
from rolecraft.rewards.signals import MissingSignal, Signals


@dataclass(frozen=True, slots=True)
class TeamMix(Composed):
    """`alpha` parts of what a role did itself, and 1 - `alpha` parts of what the team did.

        TeamMix(tidy, solved, alpha=0.3)
        TeamMix(tidy, solved, alpha={"coder": 0.5})     # the others: the team's alone

    `local` is asked of each role with that role's signals; its shares are named `NAME@local`. The
    team's own value is `team`.
    """

    local: Reward
    team: Reward
    alpha: float | Mapping[str, float]

    def __post_init__(self) -> None:
        alphas = self.alpha.values() if isinstance(self.alpha, Mapping) else [self.alpha]
        if not all(0 <= each <= 1 for each in alphas):
            raise UsageError(f"`TeamMix(alpha={self.alpha!r})` wants shares from 0 to 1.")

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.local, self.team)

    @property
    def label(self) -> str:
        return self.team.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        alpha = 0.0
        if role is not None:
            alpha = self.alpha.get(role, 0.0) if isinstance(self.alpha, Mapping) else self.alpha
        if role is None or not alpha:
            return shares_of(self.team, signals, role)
        team = shares_of(self.team, signals.weighted(1 - alpha), role)
        own = {}
        for name, share in self.local.shares(signals.of(role).weighted(alpha)).items():
            own[f"{name}@local"] = alpha * share
            signals.note(f"{name}@local", signals.evidence.get(name, ()))
        return added({name: (1 - alpha) * share for name, share in team.items()}, own)


@dataclass(frozen=True, slots=True)
class Counterfactual(Composed):
    """The difference that a role made: the team's reward, less what it would be without that role.

    D_i = G(z) - G(z without i) (difference rewards, Wolpert and Tumer 2001; COMA, Foerster et al.
    2018, estimates it). `without` is that other reward: a number, or the name of a signal that was
    logged with this role (see `rolecraft.training.credit` for playing it). Nothing is estimated
    here: where it was not measured, `MissingSignal` is raised. Team and other roles have `team`.
    """

    role: str
    team: Reward
    without: float | str = "counterfactual"

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.team,)

    @property
    def label(self) -> str:
        return self.team.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        team = shares_of(self.team, signals, role)
        if role != self.role:
            return team
        share = f"without:{self.role}"
        if isinstance(self.without, str):
            of_role = signals.of(self.role)
            if self.without not in of_role:
                raise MissingSignal(f"Signal of `{self.role}`", self.without, of_role)
            signals.note(share, [self.without])
            return added(team, {share: -of_role[self.without]})
        return added(team, {share: -self.without})
