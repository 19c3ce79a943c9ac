"""Long-term memory: what roles said and heard, found again by what it is about, across runs.

`LongTermMemory` is the interface; `rolecraft.roles.sqlite_memory` has the default. The same
memory may belong to several roles, teams and processes. Invariant: the same memories and the same
query give the same answer in the same order, and what is added twice is kept once; so a role that
runs again after a crash neither loses nor doubles anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rolecraft.messages import Message


@dataclass(frozen=True, slots=True)
class Remembered:
    """One thing that is remembered. `id` is made from the rest unless it is given."""

    content: str
    source: str = ""
    """Name of the role that said it; `user` for the person outside."""
    cause_by: str = ""
    """Address of the action that made it."""
    trajectory: str = ""
    """Id of the run in which it was said."""
    message: str = ""
    """Id of its message within the run."""
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            rest = (self.content, self.source, self.cause_by, self.trajectory, self.message)
            text = "\0".join(rest).encode("utf-8", "surrogatepass")
            object.__setattr__(self, "id", hashlib.sha256(text).hexdigest()[:32])

    @classmethod
    def of(cls, message: Message, *, trajectory: str) -> Remembered:
        """What is remembered of a message."""
        return cls(message.content, message.sent_from, message.cause_by, trajectory, message.id)

    def __str__(self) -> str:
        return f"{self.source or 'somebody'}: {self.content}"


@runtime_checkable
class LongTermMemory(Protocol):
    """Keeps memories and finds them again. No method may block the event loop.

    `rolecraft.roles.conformance` says in tests what is expected of one, yours too.
    """

    async def add(self, memories: Sequence[Remembered]) -> None:
        """Keep these, in this order; one whose `id` is known already is left as it is."""

    async def search(self, query: str, k: int = 5) -> list[Remembered]:
        """At most `k` memories that share something with `query`, the best first.

        Any text is a query. Of two that fit equally well the one added later comes first.
        """

    async def forget(
        self, ids: Iterable[str] = (), *, trajectory: str | None = None, source: str | None = None
    ) -> int:
        """Forget those with these ids, all of a trajectory, and all from a source: how many."""

    async def aclose(self) -> None:
        """Give files and connections free. Harmless when called twice."""
