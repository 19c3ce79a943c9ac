"""Recording: where events get their sequence numbers.

Invariant: events are numbered in the order in which they are committed, and the order of commits
depends on the program alone, never on scheduling. A role writes to a `Turn`: one that acts alone
straight on, those that act at the same time when the environment commits their turns, in the
order in which the roles were declared. What is asked at the same time within a turn gets a place
in it beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rolecraft.errors import Diverged, NotRestorable, UsageError
from rolecraft.messages import MESSAGE_TO_ALL, Message
from rolecraft.trajectories.codec import encode_event
from rolecraft.trajectories.events import SCHEMA_VERSION, Event
from rolecraft.trajectories.observer import Remembers
from rolecraft.trajectories.values import dump_model, type_address

if TYPE_CHECKING:
    from rolecraft.trajectories.observer import Directive, Observer

_TO_ALL = tuple(MESSAGE_TO_ALL)


class Sink(Protocol):
    """Takes committed events: a journal, a store, a list."""

    def write(self, events: Sequence[Event]) -> None: ...


class Log(Protocol):
    """Where a role writes. `add` returns a handle that later events can name as their `cause`."""

    time: int

    def add(self, event: Event) -> int: ...

    def add_message(self, message: Message, cause: int | None, /, **data: Any) -> int:
        """Record a message; `data` is added to that of its event."""

    def place(self, run: str = ...) -> Turn:
        """Reserve a place for what is about to happen, in the action run `run`."""


class Backlog(Protocol):
    """Keeps events that are not committed yet, so that a killed process does not lose them."""

    def keep(self, event: Event, at: tuple[int, ...], *, role: str, run: str) -> None:
        """`at` is the event's place in its role's turn; places sort in the order of the record."""


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
        self.observers: tuple[Observer, ...] = ()
        """Told of every event when it happens, which may be before it is committed."""
        self.directives: list[tuple[Event, Directive]] = []
        """What observers want done, and at which event; see `rolecraft.environments.obeying`."""
        self.backlog: Backlog | None = None
        self.expects: Callable[[str, Event, int], None] | None = None
        """Raises if a role's turn that was cut off has said otherwise; see `PastRun.expects`."""
        self._known: Sequence[Event] = ()
        self._in_sinks = False
        self._diverged: Diverged | None = None

    def follow(self, known: Sequence[Event], *, in_sinks: bool) -> None:
        """Expect these events again, from number 0 on; any other raises `Diverged`.

        `in_sinks` says that the sinks have them already and get only what comes after them.
        """
        self._known, self._in_sinks = known, in_sinks

    @property
    def following(self) -> bool:
        """True while the events to come are known ones."""
        return self.next < len(self._known)

    @property
    def coming(self) -> Event | None:
        """The known event that comes next; None where there is none."""
        return self._known[self.next] if self.following else None

    @property
    def repeats(self) -> bool:
        """True while a replay or a fork says again what another run has said."""
        return self.following and not self._in_sinks

    @property
    def beyond(self) -> bool:
        """True once there is an event that was not known."""
        return self.next > len(self._known)

    def add(self, event: Event) -> int:
        """Number and write an event. Raises `UsageError` for a turn's handle as its cause."""
        if event.cause is not None and event.cause < 0:
            raise _unknown_cause(event)
        event.time = self.time
        if self.observers:
            self.happened(event)
        self.commit((event,))
        return event.seq

    def add_message(self, message: Message, cause: int | None = None, /, **data: Any) -> int:
        message.event = self.add(_message_event(message, cause, data))
        return message.event

    def turn(self, role: str = "", *, held: bool = True) -> Turn:
        """A turn of `role`; `held` keeps its events back until its commit."""
        return Turn(self, role, held=held)

    def place(self, run: str = "") -> Turn:
        """A place outside of any turn."""
        place = Turn(self, held=False)
        place.run = run
        return place

    def happened(self, event: Event) -> None:
        """Tell the observers; of a known event only those that want to know what was."""
        if not self.following:
            for observer in self.observers:
                if (directive := observer.on_event(event)) is not None:
                    self.directives.append((event, directive))
            return
        for observer in self.observers:
            if isinstance(observer, Remembers):
                observer.on_known_event(event)

    def commit(self, events: Sequence[Event]) -> None:
        """Number events whose causes are numbers, and write them."""
        number = self.next
        for event in events:
            event.seq = number
            number += 1
        if self._known or self._diverged is not None:
            events = self._compared(events)
        else:
            self.next = number
        if events:
            for sink in self.sinks:
                sink.write(events)

    def _compared(self, events: Sequence[Event]) -> Sequence[Event]:
        """Compare with the known events; what the sinks are to get."""
        if self._diverged is not None:
            raise self._diverged
        for event in events:
            if event.seq < len(self._known):
                known = self._known[event.seq]
                if encode_event(event) != encode_event(known):
                    self._diverged = Diverged(event.seq, _line(known), _line(event))
                    raise self._diverged
        new = [event for event in events if event.seq >= len(self._known)]
        self.next += len(events)
        return new if self._in_sinks else events


class Turn:
    """Events of one role in one round, in the order of their places.

    Those that cannot be committed yet have negative numbers, handles, which become sequence
    numbers at the commit: -1 is the first event that was held back, -2 the second. `place()`
    reserves the place of what is under way, so that what ends earlier does not come earlier.
    """

    __slots__ = (
        "_above",
        "_at",
        "_closed",
        "_count",
        "_handles",
        "_held",
        "_messages",
        "_parts",
        "_recorder",
        "_root",
        "_written",
        "role",
        "run",
        "time",
    )

    def __init__(
        self, recorder: Recorder, role: str = "", *, held: bool = True, above: Turn | None = None
    ) -> None:
        self.role = role
        self.run = ""
        """Which run of an action the events of this place belong to; empty for none."""
        self._recorder = recorder
        self._held = held
        self._parts: list[Event | Turn] = []
        """What is not committed yet, events and places."""
        self._count = 0
        """How many parts it ever had."""
        self._closed = False
        self._above = above
        self.time: int = recorder.time if above is None else above.time
        if above is not None:
            self._at: tuple[int, ...] = (*above._at, above._count)
            self._root: Turn = above._root
            return
        self._at = ()
        self._root = self
        # Of the whole turn:
        self._written = False
        self._handles: list[Event] = []
        self._messages: dict[int, Message] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written here."""
        return not self._root._written

    def add(self, event: Event) -> int:
        """Add an event; its number, or its handle while it is held back."""
        root = self._root
        root._written = True
        if event.cause is not None and event.cause < 0:
            event.cause = root._resolved(event)
        event.time = self.time
        recorder = self._recorder
        if recorder.expects is not None and self is root and not recorder.following:
            event.time = self.time
            recorder.expects(self.role, event, recorder.next)
        if recorder.observers:
            recorder.happened(event)
        if self._is_clear():
            recorder.commit((event,))
            return event.seq
        self._parts.append(event)
        root._handles.append(event)
        event.seq = -len(root._handles)
        if recorder.backlog is not None and not recorder.following:
            recorder.backlog.keep(event, (*self._at, self._count), role=root.role, run=self.run)
        self._count += 1
        return event.seq

    def add_message(self, message: Message, cause: int | None = None, /, **data: Any) -> int:
        message.event = self.add(_message_event(message, cause, data))
        if message.event < 0:
            self._root._messages[message.event] = message
        return message.event

    def place(self, run: str = "") -> Turn:
        """Reserve a place for events to come, of the action run `run`; close it when they came."""
        place = Turn(self._recorder, above=self)
        place.run = run or self.run
        self._parts.append(place)
        self._count += 1
        return place

    def close(self) -> None:
        """Nothing more comes here."""
        self._closed = True
        above = self._above
        if self._root._held:
            return
        if above is not None and not self._parts and len(above._parts) == 1:
            del above._parts[0]  # nothing waits behind it: the usual case
            self._above = None
        else:
            self._root._flush()

    def commit(self) -> None:
        """Write what was held back. What comes later is written straight on."""
        self._held = False
        if self._parts:
            self._flush(open_too=True)

    def _is_clear(self) -> bool:
        """Whether everything before this place is committed."""
        if self._parts:
            return False
        place, above = self, self._above
        while above is not None:
            if above._parts[0] is not place:
                return False
            place, above = above, above._above
        return not place._held

    def _flush(self, *, open_too: bool = False) -> None:
        events: list[Event] = []
        self._drain(events, open_too=open_too)
        if not events:
            return
        first = self._recorder.next
        # Numbers first: a cause may be one of these events.
        for number, event in enumerate(events, first):
            handle, event.seq = event.seq, number
            message = self._messages.pop(handle, None)
            if message is not None:
                message.event = number
        for event in events:
            if event.cause is not None and event.cause < 0:
                event.cause = self._resolved(event)
                while event.cause is not None and not 0 <= event.cause < event.seq:
                    # Its cause has a later place in the turn: what led to that led to this.
                    event.cause = self._handles[-event.cause - 1].cause
        self._recorder.commit(events)

    def _drain(self, events: list[Event], *, open_too: bool) -> bool:
        """Move what can be committed now into `events`; True if nothing is to come."""
        left: list[Event | Turn] = []
        blocked = False
        for part in self._parts:
            if blocked:
                left.append(part)
            elif isinstance(part, Turn):
                if part._drain(events, open_too=open_too):
                    part._above, part._held = None, False  # what still comes is written straight on
                else:
                    left.append(part)
                    blocked = not open_too
            else:
                events.append(part)
        self._parts = left
        return self._closed and not left

    def _resolved(self, event: Event) -> int | None:
        """The number of the event that a handle stands for, or still the handle."""
        assert event.cause is not None
        if event.cause < -len(self._handles):
            raise _unknown_cause(event)
        seq = self._handles[-event.cause - 1].seq
        return seq if seq >= 0 else event.cause


def _unknown_cause(event: Event) -> UsageError:
    return UsageError(
        f"The cause of this {event.kind} event of role {event.role!r} is {event.cause}, which is "
        f"no event so far: a handle of another turn, or of a later event. A handle is good within "
        f"its turn; afterwards an event's `seq` and a message's `event` have the number."
    )


def _line(event: Event) -> str:
    return encode_event(event).decode().rstrip()


def _message_event(message: Message, cause: int | None, more: dict[str, Any]) -> Event:
    data: dict[str, Any] = {"id": message.id, "cause_by": message.cause_by}
    if message.role not in ("user", message.sent_from):
        data["as"] = message.role
    if message.instruct_content is not None:
        data["instruct_type"] = type_address(type(message.instruct_content))
        try:
            data["instruct_content"] = dump_model(message.instruct_content)
        except NotRestorable:
            data["instruct_lost"] = repr(message.instruct_content)
    if message.metadata:
        data["metadata"] = message.metadata
    if more:
        data.update(more)
    return Event(
        "message",
        role=message.sent_from,
        content=message.content,
        to=_TO_ALL if message.send_to is MESSAGE_TO_ALL else tuple(sorted(message.send_to)),
        data=data,
        cause=cause,
    )
