"""What a reward says about a run: the value, and every share of it.

Invariant: `value` is the sum of `shares`, and `roles[name]` that of `role_shares[name]`, exactly as
Python's `sum` adds floats up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rolecraft.errors import UsageError


@dataclass(frozen=True, slots=True)
class StepShare:
    """What one step is credited with: `event` is the `seq` of the event that was measured."""

    event: int
    share: str
    value: float
    role: str = ""


@dataclass(frozen=True, slots=True)
class RewardBreakdown:
    """A reward and where it comes from.

    `value` is the team's scalar; `shares` what each part of the reward gave (they add up to
    `value`); `roles` the scalar of each role, the team's where nothing else was said.
    """

    value: float
    shares: dict[str, float] = field(default_factory=dict)
    roles: dict[str, float] = field(default_factory=dict)
    role_shares: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each part gave each role; the shares of a role add up to its value in `roles`."""
    evidence: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The signals that each share was made from, in the order in which they were read first; and
    the sources of judges' findings, where those were read."""
    ungrounded: tuple[str, ...] = ()
    """The shares in which the opinion of a judge is: no measurement says so."""
    steps: tuple[StepShare, ...] = ()
    """What is due to single steps: shaping by potentials. They are no part of `value`."""

    @property
    def grounded(self) -> bool:
        """Whether everything that paid was measured: no share is a judge's opinion."""
        return not self.ungrounded

    def to_dict(self) -> dict[str, Any]:
        """As plain data; `from_dict` reads it. What is empty is left out, but for the value."""
        data: dict[str, Any] = {"value": self.value}
        for name in ("shares", "roles", "role_shares"):
            if getattr(self, name):
                data[name] = getattr(self, name)
        if self.evidence:
            data["evidence"] = {share: list(names) for share, names in self.evidence.items()}
        if self.ungrounded:
            data["ungrounded"] = list(self.ungrounded)
        if self.steps:
            data["steps"] = [
                {"event": each.event, "share": each.share, "value": each.value, "role": each.role}
                for each in self.steps
            ]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RewardBreakdown:
        """From what `to_dict` made, by an earlier Rolecraft too. Raises `UsageError`."""
        try:
            return cls(
                float(data["value"]),
                _floats(data.get("shares", {})),
                _floats(data.get("roles", {})),
                {name: _floats(shares) for name, shares in data.get("role_shares", {}).items()},
                {share: tuple(names) for share, names in data.get("evidence", {}).items()},
                tuple(data.get("ungrounded", ())),
                tuple(StepShare(**each) for each in data.get("steps", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"This is no stored reward: {error!r} in {data!r}.") from error

    def __getstate__(self) -> list[Any]:
        return [getattr(self, each.name) for each in fields(self)]

    def __setstate__(self, state: list[Any]) -> None:
        """Also from a state that an earlier Rolecraft pickled, which had fewer fields."""
        for index, each in enumerate(fields(self)):
            factory: Any = each.default_factory
            fresh = factory() if callable(factory) else each.default
            value = state[index] if index < len(state) else fresh
            object.__setattr__(self, each.name, value)


def _floats(named: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in named.items()}
