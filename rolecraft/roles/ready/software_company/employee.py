"""Employees: who reads along, and who starts to work."""

from __future__ import annotations

from rolecraft.messages import Message
from rolecraft.roles.ready.reads_along import ReadsAlong
from rolecraft.roles.ready.software_company.documents import Concern, Findings
from rolecraft.roles.remedies.protocol import KeepsProtocol


class Employee(ReadsAlong, KeepsProtocol):
    """A role that hands on documents by a protocol, and reads along with what others hand on.

    Of what others find wrong it takes up that which concerns its own work (`answers_for`; None:
    nothing of it).
    """

    answers_for: Concern | None = None

    def takes_up(self, message: Message) -> bool:
        document = message.instruct_content
        if isinstance(document, Findings):
            return self.answers_for is not None and document.concerns == self.answers_for
        return super().takes_up(message)
