"""What happens when a role says something: it is attributed, recorded, remembered and handed on.

Invariant: a message is recorded once, however often `_take_up` gets it, and it is heard by others
when the turn is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rolecraft.messages import SELF, Message, anew, as_message
from rolecraft.roles import _mistakes, _replies, keeping
from rolecraft.roles.acting import RunsActions
from rolecraft.trajectories.recorder import Log

if TYPE_CHECKING:
    from rolecraft.roles.role import Role


class Speaks(RunsActions):
    """The part of a `Role` that says things."""

    def _take_up(self, said: Any) -> Message | None:
        """Attribute, remember, record and publish what I said; once, however often called."""
        if isinstance(said, Message) and said.event is not None and said.sent_from == self.name:
            return said
        me = cast("Role", self)
        message = _replies.as_reply(said, self.rc.last_action, me)
        if message is None:
            return None
        if "<" in message.content and _mistakes.COROUTINE in message.content:
            _mistakes.warn_not_awaited(message.content, me)
        message.route()
        message.sent_from = self.name
        if message.role == "user":
            message.role = self.name
        if not message.cause_by and self.rc.last_action is not None:
            message.cause_by = self.rc.last_action.address
        env = self.rc.env
        if env is not None:
            env.check_receivers(message)
        self._number(message, self.name)
        if env is not None:
            env.say_otherwise(message)
        ended, self.rc.ending = self.rc.ending, None
        ends = {"ends": ended.left or True} if ended is not None else {}
        now = self._now()
        if now is not None:
            now.log.add_message(message, now.event.seq, **ends)
            self._says(message, now.path)
        else:
            self._log_now().add_message(message, self.rc.last_event, **ends)
            self._says(message, "")
        return message

    def _says(self, message: Message, path: str) -> None:
        """Remember what was said in the run `path` of an action, and hand it on.

        Actions within an action may run at the same time: what they say is heard when the outer
        one has ended, in the order of their places.
        """
        if "." in path:
            self.rc.said_within.append((tuple(map(int, path.split("."))), message))
            return
        if message.sent_from == self.name:
            self.rc.last_event = message.event
            self.rc.memory.add(message)
            keeping.keep_later(cast("Role", self), message)
            if SELF in message.send_to or self.name in message.send_to:
                self.rc.inbox.append(message)
        if self.rc.outbox is not None:
            self.rc.outbox.append(message)
        elif self.rc.env is not None:
            self.rc.env.deliver(message)

    def _says_again(self, message: Message, cause: int | None, log: Log, path: str) -> int:
        """Say what an action has said that is served from the record."""
        if "." not in path:
            self.rc.said += 1
        event = log.add_message(message, cause)
        self._says(message, path)
        return event

    def publish_message(self, message: str | Message) -> Message:
        """Say something now, apart from what an action returns. Heard after this turn."""
        message = as_message(message)
        if message.event is not None:  # said before: said again, as a new message
            message = anew(message)
        published = self._take_up(message)
        assert published is not None
        return published

    def missed(self) -> None:
        """The turn failed: keep what it took up, so that it can be taken up again."""
        self.rc.missed, self.rc.news = [*self.rc.missed, *self.rc.news], []

    def take_up_again(self) -> bool:
        """Put what failed turns took up back into the inbox; False if there is nothing."""
        again, self.rc.missed = self.rc.missed, []
        self.rc.inbox = [*again, *self.rc.inbox]
        return bool(again)
