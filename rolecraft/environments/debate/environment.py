"""The environment of `debate`: was the team right, and did talking help?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.messages import FINISH, Message
from rolecraft.roles import Role
from rolecraft.roles.ready.answers import is_right
from rolecraft.roles.ready.debate import Judge
from rolecraft.roles.ready.panel import Chair, Panelist, Proposal, as_vote
from rolecraft.roles.remedies.voting import majority
from rolecraft.trajectories.events import Signal


class DebateEnvironment(TaskEnvironment):
    """One question whose answer is `task.data["answer"]`; only a judge or a chair may end it.

    Signals:

    - `debate.correct`: 1 if the answer that ended the debate is right, else 0; also without one.

    And of a panel, where somebody has answered:

    - `debate.right`, of each panelist: 1 if its last answer is right, else 0;
    - `debate.right_first`, `debate.right_last`: the share that was right alone, and at the end;
    - `debate.corrected`, `debate.misled`: how many came from wrong to right, and the other way;
    - `debate.agreement`: the share of the last answers that are the commonest one.
    """

    def __init__(self, task: Task, roles: Iterable[Role] = (), **options: Any) -> None:
        roles = list(roles)
        options.setdefault("may_finish", [r.name for r in roles if isinstance(r, (Judge, Chair))])
        super().__init__(task, roles, **options)
        self.answer: str = task.data["answer"]
        self.about.setdefault("goal", {"answer": True})
        self.about.setdefault("outcome", {"signal": "debate.correct", "at_least": 1})

    async def grade(self) -> list[Signal]:
        final = self._final()
        correct = final is not None and is_right(final.content, self.answer)
        step = final.event if final is not None else None
        return [Signal("debate.correct", float(correct), step=step), *self._of_the_panel()]

    def _final(self) -> Message | None:
        """The message that ended the debate."""
        said = [
            message
            for role in self.roles.values()
            for message in role.rc.memory.get_by_action(FINISH)
            if message.sent_from == role.name
        ]
        return said[-1] if said else None

    def _of_the_panel(self) -> list[Signal]:
        answers = {
            role.name: given
            for role in self.roles.values()
            if isinstance(role, Panelist) and (given := _answers(role))
        }
        if not answers:
            return []
        first = [is_right(given[0][0], self.answer) for given in answers.values()]
        last = [is_right(given[-1][0], self.answer) for given in answers.values()]
        tally = majority([as_vote(given[-1][0]) for given in answers.values()])
        changes = list(zip(first, last, strict=True))
        of_each = [
            Signal("debate.right", float(right), role=name, step=given[-1][1])
            for (name, given), right in zip(answers.items(), last, strict=True)
        ]
        return [
            *of_each,
            Signal("debate.right_first", sum(first) / len(first)),
            Signal("debate.right_last", sum(last) / len(last)),
            Signal("debate.corrected", float(changes.count((False, True))), unit="panelists"),
            Signal("debate.misled", float(changes.count((True, False))), unit="panelists"),
            Signal("debate.agreement", tally.votes / tally.of),
        ]


def _answers(role: Panelist) -> list[tuple[str, int | None]]:
    """What a panelist answered, in order, with the events."""
    return [
        (message.instruct_content.answer, message.event)
        for message in role.rc.history
        if message.sent_from == role.name and isinstance(message.instruct_content, Proposal)
    ]
