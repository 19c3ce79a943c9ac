"""A role as the state machine that it was: its actions are the states.

Read from the record alone. A state is an action by its name, or a tool of the role's. What an
action does within itself (another action, a call that it notes down) is no state, except that it
lets the model call tools, from the last of which it comes back to the action. Each time the
role takes something up it comes from the start, and when it has nothing more to do it goes to the
end. A role whose record shows no actions (another tool's log) has what it did as its states:
`says to Bob`, `thinks`, `runs shell`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UnknownName
from rolecraft.messages import ALL, NOBODY, SELF, USER
from rolecraft.trajectories._header import action_names, declared_actions
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.in_words import one_line, printable
from rolecraft.trajectories.nesting import STARTS, may_end, outermost, shows_runs

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

_MERMAIDS = frozenset('"#$&:;<>\\`{|}~%')
_TO_FULL_WIDTH = 0xFF01 - ord("!")


@dataclass(frozen=True, slots=True)
class State:
    """A state: how often it was entered (0: declared and never run), how often it failed there."""

    name: str
    entered: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Transition:
    """From one state to another; None is the start as a source, the end as a target.

    `swaps` are the action lists that took the place of the old one on the way, each by its names.
    """

    source: str | None
    target: str | None
    count: int
    swaps: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StateMachine:
    """What a role did: the states in the order in which it entered them, and the ways between."""

    role: str
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]

    def mermaid(self, *, width: int = 60) -> str:
        """As a Mermaid state diagram; names are cut to `width` characters."""
        return "\n".join(["stateDiagram-v2", *self._lines("s", width)]) + "\n"

    def _lines(self, prefix: str, width: int) -> list[str]:
        """States and ways; ids of states begin with `prefix`."""
        ids: dict[str | None, str] = {None: "[*]"}
        lines = []
        for number, state in enumerate(self.states):
            ids[state.name] = f"{prefix}{number}"
            name = _label(state.name, width)
            lines.append(f'    state "{name} ({count_in_words(state)})" as {prefix}{number}')
        for way in self.transitions:
            note = f", {_label(swaps_in_words(way.swaps), width)}" if way.swaps else ""
            lines.append(f"    {ids[way.source]} --> {ids[way.target]} : {way.count}{note}")
        return lines


def _label(text: str, width: int) -> str:
    """One line of text that Mermaid's state diagrams read as nothing but text.

    Unlike its sequence diagrams they know no escapes, so a character that could mean something to
    them is shown in its full-width form.
    """
    return re.sub(r": (?=.)|.", _harmless, printable(one_line(text, width))) or "(empty)"


def _harmless(found: re.Match[str]) -> str:
    text = found[0]
    return chr(ord(text) + _TO_FULL_WIDTH) if text in _MERMAIDS else text


def count_in_words(state: State) -> str:
    """`3`, or `3, 1 failed`."""
    return f"{state.entered}, {state.failed} failed" if state.failed else f"{state.entered}"


def swaps_in_words(swaps: Sequence[tuple[str, ...]]) -> str:
    """`new list: 8 WriteChapter`, or how many lists if they were different ones."""
    if len(set(swaps)) > 1:
        return f"{len(swaps)} new lists"
    names = [f"{n} {name}" if n > 1 else name for name, n in Counter(swaps[0]).items()]
    times = f"new list {len(swaps)} times" if len(swaps) > 1 else "new list"
    return f"{times}: {', '.join(names) or 'empty'}"


def state_diagram(trajectory: Trajectory, role: str, *, width: int = 60) -> str:
    """A role's states and transitions as Mermaid text. Raises `UnknownName`.

    `Draft (3, 1 failed)` was entered three times and failed once. An arrow says how often it was
    taken, and which action list took the place of the old one on the way.
    """
    machines = state_machines(trajectory)
    if role not in machines:
        raise UnknownName("Role", role, machines)
    return machines[role].mermaid(width=width)


def state_diagrams(machines: Iterable[StateMachine], *, width: int = 60) -> str:
    """Several roles as one Mermaid diagram, in which each role is a state around its own."""
    lines = ["stateDiagram-v2"]
    for number, machine in enumerate(machines):
        lines.append(f'    state "{_label(machine.role, width)}" as r{number} {{')
        lines += [f"    {line}" for line in machine._lines(f"r{number}s", width)]
        lines.append("    }")
    return "\n".join(lines) + "\n"


def state_machines(trajectory: Trajectory) -> dict[str, StateMachine]:
    """The machine of every role that was declared or did something, by its name."""
    within = outermost(trajectory)
    runs_shown = shows_runs(trajectory)
    events: dict[str, list[Event]] = {}
    by_seq = {event.seq: event for event in trajectory.events}
    declared = declared_actions(trajectory.about)
    for name in declared:
        events[name] = []
    for event in trajectory.events:
        if event.role not in ("", USER):
            events.setdefault(event.role, []).append(event)
    machines = {}
    for role, done in events.items():
        track = _Track(role, declared.get(role, ()))
        if any(event.kind in STARTS for event in done):
            _follow_actions(track, done, within, by_seq, runs_shown=runs_shown)
        else:
            _follow_deeds(track, done)
        machines[role] = track.machine()
    return machines


def _follow_actions(
    track: _Track,
    events: Sequence[Event],
    within: Mapping[int, int | None],
    by_seq: Mapping[int, Event],
    *,
    runs_shown: bool,
) -> None:
    states = {e.seq: e for e in events if e.kind in STARTS and _is_state(e, within)}
    ended = {event.cause for event in events if may_end(event)}
    last: Event | None = None
    for event in events:
        if event.kind == "action_swap":
            track.swap(action_names(event.data.get("actions")))
        elif event.seq in states:
            if within[event.seq] is None:
                if last is None or event.time != last.time or _takes_up(event, by_seq):
                    track.end()
                last = event
            track.enter(_state_of(event))
        elif may_end(event) and event.cause in states:
            if _failed(event):
                track.fail(_state_of(states[event.cause]))
            if last is not None and event.cause == last.seq:
                track.back_to(_state_of(last))  # its last tool has given it a result
    if last is not None and (last.seq in ended or not runs_shown):  # else cut off while it ran
        track.end(finally_=True)


def _follow_deeds(track: _Track, events: Sequence[Event]) -> None:
    for event in events:
        if event.kind == "action_swap":
            track.swap(action_names(event.data.get("actions")))
        elif deed := _deed(event):
            track.enter(deed)
            if event.kind == "tool_result" and _failed(event):
                track.fail(deed)
    track.end(finally_=True)


class _Track:
    """Follows one role from state to state."""

    def __init__(self, role: str, declared: Sequence[str]) -> None:
        self._role = role
        self._declared = dict.fromkeys(declared)
        self._entered: dict[str, int] = {}
        self._failed: Counter[str] = Counter()
        self._ways: dict[tuple[str | None, str | None], list[Any]] = {}
        self._at: str | None = None
        self._swaps: list[tuple[str, ...]] = []

    def enter(self, state: str) -> None:
        self._go(state)
        self._entered[state] = self._entered.get(state, 0) + 1

    def end(self, *, finally_: bool = False) -> None:
        if self._at is not None:
            later = [] if finally_ else self._swaps  # a swap counts for what comes next
            self._swaps = self._swaps if finally_ else []
            self._go(None)
            self._swaps = later

    def back_to(self, state: str) -> None:
        if self._at not in (None, state):
            self._go(state)

    def fail(self, state: str) -> None:
        self._failed[state] += 1

    def swap(self, names: tuple[str, ...]) -> None:
        self._swaps.append(names)
        self._declared |= dict.fromkeys(names)

    def _go(self, state: str | None) -> None:
        way = self._ways.setdefault((self._at, state), [0, []])
        way[0] += 1
        way[1] += self._swaps
        self._swaps = []
        self._at = state

    def machine(self) -> StateMachine:
        never = dict.fromkeys((name for name in self._declared if name not in self._entered), 0)
        states = (self._entered | never).items()
        return StateMachine(
            self._role,
            tuple(State(name, count, self._failed[name]) for name, count in states),
            tuple(Transition(*ends, n, tuple(swaps)) for ends, (n, swaps) in self._ways.items()),
        )


def _is_state(event: Event, within: Mapping[int, int | None]) -> bool:
    """Whether a start is outermost, or that of a tool which the model called in an action."""
    return within[event.seq] is None or (event.kind == "tool_call" and "run" in event.data)


def _takes_up(event: Event, by_seq: Mapping[int, Event]) -> bool:
    """Whether an action is the first thing that was done about somebody else's message."""
    cause = by_seq.get(event.cause) if event.cause is not None else None
    return cause is not None and cause.kind == "message" and cause.role != event.role


def _state_of(event: Event) -> str:
    name = event.data.get("action" if event.kind == "action" else "tool")
    return str(name) if name else event.kind.replace("_", " ")


def _deed(event: Event) -> str:
    """What an event of a role without actions shows it doing; nothing for the rest."""
    match event.kind:
        case "message":
            names = [to for to in event.to if to not in (ALL, NOBODY, SELF)]
            return f"says to {', '.join(names)}" if names else "says"
        case "thought":
            return "thinks"
        case "tool_result":
            return f"runs {event.data.get('tool') or 'a tool'}"
        case "verify":
            return "verifies"
        case _:
            return ""


def _failed(event: Event) -> bool:
    if event.kind in ("error", "limit"):
        return True
    return event.kind != "message" and event.data.get("ok", True) is False
