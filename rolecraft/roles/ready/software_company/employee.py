"""Employees: who reads along, and who starts to work."""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.actions import Action
from rolecraft.messages import Message, addresses_of
from rolecraft.roles.ready.software_company.documents import Concern, Findings
from rolecraft.roles.remedies.protocol import KeepsProtocol


class Employee(KeepsProtocol):
    """A role that reads everything it watches and starts to work on some of it.

    It takes up the kinds of work in `works_on`, what is sent to it by name, and, of what others
    find wrong, that which concerns its own work (`answers_for`). The rest it only remembers.
    """

    works_on: Sequence[type[Action]] = ()
    answers_for: Concern | None = None

    _hooks = KeepsProtocol._hooks | {"_takes_up"}

    async def _observe(self) -> int:
        await super()._observe()
        rc = self.rc
        rc.news = [message for message in rc.news if self._takes_up(message)]
        if rc.news:
            rc.last_event = rc.news[-1].event  # what I do now is because of this
        return len(rc.news)

    def _takes_up(self, message: Message) -> bool:
        if isinstance(message.instruct_content, Findings):
            return message.instruct_content.concerns == self.answers_for is not None
        return message.cause_by in addresses_of(self.works_on) or not self.addresses.isdisjoint(
            message.send_to
        )
