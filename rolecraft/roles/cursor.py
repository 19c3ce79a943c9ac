"""The cursor: a role's action list and its place in it, as one object.

`rc.state`, `rc.todo` and `states` are views of it and cannot disagree. Invariant: replacing the
list is atomic at any moment. An action that already runs is not touched; whatever starts next
comes from the new list, and begins at its first action unless the user placed the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolecraft.actions import Action
from rolecraft.errors import StateOutOfRange


class ActionList(tuple[Action, ...]):
    """A role's actions. They are replaced, never changed, and whoever tries is told how."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would take it that every attribute exists

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if hasattr(list, name):
                text += ": a role's list is changed with `add_actions(...)` or `set_actions([...])`"
            raise AttributeError(text)


_EMPTY = ActionList()
"""One object, as `()` is: a list that was empty and stays so is not another one."""


@dataclass(slots=True, eq=False)
class Cursor:
    role: str
    """The role's name, for error texts."""
    actions: ActionList = _EMPTY
    place: int = -1
    """Index of the current action, -1 for none."""
    pending: bool = False
    """True while the current action is placed and not yet taken."""
    in_order: bool = False
    """A list that was swapped in during a run is worked off in order, whatever the mode."""
    _next: int = 0
    """Where `step` goes: behind the action of the list that was taken last."""
    _detour: Action | None = None

    @property
    def todo(self) -> Action | None:
        """The current action; one that is not in the list while a detour is set."""
        if self._detour is not None:
            return self._detour
        return self.actions[self.place] if self.place >= 0 else None

    @todo.setter
    def todo(self, action: Action | None) -> None:
        self.rest()
        for index, listed in enumerate(self.actions):
            if listed is action:
                self.move(index)
                return
        self._detour, self.pending = action, action is not None

    def move(self, place: int) -> None:
        """Make `actions[place]` the current action; -1 for none, and then the first."""
        if not -1 <= place < len(self.actions):
            raise StateOutOfRange(
                f"State {place!r} of role {self.role!r} does not exist: it has "
                f"{len(self.actions)} actions, so the state goes from -1 (nothing to do) to "
                f"{len(self.actions) - 1}."
            )
        self._detour = None
        self.place, self.pending = place, place >= 0
        if place < 0:
            self._next = 0

    def rest(self) -> None:
        """Nothing to do now; `step` goes on where it was."""
        self._detour = None
        self.place, self.pending = -1, False

    def step(self) -> bool:
        """Move to the next action of the list; rest and return False behind the last."""
        if self._next < len(self.actions):
            self.move(self._next)
            return True
        self.rest()
        return False

    def take(self) -> None:
        """Somebody is about to run the current action: it will not be handed out again."""
        self.pending = False
        if self.place >= 0 and self._detour is None:
            self._next = self.place + 1

    def start(self, action: Action) -> int:
        """An action starts to run; its index, -1 if it is not the current one of the list."""
        if action is not self.todo:
            return -1
        self.take()
        return self.place

    def replace(self, actions: Sequence[Action], *, in_order: bool) -> None:
        self.actions = ActionList(actions) if actions else _EMPTY
        self.in_order = in_order
        self.move(-1)

    def append(self, actions: Sequence[Action]) -> None:
        """Add to the end; the place in the list stays."""
        self.actions = ActionList((*self.actions, *actions))
