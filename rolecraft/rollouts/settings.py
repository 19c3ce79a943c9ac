"""How a pipeline may spend a machine: one frozen object, which JSON holds without loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from rolecraft.errors import UnknownName, UsageError

Stage = Literal["prepare", "run", "grade", "close"]

Order = Literal[
    "given",  # as the items come
    "longest",  # of those that are inside, the one that is predicted to take longest
]

_WORKERS = ("prepare", "run", "grade")
_SECONDS = ("prepare_seconds", "run_seconds", "grade_seconds", "close_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What `rollouts` may use at once, and how long it waits. Times are in seconds.

    Raises `UsageError` for a value that cannot be, and names it.
    """

    live: int = 64
    """Environments that are alive at once, from the start of `prepare` to the end of `close`."""
    prepare: int | None = None
    """Items in the stage `prepare` at once; None: as many as are alive."""
    run: int | None = None
    grade: int | None = None
    prepare_seconds: float | None = 600.0
    """Longest time in a stage, without the wait for a worker; None: any."""
    run_seconds: float | None = 3600.0
    grade_seconds: float | None = 900.0
    close_seconds: float | None = 60.0
    """Longest time for closing; also how long what was cancelled may take to end."""
    attempts: int = 3
    """How often an item is tried where the environment or a model fails it."""
    backoff_seconds: float = 1.0
    """The pause before the second attempt; it doubles with each, up to a minute."""
    tool_workers: int | None = 64
    """Threads for synchronous tools and rewards, of all items together; None: any number."""
    intake: int | None = None
    """Items inside at once: read ahead, alive, or done and not taken yet; None: twice `live`."""
    order: Order = "given"
    patience: int = 64
    """An item that so many later ones have overtaken is the next, whatever its length."""

    def __post_init__(self) -> None:
        for name in ("live", "attempts", "patience"):
            _check_count(name, getattr(self, name))
        for name in (*_WORKERS, "intake", "tool_workers"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        for name in _SECONDS:
            if getattr(self, name) is not None:
                _check_seconds(name, getattr(self, name), least=0.0)
        _check_seconds("backoff_seconds", self.backoff_seconds)
        if self.order not in get_args(Order):
            raise UsageError(f"`order` is {self.order!r}, expected one of {[*get_args(Order)]}.")
        if self.intake is not None and self.intake < self.live:
            raise UsageError(
                f"`intake` is {self.intake} and `live` {self.live}: what is alive is inside, so "
                f"`intake` is {self.live} at least."
            )

    @property
    def most_inside(self) -> int:
        """How many items are inside at once at most."""
        return 2 * self.live if self.intake is None else self.intake

    def workers(self, stage: Stage) -> int | None:
        """How many items may be in a stage at once; None where `live` is what bounds it."""
        asked: int | None = None if stage == "close" else getattr(self, stage)
        return None if asked is None or asked >= self.live else asked

    def seconds(self, stage: Stage) -> float | None:
        """The longest time in a stage; None for any."""
        longest: float | None = getattr(self, f"{stage}_seconds")
        return longest

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` gave. Raises `UnknownName` for a key, `UsageError` for a value."""
        known = [each.name for each in fields(cls)]
        for name in data:
            if name not in known:
                raise UnknownName("Setting of the pipeline", str(name), known)
        return cls(**data)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"`{name}` is {value!r}, expected a whole number from 1.")


def _check_seconds(name: str, value: object, *, least: float = -1.0) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0 or value <= least:  # type: ignore[arg-type, operator]
        above = "above 0" if least == 0 else "from 0"
        raise UsageError(f"`{name}` is {value!r}, expected a finite number of seconds {above}.")
