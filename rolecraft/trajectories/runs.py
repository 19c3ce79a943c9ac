"""Which events belong to which run of an action.

Every run of an action has a path: the third that a role started is "3", the first that runs
within that one "3.1". Its first event says so (`data["run"]`), and what happens in it stands
between that event and the one that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rolecraft.trajectories.events import Event


@dataclass(slots=True)
class ActionRun:
    """One run of an action, as recorded. `end` is None while it is under way."""

    role: str
    path: str
    start: Event
    inside: list[Event] = field(default_factory=list)
    """What happened in it, runs of other actions within it included."""
    end: Event | None = None

    @property
    def complete(self) -> bool:
        """Whether it is over. One that was cancelled is, where the run then went on."""
        return self.end is not None

    @property
    def cancelled(self) -> bool:
        return self.end is not None and bool(self.end.data.get("cancelled"))

    @property
    def waits(self) -> bool:
        """Whether it, or one within it, waits for a person's permission."""
        asked = [event for event in self.inside if event.kind == "approval"]
        return self.end is None and any(event.data.get("granted") is None for event in asked)


def starts_run(event: Event) -> bool:
    return event.kind in ("action", "tool_call") and "run" in event.data


def ends_run(event: Event) -> bool:
    """Whether the event ends the run of the action in which it happened."""
    match event.kind:
        case "action_result":
            return True
        case "tool_result" | "message":
            return "ends" in event.data
        case "error" | "limit":
            return "action" in event.data
    return False


class Placed(NamedTuple):
    """An event, and whose turn and which run of an action it belongs to ("" for none)."""

    event: Event
    role: str
    path: str


def places(events: Iterable[Event]) -> Iterator[Placed]:
    """Say of each event where it belongs.

    The events are in the order of the record: what happens in a run of an action, signals of the
    environment included, stands together.
    """
    owner, stack = "", list[str]()
    for event in events:
        if starts_run(event):
            path = str(event.data["run"])
            if event.role != owner:
                owner, stack = event.role, []
            # What was cut off has no end: whatever is not around the new run is over.
            while stack and not path.startswith(stack[-1] + "."):
                stack.pop()
            stack.append(path)
        yield Placed(event, owner if stack else event.role, stack[-1] if stack else "")
        if stack and ends_run(event):
            stack.pop()


def action_runs(placed: Iterable[Placed]) -> dict[tuple[str, str], ActionRun]:
    """The runs of actions, by role and path."""
    found: dict[tuple[str, str], ActionRun] = {}
    latest: dict[str, str] = {}
    for event, role, path in placed:
        if not path and ends_run(event):
            path = latest.get(role, "")  # the role said at once what its action returned
        if not path:
            continue
        if starts_run(event) and event.data["run"] == path:
            found[role, path] = ActionRun(role, path, event)
            if "." not in path:
                latest[role] = path
        elif (run := found.get((role, path))) is not None:
            if run.end is None and ends_run(event):
                run.end = event
            else:
                run.inside.append(event)
        while path := path.rpartition(".")[0]:
            if (around := found.get((role, path))) is not None:
                around.inside.append(event)
    return found
