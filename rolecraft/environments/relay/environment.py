"""The environment of `relay`: registers to read, an offset to add, and what is measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.relay.roles import AddOffset, ChooseRegister, ReadRegister
from rolecraft.environments.relay.tasks import BASE
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.messages import Message
from rolecraft.roles import Role
from rolecraft.trajectories.events import Signal, StopReason


class RelayEnvironment(TaskEnvironment):
    """One relay task. Signals, each 0 or 1:

    - `relay.correct`: the answer is `(value of the asked register + offset) mod 5`;
    - `relay.register`, of the planner: the asked register was read;
    - `relay.sum`, of the executor: the answer is right for the value that it was given.
    """

    def __init__(self, task: Task, roles: Iterable[Role] = (), **options: Any) -> None:
        super().__init__(task, roles, **options)
        self.registers: dict[str, int] = task.data["registers"]
        self.asked: str = task.data["asked"]
        self.offset: int = task.data["offset"]

    async def play(self) -> StopReason:
        reason = await super().play()
        return "finished" if self._said(AddOffset) is not None else reason

    async def grade(self) -> list[Signal]:
        value, answer = self._said(ReadRegister), self._said(AddOffset)
        right = (self.registers[self.asked] + self.offset) % BASE
        chosen = self._said(ChooseRegister)
        return [
            Signal(
                "relay.register",
                float(chosen is not None and chosen.content == self.asked),
                role="planner",
                step=_event(chosen),
            ),
            Signal(
                "relay.sum",
                float(
                    value is not None
                    and answer is not None
                    and int(answer.content) == (int(value.content) + self.offset) % BASE
                ),
                role="executor",
                step=_event(answer),
            ),
            Signal(
                "relay.correct",
                float(answer is not None and int(answer.content) == right),
                step=_event(answer),
            ),
        ]

    def _said(self, action: type) -> Message | None:
        for role in self.roles.values():
            said = role.rc.memory.get_by_action(action)
            if said and said[-1].sent_from == role.name:
                return said[-1]
        return None


def _event(message: Message | None) -> int | None:
    return message.event if message is not None else None
