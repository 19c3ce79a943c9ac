"""Roles that are stuck: the same action, three turns running.

A turn is one answer of a role's model, its action the tools that the answer calls, with their
arguments. Answers that call none are no action: to say "fine" to three chapters is no circle.
"""

from __future__ import annotations

import json
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.observer import Directive

TURNS = 3


class StuckWatch:
    """An `Observer` that ends a run in which a role does the same `turns` times running.

    The end comes when the round is over: a role that goes round within one turn of its own, as
    `UseTools` may, is only noted, and `role` then says who was stuck when its steps ran out.
    """

    def __init__(self, turns: int = TURNS) -> None:
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 2:
            raise UsageError(f"`turns` is {turns!r}, expected a whole number from 2.")
        self.turns = turns
        self._last: dict[str, str] = {}
        self._running: dict[str, int] = {}
        self._said = ""
        """How the last message says that its role ended, where it does."""

    @property
    def role(self) -> str:
        """A role that did the same in each of its last turns; empty if none did."""
        return next((name for name, times in self._running.items() if times >= self.turns), "")

    @property
    def found(self) -> bool:
        """Whether a role is stuck, or has said of itself that it was."""
        return bool(self.role) or self._said == "stuck"

    @property
    def out_of_steps(self) -> bool:
        """Whether a role has said of itself that its steps ran out."""
        return self._said == "max_steps"

    def on_event(self, event: Event) -> Directive | None:
        """Look at what a role's model answered; to stop, if that is the same once more."""
        self.on_known_event(event)
        if event.kind == "model_call" and self._running.get(event.role, 0) >= self.turns:
            said = f"Role {event.role!r} did the same thing {self.turns} times running."
            return Directive("stop", said, event.role)
        return None

    def on_known_event(self, event: Event) -> None:
        """Count what happened before a run was gone on with."""
        if event.kind == "message":
            said = event.data.get("metadata")
            self._said = str(said.get("ended", "")) if isinstance(said, dict) else ""
        if event.kind != "model_call":
            return
        called = [_action(call) for call in event.data.get("tool_calls", ())]
        action = json.dumps(called, sort_keys=True, default=repr) if called else ""
        same = action and action == self._last.get(event.role)
        self._running[event.role] = self._running.get(event.role, 0) + 1 if same else bool(action)
        self._last[event.role] = action


def _action(call: dict[str, Any]) -> list[Any]:
    return [call.get("name"), call.get("arguments"), call.get("raw")]
