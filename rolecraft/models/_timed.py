"""How a budget keeps time: what passes while runs, turns and calls are under way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rolecraft.models.limits import When

if TYPE_CHECKING:
    from rolecraft.models._crossed import Crossed
    from rolecraft.models.budget import Budget
    from rolecraft.models.limits import Limits, Note


class Timed:
    """The part of a `Budget` that keeps time. `clock` gives seconds."""

    limits: Limits
    _chain: tuple[Budget, ...]

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._passed = 0.0
        self._since = 0.0
        self._users = 0
        """How many runs, turns and calls make the time pass now."""

    def running(self) -> AbstractContextManager[None]:
        """While it is open, time passes here and further out, however often it is opened."""
        return _Passing(self._chain)

    @property
    def seconds(self) -> float:
        """The time that has passed in this process."""
        return self._passed + (self.clock() - self._since if self._users else 0.0)

    @property
    def seconds_left(self) -> float | None:
        """Until the first limit here or further out is crossed; None without one."""
        left = [
            max(budget.limits.seconds - budget.seconds, 0.0)
            for budget in self._chain
            if budget.limits.seconds is not None
        ]
        return min(left, default=None)

    async def check_time(self, doing: str, *, role: str = "", note: Note | None = None) -> None:
        """Before anything that takes time. At a crossing `on_limit` decides, as in `hold`."""
        while (late := self._out_of_time(role, doing)) is not None:
            await late.settle(note)

    def _out_of_time(self, role: str, doing: str, *, when: When = "before") -> Crossed | None:
        for budget in self._chain:
            allowed = budget.limits.seconds
            if allowed is not None and (passed := budget.seconds) >= allowed:
                return budget._crossed("seconds", passed, doing, role, when=when)
        return None


class _Passing:
    """Time passes in these budgets. A class, because `contextmanager` takes three times as long."""

    __slots__ = ("_budgets",)

    def __init__(self, budgets: tuple[Budget, ...]) -> None:
        self._budgets = budgets

    def __enter__(self) -> None:
        for budget in self._budgets:
            if not budget._users:
                budget._since = budget.clock()
            budget._users += 1

    def __exit__(self, *error: object) -> None:
        for budget in self._budgets:
            budget._users -= 1
            if not budget._users:
                budget._passed += budget.clock() - budget._since
