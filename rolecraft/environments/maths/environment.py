"""The environment of `maths`: who may answer, and what is measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.errors import UnknownName
from rolecraft.roles.ready.answers import exact_value, final_answer, is_none, is_right
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Event, Signal


class MathsEnvironment(TaskEnvironment):
    """One word problem. The answer is the last one that the role `answers` commits itself to.

    Signals:

    - `answer.given`, 0 or 1: there is an answer, and it is a number, or `None`;
    - `answer.correct`, 0 or 1: it has exactly the right value (`decimals` in the task's data says
      to how many the right one was rounded), or is `None` where that is right;
    - `code.runs` and `code.failed`: how many programs ran to their end, and how many did not.

    Raises `UnknownName` if there is no role `answers`.
    """

    def __init__(
        self, task: Task, roles: Iterable[Role] = (), *, answers: str, **options: Any
    ) -> None:
        super().__init__(task, roles, **options)
        if answers not in self.roles:
            raise UnknownName("Role", answers, self.roles)
        self.answers = answers
        self.about.setdefault("goal", {"answer": answers})
        self.about.setdefault("outcome", {"signal": "answer.correct", "at_least": 1})

    async def grade(self) -> list[Signal]:
        said = self._answer()
        answer = final_answer(said.content) if said is not None else None
        given = answer is not None and (exact_value(answer) is not None or is_none(answer))
        expected, decimals = self.task.data["answer"], self.task.data.get("decimals")
        right = given and is_right(str(answer), expected, decimals=decimals)
        about_answer: dict[str, Any] = {
            "role": self.answers,
            "step": said.seq if said is not None else None,
        }
        programs = self._programs()
        return [
            Signal("answer.given", float(given), **about_answer),
            Signal("answer.correct", float(right), **about_answer),
            Signal("code.runs", float(sum(programs)), unit="programs"),
            Signal("code.failed", float(len(programs) - sum(programs)), unit="programs"),
        ]

    def _answer(self) -> Event | None:
        """The last message with a final answer of the role that answers."""
        said = [
            event
            for event in self.trajectory.of("message")
            if event.role == self.answers and final_answer(event.content) is not None
        ]
        return said[-1] if said else None

    def _programs(self) -> list[bool]:
        """Of each program that roles ran, whether it ran to its end."""
        trajectory = self.trajectory
        calls = {
            event.seq
            for event in trajectory.of("tool_call")
            if event.data.get("tool") == "run_python"
        }
        return [
            bool(event.data.get("ok"))
            for event in trajectory.of("tool_result")
            if event.cause in calls
        ]
