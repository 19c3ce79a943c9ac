"""What one LoRA adapter per role is to be: plain settings, read and checked without torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rolecraft.errors import UnknownName, UsageError

Init = Literal["kaiming", "gaussian"]
Reference = Literal["base", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """One LoRA adapter for each of `roles`, on one base that never changes.

    `alpha / rank` scales what an adapter adds. `targets` are the linear layers that get one, by
    the last part of their names; "all-linear" is all but the output layer. `rank`, `alpha`,
    `targets` and `init` are of adapters that begin anew: those in `starts` keep their own.
    Raises `UsageError` for what cannot be, `UnknownName` for a role that is not in `roles`.
    """

    roles: Sequence[str]
    """Names of the roles. Each names a folder when adapters are saved."""
    rank: int = 16
    alpha: float = 32.0
    targets: Sequence[str] | Literal["all-linear"] = "all-linear"
    dropout: float = 0.0
    """Has to be 0: with dropout the trainer's policy is another than the one that sampled, and
    the ratio of the two is not 1 where nothing has been learned yet."""
    init: Init = "kaiming"
    """Of A, as in peft; B is zero, so that a new adapter changes nothing."""
    seed: int = 0
    starts: Mapping[str, str | Path] = field(default_factory=dict)
    """Role -> folder of a peft adapter that it goes on from, such as `rolecraft sft` writes."""
    learning_rates: Mapping[str, float] = field(default_factory=dict)
    """Role -> learning rate, where it is not the algorithm's."""
    kl: Mapping[str, float] = field(default_factory=dict)
    """Role -> coefficient of the penalty for leaving the reference, where it is not the
    algorithm's; 0 is none."""
    reference: Reference | Mapping[str, Reference] = "base"
    """What a penalty keeps roles near, all or each: the base without adapters, or ("start") the
    policy that the role began with, its adapter of `starts`. A role that is not named, and one that
    begins anew, has the base."""
    frozen: Collection[str] = ()
    """Roles whose adapter is kept as it is, and whose tokens are not trained on."""

    def __post_init__(self) -> None:
        for name in ("roles", "frozen"):
            if isinstance(getattr(self, name), str):
                raise UsageError(
                    f"`AdapterSettings({name}=...)` wants a list of role names, got "
                    f"{getattr(self, name)!r}."
                )
        if not self.roles or len(set(self.roles)) < len(self.roles):
            raise UsageError(
                f"`AdapterSettings(roles=...)` wants the name of each role that gets an adapter, "
                f"once; got {list(self.roles)!r}."
            )
        for role in self.roles:
            if not role or role in (".", "..") or "/" in role or "\0" in role:
                raise UsageError(
                    f"`AdapterSettings(roles=...)`: {role!r} cannot name a folder, and a role's "
                    f"adapter is saved in one of its name."
                )
        references = {} if isinstance(self.reference, str) else self.reference
        for given in (self.starts, self.learning_rates, self.kl, self.frozen, references):
            for role in given:
                if role not in self.roles:
                    raise UnknownName("Role with an adapter", role, self.roles)
        if set(self.roles) <= set(self.frozen):
            raise UsageError("All adapters are frozen: nothing is left to train.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        if type(self.rank) is not int or self.rank < 1:
            raise UsageError(
                f"`AdapterSettings(rank=...)` wants a whole number from 1, got {self.rank!r}."
            )
        if self.dropout != 0:
            raise UsageError(
                f"`AdapterSettings(dropout={self.dropout!r})`: reinforcement learning compares the "
                f"trainer's probabilities with the sampler's, and dropout makes them differ at "
                f"random. Leave it at 0."
            )
        if self.init not in ("kaiming", "gaussian"):
            raise UsageError(
                f"`AdapterSettings(init=...)` is 'kaiming' or 'gaussian', got {self.init!r}."
            )
        if not 0 < self.alpha < math.inf:
            raise UsageError(
                f"`AdapterSettings(alpha=...)` wants a number above 0, got {self.alpha!r}."
            )
        if isinstance(self.targets, str) and self.targets != "all-linear":
            raise UsageError(
                f"`AdapterSettings(targets=...)` wants 'all-linear' or a list of names, got "
                f"{self.targets!r}."
            )
        if not self.targets:
            raise UsageError("`AdapterSettings(targets=...)` is empty: no layer gets an adapter.")
        named = self.reference
        for reference in [named] if isinstance(named, str) else named.values():
            if reference not in ("base", "start"):
                raise UsageError(
                    f"`AdapterSettings(reference=...)` is 'base' or 'start', for all roles or by "
                    f"role; got {reference!r}."
                )
        for role, rate in self.learning_rates.items():
            if not 0 < rate < math.inf:
                raise UsageError(
                    f"`AdapterSettings(learning_rates=...)` of {role!r} wants a number above 0, "
                    f"got {rate!r}. A role that is not to learn is `frozen`."
                )
        for role, coefficient in self.kl.items():
            if not 0 <= coefficient < math.inf:
                raise UsageError(
                    f"`AdapterSettings(kl=...)` of {role!r} wants a number from 0, got "
                    f"{coefficient!r}."
                )

    @property
    def trained(self) -> list[str]:
        """The roles that learn, in order."""
        return [role for role in self.roles if role not in self.frozen]

    @property
    def kept_near_start(self) -> list[str]:
        """The roles whose reference is an adapter that they began with, in order."""
        named = self.reference
        return [
            role
            for role in self.roles
            if role in self.starts
            and (named if isinstance(named, str) else named.get(role, "base")) == "start"
        ]
