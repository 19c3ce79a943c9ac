"""What a pipeline drives: four stages that somebody else fills.

    prepare ──► run ──► grade
        └─────────┴───────┴──► close

Invariant of whoever implements them: what `prepare` returned is closed by `close`, which is called
exactly once for it, whatever was raised in between; a `prepare` that raises has cleaned up after
itself. All four may be cancelled at any `await`.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from rolecraft.rollouts.endings import Ended
from rolecraft.trajectories.trajectory import Trajectory

Item = TypeVar("Item", contravariant=True)
Live = TypeVar("Live")
Result = TypeVar("Result", covariant=True)


class Stages(Protocol[Item, Live, Result]):
    """From an item to its result. One object serves all items, many at the same time.

    If it is an async context manager too, the pipeline enters it before the first item and leaves
    it after the last: the place to make what all items share.
    """

    async def prepare(self, item: Item) -> Live:
        """Make what the item needs: an environment, a sandbox."""
        ...

    async def run(self, item: Item, live: Live) -> Ended | None:
        """Let it happen; how it ended, None for `finished`."""
        ...

    async def grade(self, item: Item, live: Live) -> Result:
        """Measure what came of it. Called when `run` returned, however it ended."""
        ...

    async def close(self, item: Item, live: Live) -> None:
        """Release what `prepare` made."""
        ...


@runtime_checkable
class Records(Protocol):
    """Stages that can say what was recorded of an item, also where one of them raised."""

    def recorded(self, item: object, live: object) -> Trajectory | None:
        """The trajectory, which `close` may still add to. Called before it; must not raise."""
        ...
