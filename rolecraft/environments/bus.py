"""The message bus of an environment: its roles, and who hears which message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.recorded import Recorded
from rolecraft.errors import UnknownName
from rolecraft.messages import (
    ALL,
    FINISH,
    NOBODY,
    SELF,
    USER,
    USER_REQUIREMENT,
    Message,
    anew,
    as_message,
)
from rolecraft.roles.role import Role

NO_RECEIVER_NEEDED = frozenset({ALL, NOBODY, SELF, USER})

Receivers = dict[int, Role]
"""Roles by their place in the order in which they were added."""


class Bus(Recorded):
    """The part of an `Environment` that hands messages on."""

    def __init__(self, *, may_finish: Iterable[str] | None, **recorded: Any) -> None:
        super().__init__(**recorded)
        self.may_finish = frozenset(may_finish) if may_finish is not None else None
        self.roles: dict[str, Role] = {}
        self.messages = 0
        """Messages published so far."""
        self.last_message: Message | None = None
        self.replaced: dict[str, Message] = {}
        """Messages, by id, that are said otherwise in a fork."""
        self.heard_at: dict[str, int] = {}
        """In the `free` schedule: after how many turns each message was delivered."""
        self._acting: set[str] = set()
        """The roles that take a turn now."""
        self._waiting: list[Message] = []
        self._finished: Message | None = None
        self._routes: dict[str, Receivers] = {}
        """Who watches what caused a message."""
        self._addressees: dict[str, Receivers] = {}
        """Who has an address. Like the routes it is made on first use, and anew after a change."""

    @property
    def in_round(self) -> bool:
        """True while roles act; what is said from outside meanwhile waits until they have acted."""
        return bool(self._acting)

    def publish_message(self, message: str | Message) -> Message:
        """Put a message in from outside: a string, or a message without a sender, is the user's.

        During a round it is delivered at the round's end. A message that was published before is
        published again, as a new one. Raises `UnknownName` for a receiver that does not exist.
        """
        message = as_message(message)
        if message.event is not None:
            message = anew(message)
        message.route()
        if not message.sent_from:
            message.sent_from = USER
            message.cause_by = message.cause_by or USER_REQUIREMENT
        self.check_receivers(message)
        self.deliver(message)
        return message

    def deliver(self, message: Message) -> None:
        """Record a message, unless it is recorded, and hand it on; in a round, when it ends."""
        if self.in_round:
            speaker = self._speaker()  # in an action, its place is in that role's turn
            if speaker is None or speaker.rc.outbox is None:
                self._waiting.append(message)
                return
            if message.event is None:
                speaker._number(message, f"{message.sent_from}>{speaker.name}")
                speaker._log_now().add_message(message, speaker._cause())
                now = speaker._now()
                speaker._says(message, now.path if now is not None else "")
            else:
                speaker.rc.outbox.append(message)
            return
        if message.event is None:
            # Not with a colon, as roles number theirs: the sender may have the name of a role.
            message.id = message.id or f"{message.sent_from}>{self.messages + 1}"
            self.say_otherwise(message)
            self.recorder.add_message(message)
        self._hand_on(message)

    def _hand_on(self, message: Message) -> None:
        """Put a recorded message into the inboxes of its receivers."""
        self.messages += 1
        self.last_message = message
        if self.schedule == "free":
            self.heard_at[message.id] = self.rounds
        if message.cause_by == FINISH and self._may_finish(message.sent_from):
            self._finished = message
        for role in self._receivers(message):
            if role.name != message.sent_from:  # what a role tells itself it has already
                role.rc.inbox.append(message)

    def say_otherwise(self, message: Message) -> None:
        """In a fork: give the message the content that it has there."""
        if self.replaced and (other := self.replaced.get(message.id)) is not None:
            message.content, message.instruct_content = other.content, other.instruct_content

    def _may_finish(self, name: str) -> bool:
        return self.may_finish is None or name in self.may_finish

    def check_receivers(self, message: Message) -> None:
        """Raise `UnknownName` for a receiver that does not exist."""
        if message.send_to <= NO_RECEIVER_NEEDED:
            return
        for address in sorted(message.send_to - NO_RECEIVER_NEEDED):
            if address not in self._addresses():
                known = [*self.roles, ALL, NOBODY, SELF, USER]
                raise UnknownName("Receiver", address, known)

    def rewatch(self) -> None:
        self._routes.clear()
        self._addressees.clear()

    def _receivers(self, message: Message) -> Iterable[Role]:
        """Who hears a message, in the order of roles. Costs as much as there are receivers."""
        send_to = message.send_to
        found = self._watchers(message.cause_by) if ALL in send_to else {}
        if not send_to <= NO_RECEIVER_NEEDED:
            addresses = self._addresses()
            for address in send_to:
                if address in addresses:
                    found = {**found, **addresses[address]}
            found = dict(sorted(found.items()))
        return found.values()

    def _watchers(self, cause_by: str) -> Receivers:
        if cause_by not in self._routes:
            self._routes[cause_by] = {
                place: role
                for place, role in enumerate(self.roles.values())
                if cause_by in role.rc.watch
            }
        return self._routes[cause_by]

    def _addresses(self) -> dict[str, Receivers]:
        if not self._addressees:
            for place, role in enumerate(self.roles.values()):
                for address in role.addresses:
                    self._addressees.setdefault(address, {})[place] = role
        return self._addressees
