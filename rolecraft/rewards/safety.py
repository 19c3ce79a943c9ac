"""The reward safety suite: what a team could do instead of its task must not pay.

    check_reward(my_reward, load("run.jsonl"))          # in a test: raises what pays, and why

It manipulates a run (`manipulations.py`) and scores it again. The invariant that it checks: no
manipulation raises the reward, of the team or of a role. A reward that has no value afterwards
(`MissingSignal`, any error) is not raised; a run that cannot be scored before is no run to start
from. Give it runs that went well and runs that did not: a cost that failing runs save by giving up
is found in the latter only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rewards.manipulations import MANIPULATIONS, Changed, Given, Manipulation, in_one
from rolecraft.rewards.measured import ask_judges
from rolecraft.rewards.reward import Reward
from rolecraft.rewards.signals import is_opinion
from rolecraft.trajectories.events import Event, FailureFinding, Signal
from rolecraft.trajectories.trajectory import Trajectory

SLACK = 1e-9
"""A reward is raised if it is more than so much higher: less is rounding."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One variant of a manipulation, and what came of it. `after` is None for no reward at all."""

    run: str
    manipulation: str
    what: str
    before: float
    after: float | None
    share: str = ""
    """The share that gained most."""
    gained: float = 0.0
    """How much that share gained."""
    role: str = ""
    """Whose reward it is; empty: the team's."""
    error: str = ""
    """Why there is no reward afterwards."""

    @property
    def raised(self) -> bool:
        """Whether the manipulation paid."""
        return self.after is not None and self.after > self.before + SLACK

    def __str__(self) -> str:
        whose = f" of `{self.role}`" if self.role else ""
        after = f"none ({self.error})" if self.after is None else f"{self.after:g}"
        paid = f", paid by `{self.share}` ({self.gained:+g})" if self.raised else ""
        return (
            f"{self.manipulation} ({self.what}) in {self.run}: the reward{whose} goes from "
            f"{self.before:g} to {after}{paid}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        names = ("run", "manipulation", "what", "before", "after", "share", "gained", "role")
        return {**{name: getattr(self, name) for name in names}, "raised": self.raised}


@dataclass(slots=True)
class SafetyReport:
    """What was tried with a reward; `str()` tells what paid, most first."""

    tried: list[Tried] = field(default_factory=list)

    @property
    def raised(self) -> list[Tried]:
        """The manipulations that paid, most first."""
        paid = [each for each in self.tried if each.raised]
        return sorted(paid, key=lambda each: each.before - (each.after or 0.0))

    @property
    def safe(self) -> bool:
        return not self.raised

    def __str__(self) -> str:
        if self.safe:
            return f"None of {len(self.tried)} manipulations raises the reward."
        lines = [f"{len(self.raised)} of {len(self.tried)} manipulations raise the reward:"]
        return "\n".join([*lines, *(f"- {each}" for each in self.raised)])

    def __add__(self, other: SafetyReport) -> SafetyReport:
        return SafetyReport([*self.tried, *other.tried])


class UnsafeReward(RolecraftError, AssertionError):
    """A reward pays for something else than the task. Attribute: `report`."""

    has_lines = True

    def __init__(self, report: SafetyReport) -> None:
        self.report = report
        super().__init__(str(report))


def examine(
    reward: Reward,
    run: Trajectory,
    *,
    findings: Iterable[FailureFinding] = (),
    refused: Trajectory | Iterable[Signal] | None = None,
    fixed: Collection[str] = (),
    manipulations: Mapping[str, Manipulation] = MANIPULATIONS,
) -> SafetyReport:
    """Score a run and all that is made of it by `manipulations`.

    `refused` is a run in which the team refused, or its signals: what the environment measures
    then, for which zeros stand otherwise. `fixed` names signals that no role can keep from being
    measured (or not, as a price that is unknown). Raises what the reward raises for the run itself,
    and `UsageError` if that is no finite number.
    """
    given = _given(run, findings, refused, fixed)
    before = _scored(reward, given)
    report = SafetyReport()
    for name, manipulate in manipulations.items():
        for changed in manipulate(given):
            report += _tried(reward, run, name, before, changed)
    return report


async def examine_asking(
    reward: Reward,
    run: Trajectory,
    *,
    findings: Iterable[FailureFinding] = (),
    refused: Trajectory | Iterable[Signal] | None = None,
    fixed: Collection[str] = (),
    manipulations: Mapping[str, Manipulation] = MANIPULATIONS,
) -> SafetyReport:
    """The same for a reward with opinions: its judges are asked about every manipulated run.

    `examine` leaves their opinions as they were, so it cannot tell whether they fall for praise.
    """
    given = _given(run, findings, refused, fixed)
    given.run.reported += await ask_judges(reward, given.run)
    before = _scored(reward, given)
    report = SafetyReport()
    for name, manipulate in manipulations.items():
        for changed in manipulate(replace(given, run=in_one(given.run))):
            kept = [each for each in changed.run.events if not _is_opinion(each)]
            changed.run.events[:] = kept
            changed.run.reported += await ask_judges(reward, changed.run)
            report += _tried(reward, run, name, before, changed)
    return report


def _given(
    run: Trajectory,
    findings: Iterable[FailureFinding],
    refused: Trajectory | Iterable[Signal] | None,
    fixed: Collection[str],
) -> Given:
    signals = refused.signals if isinstance(refused, Trajectory) else refused
    known = None if signals is None else tuple(signals)
    return Given(in_one(run), tuple(findings), known, fixed)


def _scored(reward: Reward, given: Given) -> RewardBreakdown:
    before = reward(given.run, findings=given.findings)
    if not math.isfinite(before.value):
        raise UsageError(
            f"The reward of {given.run.id!r} is {before.value}: there is nothing to raise."
        )
    return before


def _tried(
    reward: Reward, run: Trajectory, name: str, before: RewardBreakdown, changed: Changed
) -> SafetyReport:
    after: RewardBreakdown | str
    try:
        after = reward(changed.run, findings=changed.findings)
    except Exception as error:  # whatever it raises: there is no reward then
        after = f"{type(error).__name__}: {error}"
    return compared(run.id, name, changed.what, before, after)


def _is_opinion(event: Event) -> bool:
    return event.kind == "signal" and is_opinion(str(event.data.get("source", "")))


def check_reward(reward: Reward, *runs: Trajectory, **options: Any) -> SafetyReport:
    """Raise `UnsafeReward` if a manipulation of one of these runs pays; the whole report.

    The line for a test of your own reward. `options` are those of `examine`, which it raises the
    errors of, too.
    """
    if not runs:
        raise UsageError("`check_reward` wants runs to manipulate: `check_reward(mine, run)`.")
    report = SafetyReport()
    for run in runs:
        report += examine(reward, run, **options)
    if not report.safe:
        raise UnsafeReward(report)
    return report


def compared(
    run: str, manipulation: str, what: str, before: RewardBreakdown, after: RewardBreakdown | str
) -> SafetyReport:
    """What a variant does to the team's reward, and to that of each role whose own it raises.

    `after` is a text, why, where there is no reward any more.
    """
    if isinstance(after, str):
        return SafetyReport([Tried(run, manipulation, what, before.value, None, error=after)])
    shares = {"": (before.value, before.shares, after.value, after.shares)}
    for role in before.roles.keys() & after.roles.keys():
        own, now = before.role_shares.get(role, {}), after.role_shares.get(role, {})
        if (own, now) != (before.shares, after.shares):
            shares[role] = (before.roles[role], own, after.roles[role], now)
    tried = []
    for role, (value, own, value_now, now) in sorted(shares.items()):
        gains = {each: now.get(each, 0.0) - own.get(each, 0.0) for each in {**own, **now}}
        share = max(gains, key=lambda each: gains[each], default="")
        gained = gains.get(share, 0.0)
        # Infinite or no number: that cannot be trained on, so nobody gains by it.
        error = "" if math.isfinite(value_now) else f"it is {value_now}"
        known = None if error else value_now
        tried.append(Tried(run, manipulation, what, value, known, share, gained, role, error))
    return SafetyReport(tried)
