"""Which command of a sandbox the kernel has killed for memory: each runs in a group of its own.

The sandbox's control group has the limit, for all commands together; a group below it has none, but
counts the kills of one command. Groups are used again, for each that is removed keeps memory of the
kernel's until the last file that its command has written to memory is gone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from rolecraft.sandboxes._cgroups import Group


@dataclass(slots=True)
class Counted:
    """The group of one command. Where none could be made it is the sandbox's, shared by all."""

    group: Group | None
    doors: list[int]
    """To be handed to the command and closed; empty to enter the sandbox's."""
    before: int
    _kills: int | None = None

    def kills(self) -> int:
        """How many processes of this command the kernel has killed for memory."""
        if self._kills is not None:
            return self._kills
        return 0 if self.group is None else self.group.oom_kills() - self.before

    def killed(self) -> bool:
        """Whether there are any."""
        return self.kills() > 0

    def ended(self) -> None:
        """From now on the group may be another command's."""
        self._kills = self.kills()

    def close(self) -> None:
        """Close the doors."""
        while self.doors:
            os.close(self.doors.pop())


@dataclass(slots=True)
class CommandGroups:
    """The groups of a sandbox's commands."""

    whole: Group | None
    """The sandbox's."""
    _free: list[Group] = field(default_factory=list)

    def take(self) -> Counted:
        """A group for one more command. Raises `OSError` if too many files are open."""
        if self.whole is None:
            return Counted(None, [], 0)
        part = self._free.pop() if self._free else self.whole.part()
        if part is None:
            return Counted(self.whole, [], self.whole.oom_kills())
        try:
            doors = self.whole.doors(part)
        except BaseException:
            self._free.append(part)
            raise
        return Counted(part, doors, part.oom_kills())

    def give_back(self, counted: Counted) -> None:
        """Its command has ended, with all that it started."""
        counted.ended()
        if counted.group is not None and counted.group is not self.whole:
            self._free.append(counted.group)
