"""The cursor: a role's action list and its place in it, as one object.

`rc.state`, `rc.todo` and `states` are views of it and cannot disagree. Invariant: replacing the
list is atomic at any moment. An action that already runs is not touched; whatever starts next
comes from the new list, and begins at its first action unless the user placed the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.actions import Action
from rolecraft.errors import StateOutOfRange


class Cursor:
    """`place` is the index of the current action, -1 for none."""

    __slots__ = ("_detour", "_started", "actions", "in_order", "owner", "place")

    def __init__(self) -> None:
        self.owner = ""
        """Name of the role, for error texts."""
        self.actions: tuple[Action, ...] = ()
        self.place = -1
        self.in_order = False
        """A list that was swapped in during a run is worked off in order, whatever the mode."""
        self._detour: Action | None = None
        self._started = False

    @property
    def todo(self) -> Action | None:
        """The current action; one that is not in the list while a detour is set."""
        if self._detour is not None:
            return self._detour
        return self.actions[self.place] if self.place >= 0 else None

    @todo.setter
    def todo(self, action: Action | None) -> None:
        if action is None:
            self.rest()
            return
        for index, listed in enumerate(self.actions):
            if listed is action:
                self.move(index)
                return
        self._detour, self._started = action, False

    @property
    def pending(self) -> bool:
        """True while the current action has not started yet."""
        return self.todo is not None and not self._started

    def move(self, place: int) -> None:
        """Make `actions[place]` the current action; -1 for none."""
        if not -1 <= place < len(self.actions):
            raise StateOutOfRange(
                f"State {place!r} of role {self.owner!r} does not exist: it has "
                f"{len(self.actions)} actions, so the state goes from -1 (nothing to do) to "
                f"{len(self.actions) - 1}."
            )
        self.place = place
        self._detour, self._started = None, False

    def rest(self) -> None:
        """Nothing to do."""
        self.place = -1
        self._detour, self._started = None, False

    def step(self) -> bool:
        """Move to the next action of the list; rest and return False behind the last."""
        if self.place + 1 < len(self.actions):
            self.move(self.place + 1)
            return True
        self.rest()
        return False

    def start(self, action: Action) -> None:
        """The action starts to run."""
        if action is self.todo:
            self._started = True

    def replace(self, actions: Sequence[Action], *, in_order: bool) -> None:
        self.actions = tuple(actions)
        self.in_order = in_order
        self.rest()

    def append(self, actions: Sequence[Action]) -> None:
        """Add to the end; the place in the list stays."""
        self.actions = (*self.actions, *actions)
