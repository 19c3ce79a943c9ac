"""The environment of `relay`: registers to read, an offset to add, and what is measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.relay.roles import AddOffset, ChooseRegister, ReadRegister
from rolecraft.environments.relay.tasks import BASE
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.messages import Message
from rolecraft.roles import Role
from rolecraft.trajectories.events import Event, Signal, StopReason

CONSTRAINT = {
    "name": "read_asked_register",
    "text": "The planner reads the register that it is asked for.",
    "mode": "task_spec",
}
"""The rule of the task that the environment watches."""


class RelayEnvironment(TaskEnvironment):
    """One relay task. Signals, each 0 or 1:

    - `relay.correct`: the answer is `(value of the asked register + offset) mod 5`;
    - `relay.register`, of the planner: the asked register was read;
    - `relay.sum`, of the executor: the answer is right for the value that it was given.

    That the register which was asked for is the one to read is a rule of the task, which the
    environment also verifies as a constraint, for the failure taxonomy. A wrong sum is a wrong
    answer and breaks no rule.
    """

    def __init__(self, task: Task, roles: Iterable[Role] = (), **options: Any) -> None:
        super().__init__(task, roles, **options)
        self.registers: dict[str, int] = task.data["registers"]
        self.asked: str = task.data["asked"]
        self.offset: int = task.data["offset"]
        self.about.setdefault("goal", {"answer": "executor"})
        self.about.setdefault("outcome", {"signal": "relay.correct", "at_least": 1})
        self.about.setdefault("constraints", [CONSTRAINT])

    async def play(self) -> StopReason:
        reason = await super().play()
        return "finished" if self._said(AddOffset) is not None else reason

    async def grade(self) -> list[Signal]:
        value, answer = self._said(ReadRegister), self._said(AddOffset)
        right = (self.registers[self.asked] + self.offset) % BASE
        chosen = self._said(ChooseRegister)
        if chosen is not None:
            self._check_constraint(chosen)
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

    def _check_constraint(self, chosen: Message) -> None:
        data = {
            "target": "register",
            "passed": chosen.content == self.asked,
            "constraint": CONSTRAINT["name"],
            "mode": CONSTRAINT["mode"],
            "role": "planner",
        }
        self.record(Event("verify", role="environment", cause=chosen.event, data=data))

    def _said(self, action: type) -> Message | None:
        for role in self.roles.values():
            said = role.rc.memory.get_by_action(action)
            if said and said[-1].sent_from == role.name:
                return said[-1]
        return None


def _event(message: Message | None) -> int | None:
    return message.event if message is not None else None
