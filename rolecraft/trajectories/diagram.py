"""Who told whom what, as a Mermaid sequence diagram."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rolecraft.messages import ALL, NOBODY, SELF, USER
from rolecraft.trajectories._header import declared_actions
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.in_words import one_line
from rolecraft.trajectories.nesting import STARTS

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

_SAFE = frozenset(" .,!?'()[]-_/+*=@…")
# Mermaid's own marks for escaped characters; a text that has them must not be taken for one.
_MARKS = frozenset("ﬂß")


def sequence_diagram(trajectory: Trajectory, *, width: int = 60) -> str:
    """Mermaid text of the messages of a trajectory, labels cut to `width` characters.

    Participants stand in the order in which the roles were declared (`about["roles"]`), then in
    order of appearance. A message for everyone is an arrow to each role that took it up, that is,
    did something because of it; if none did, it is a note. Mermaid draws texts of up to 50,000
    characters unless its setting `maxTextSize` is raised.
    """
    people = _People(trajectory)
    lines = []
    taken_up = _taken_up(trajectory.events)
    for event in trajectory.of("message"):
        sender = people.id_of(event.role or USER)
        text = label(event.content, width)
        receivers, unheard = _receivers(event, people, taken_up.get(event.seq, ()))
        lines += [f"    {sender}->>{people.id_of(name)}: {text}" for name in receivers]
        if unheard:
            lines.append(f"    Note over {sender}: {unheard}: {text}")
    participants = [
        f"    participant {id_} as {label(name, 40)}" for name, id_ in people.ids.items()
    ]
    return "\n".join(["sequenceDiagram", *participants, *lines]) + "\n"


def label(text: str, width: int) -> str:
    """One line of text that Mermaid's sequence diagrams show as it is, whatever it contains."""
    return "".join(map(_escaped, one_line(text, width))) or "(empty)"


def _escaped(char: str) -> str:
    if (char.isalnum() and char not in _MARKS) or char in _SAFE:
        return char
    return f"#{ord(char)};" if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


class _People:
    """The participants: their names, and the ids that stand for them in the diagram."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.ids: dict[str, str] = {}
        declared = declared_actions(trajectory.about)
        self.roles = {*declared, *trajectory.roles, USER}
        """Every address that is a name."""
        if any(event.role in ("", USER) for event in trajectory.of("message")):
            self.id_of(USER)
        for name in declared:
            self.id_of(name)

    def id_of(self, name: str) -> str:
        return self.ids.setdefault(name, f"p{len(self.ids)}")


def _taken_up(events: Iterable[Event]) -> dict[int, dict[str, None]]:
    """For each message, the roles that acted because of it, in order.

    An action counts for the message at the end of its chain of causes (action, model call, …).
    """
    message_of: dict[int, int] = {}
    roles: dict[int, dict[str, None]] = {}
    for event in events:  # a cause always comes before its effect
        if event.kind == "message":
            message_of[event.seq] = event.seq
        elif event.cause in message_of:
            message_of[event.seq] = message_of[event.cause]
            if event.kind in STARTS and event.role:
                roles.setdefault(message_of[event.cause], {})[event.role] = None
    return roles


def _receivers(event: Event, people: _People, taken_up: Iterable[str]) -> tuple[list[str], str]:
    """The names to draw arrows to, and, where somebody did not hear, what to note instead."""
    sender = event.role or USER
    names: dict[str, None] = {}
    other: list[str] = []  # no names: everyone, or the dotted path of a class
    for address in event.to:
        if address == SELF:
            names[sender] = None
        elif address in people.roles or (address not in (ALL, NOBODY) and "." not in address):
            names[address] = None
        elif address != NOBODY:
            other.append(address)
    if other:
        # Whoever goes on working after a message of its own has not told itself anything.
        names |= dict.fromkeys(name for name in taken_up if name != sender)
    if names:
        return list(names), ""
    if ALL in other:
        return [], "to everyone"
    if other:
        return [], "to " + ", ".join(label(address, 40) for address in other)
    return [], "to nobody"
