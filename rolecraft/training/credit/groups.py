"""Who is compared with whom: a role's parts in episodes, or single turns, in groups with a name.

A group key is a function from a unit to the name of its group. The units of one group are compared
with each other, and with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rolecraft.environments.task import Task
from rolecraft.errors import UnknownName, UsageError


class Unit(NamedTuple):
    """What a group key sees: whose part in which task, and which turn of it."""

    task: Task
    role: str
    turn: int | None = None
    """Number of the turn among the role's own in this episode, from 0; None: all of them."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Who is compared with whom: units for which `key` gives the same."""

    name: str
    key: Callable[[Unit], Hashable] = field(repr=False)  # a function's text is another in each run
    per: Literal["attempt", "turn"] = "attempt"
    """Whether a unit is a role's whole part in an episode, or one turn of it."""

    def __post_init__(self) -> None:
        if self.per not in ("attempt", "turn"):
            raise UsageError(f"`GroupKey(per=...)` is 'attempt' or 'turn', got {self.per!r}.")


GROUPS: dict[str, GroupKey] = {
    key.name: key
    for key in (
        GroupKey("role", lambda unit: (unit.task.id, unit.role)),
        GroupKey("role_turn", lambda unit: (unit.task.id, unit.role, unit.turn), per="turn"),
        GroupKey("role_turns", lambda unit: (unit.task.id, unit.role), per="turn"),
        GroupKey("task", lambda unit: unit.task.id),
        GroupKey("role_batch", lambda unit: unit.role),
        GroupKey("batch", lambda unit: None),
    )
}
"""Group keys by name.

- `role`: a role against itself in other attempts at the same task;
- `role_turn`: the n-th turn of a role against the n-th turns of its other attempts (AT-GRPO,
  arXiv 2510.11062);
- `role_turns`: every turn of a role against all turns of its attempts at the same task, so that its
  mean and its standard deviation are its own and weigh attempts by their turns (Dr. MAS, arXiv
  2602.08847);
- `task`: all roles of all attempts at a task against each other;
- `role_batch`: a role against itself in the whole batch. What makes a task hard then counts as the
  role's doing: for tasks that are alike;
- `batch`: everybody against everybody. What one role's rewards are measured in then scales the
  others': for comparison only.
"""


def group_key(group: GroupKey | str) -> GroupKey:
    """The group key of this name, or the one that was given. Raises `UnknownName`."""
    if isinstance(group, GroupKey):
        return group
    if group not in GROUPS:
        raise UnknownName("Group key", group, GROUPS)
    return GROUPS[group]
