"""Roles that read along: they hear much, and start to work on little of it."""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.actions import Action
from rolecraft.messages import Message, addresses_of
from rolecraft.roles.role import Role


class ReadsAlong(Role):
    """A role that remembers all that it watches, and starts to work on some of it.

    It takes up the kinds of work in `works_on`, and what is sent to it by name. Override
    `takes_up` where that depends on more.
    """

    works_on: Sequence[type[Action]] = ()

    def takes_up(self, message: Message) -> bool:
        """Whether the role starts to work because of this message."""
        return message.cause_by in addresses_of(self.works_on) or not self.addresses.isdisjoint(
            message.send_to
        )

    async def _observe(self) -> int:
        await super()._observe()
        rc = self.rc
        rc.news = [message for message in rc.news if self.takes_up(message)]
        if rc.news:
            rc.last_event = rc.news[-1].event  # what I do now is because of this
        return len(rc.news)
