"""How much memory the commands of each sandbox use, where no cgroup keeps count.

Standard library only: the keeper imports this, too.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

TICK = 0.02
"""Seconds between two looks, or more: no more than a tenth of the time is spent on it."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(slots=True)
class MemoryWatch:
    """Looks at the resident memory of the commands that have been added."""

    watched: dict[int, tuple[int | None, int, int]] = field(default_factory=dict)
    next: float | None = None
    """When to look again, by the monotonic clock."""

    def add(self, number: int, box: int | None, pid: int, most: int) -> None:
        """Watch a command, all of whose processes come from `pid`, with those of the same `box`."""
        self.watched[number] = (box, pid, most)
        if self.next is None:
            self.next = time.monotonic() + TICK

    def forget(self, number: int) -> None:
        if self.watched.pop(number, None) is not None and not self.watched:
            self.next = None

    def over(self, now: float) -> list[int]:
        """The commands that, with those of the same box, use more than they may."""
        if self.next is None or now < self.next:
            return []
        alone = {number: resident_bytes(pid) for number, (_, pid, _) in self.watched.items()}
        together: dict[int | None, int] = {}
        for number, (box, _, _) in self.watched.items():
            together[box] = together.get(box, 0) + alone[number]
        after = time.monotonic()
        self.next = after + max(TICK, 10 * (after - now))
        return [
            number
            for number, (box, _, most) in self.watched.items()
            if (alone[number] if box is None else together[box]) > most
        ]


def resident_bytes(pid: int) -> int:
    """Memory that a process and its descendants have to themselves; 0 where there is no /proc.

    Pages shared with files are not counted; pages that a fork shares count once for each.
    """
    total, pids = 0, [pid]
    while pids:
        folder = f"/proc/{pids.pop()}"
        try:
            with open(f"{folder}/statm") as file:
                resident, shared = file.read().split()[1:3]
            for task in os.listdir(f"{folder}/task"):
                with open(f"{folder}/task/{task}/children") as file:
                    pids += map(int, file.read().split())
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        total += (int(resident) - int(shared)) * PAGE
    return total
