"""What a learned reward looks at, and which way the user says is better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from rolecraft.errors import UsageError

Better = Literal[
    "higher",  # more of it never lowers the reward
    "lower",  # more of it never raises the reward
    "either",  # the user has not said: feedback decides
]


@dataclass(frozen=True, slots=True)
class Direction:
    """A signal (or a `run.…` feature of the interaction) that the reward looks at.

    `Direction("cost", "lower")` is a promise that no feedback can break: it holds for the linear
    part, for the residual and for the pessimistic value.
    """

    name: str
    better: Better = "either"

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("`Direction` needs the name of a signal.")
        if self.better not in get_args(Better):
            raise UsageError(
                f"`Direction({self.name!r}, {self.better!r})`: say 'higher', 'lower' or 'either'."
            )

    @property
    def sign(self) -> int:
        """-1 for "lower", else 1."""
        return -1 if self.better == "lower" else 1

    @property
    def promised(self) -> bool:
        return self.better != "either"


def directions(
    names: Iterable[str], *, higher: Iterable[str] = (), lower: Iterable[str] = ()
) -> tuple[Direction, ...]:
    """A direction for each of `names`, sorted, and for those that `higher` and `lower` add.

    Features of the interaction are costs unless said otherwise: "lower". Raises `UsageError` for a
    name in both.
    """
    up, down = set(higher), set(lower)
    if both := sorted(up & down):
        raise UsageError(f"`{both[0]}` cannot be better both higher and lower. Name it once.")
    costs = {name for name in names if name.startswith("run.")} - up
    return tuple(
        Direction(name, "higher" if name in up else "lower" if name in down | costs else "either")
        for name in sorted({*names, *up, *down})
    )
