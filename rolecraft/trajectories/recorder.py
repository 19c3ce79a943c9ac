"""Recording: where events get their sequence numbers.

Invariant: events are numbered in the order in which they are committed, and the order of commits
depends on the program alone, never on scheduling. A role that acts alone writes straight to the
`Recorder`; roles that act at the same time each write to a `Turn`, and the environment commits
the turns in the order in which the roles were declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rolecraft.errors import UsageError
from rolecraft.messages import MESSAGE_TO_ALL, Message
from rolecraft.trajectories.events import SCHEMA_VERSION, Event

_TO_ALL = tuple(MESSAGE_TO_ALL)


class Sink(Protocol):
    """Takes committed events: a journal, a store, a list."""

    def write(self, events: Sequence[Event]) -> None: ...


class Log(Protocol):
    """Where a role writes. `add` returns a handle that later events can name as their `cause`."""

    time: int

    def add(self, event: Event) -> int: ...
    def add_message(self, message: Message, cause: int | None) -> int: ...


def header(trajectory: str, /, **about: Any) -> dict[str, Any]:
    """The first line of a journal: `about` holds what is known before the run (task, roles, …)."""
    if taken := about.keys() & {"schema_version", "trajectory"}:
        raise UsageError(f"`about` cannot hold {sorted(taken)}: the header has these already.")
    return {"schema_version": SCHEMA_VERSION, "trajectory": trajectory, **about}


class Recorder:
    """Numbers events and hands them to its sinks. Keeps nothing in memory itself."""

    def __init__(self, *sinks: Sink, first: int = 0) -> None:
        self.sinks = sinks
        self.time = 0
        self.next = first
        """Sequence number of the next event; also the number of events so far."""

    def add(self, event: Event) -> int:
        """Number and write an event. Raises `UsageError` for a turn's handle as its cause."""
        if event.cause is not None and event.cause < 0:
            raise _unknown_cause(event)
        event.seq = self.next
        event.time = self.time
        self.next += 1
        for sink in self.sinks:
            sink.write((event,))
        return event.seq

    def add_message(self, message: Message, cause: int | None = None) -> int:
        message.event = self.add(_message_event(message, cause))
        return message.event

    def turn(self) -> Turn:
        return Turn(self)


class Turn:
    """Events of one role in one round, held back until the environment commits them.

    Handles are negative until the commit, which turns them into sequence numbers: -1 is the
    turn's first event, -2 its second.
    """

    __slots__ = ("_events", "_messages", "_recorder", "time")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._events: list[Event] = []
        self._messages: list[Message] = []
        self.time = recorder.time

    def add(self, event: Event) -> int:
        """Keep an event for the commit; until then its `seq` is the handle."""
        if event.cause is not None and event.cause < -len(self._events):
            raise _unknown_cause(event)
        self._events.append(event)
        event.seq = -len(self._events)
        return event.seq

    def add_message(self, message: Message, cause: int | None = None) -> int:
        message.event = self.add(_message_event(message, cause))
        self._messages.append(message)
        return message.event

    def commit(self) -> None:
        """Number the events, and with them the causes and messages that name their handles."""
        recorder = self._recorder
        first = recorder.next - 1  # handle -1 becomes `recorder.next`
        for event in self._events:
            if event.cause is not None and event.cause < 0:
                event.cause = first - event.cause
            event.seq = recorder.next
            event.time = self.time
            recorder.next += 1
        for message in self._messages:
            if message.event is not None and message.event < 0:
                message.event = first - message.event
        for sink in recorder.sinks:
            sink.write(self._events)
        self._events, self._messages = [], []


def _unknown_cause(event: Event) -> UsageError:
    return UsageError(
        f"The cause of this {event.kind} event of role {event.role!r} is {event.cause}, which is "
        f"no event so far: a handle of another turn, or of a later event. A handle is good within "
        f"its turn; afterwards an event's `seq` and a message's `event` have the number."
    )


def _message_event(message: Message, cause: int | None) -> Event:
    data: dict[str, Any] = {"id": message.id, "cause_by": message.cause_by}
    if message.role not in ("user", message.sent_from):
        data["as"] = message.role
    if message.instruct_content is not None:
        data["instruct_content"] = message.instruct_content.model_dump(mode="json")
    if message.metadata:
        data["metadata"] = message.metadata
    return Event(
        "message",
        role=message.sent_from,
        content=message.content,
        to=_TO_ALL if message.send_to is MESSAGE_TO_ALL else tuple(sorted(message.send_to)),
        data=data,
        cause=cause,
    )
