"""A person among the roles: others address them by name and hear what they answer.

Any role is played by a person with `model="human"` or `model=HumanModel(answer)`: then the person
writes what its actions ask a model for. `Human` is a role for a person who is just that.
"""

from __future__ import annotations

from typing import Any

from rolecraft.actions import Action
from rolecraft.messages import ALL, Message
from rolecraft.models.human import Answerer, HumanModel
from rolecraft.roles.role import Role


class Answer(Action):
    """Say what the person says to the messages that came last; to an empty line, nothing."""

    async def run(self) -> Message | None:
        news = self.role.rc.news
        text = await self.ask("\n".join(f"{said.sent_from} says: {said.content}" for said in news))
        if not text.strip():
            return None
        # Not to whoever told everybody: they did not ask, and would answer in turn.
        asked = {said.sent_from for said in news if ALL not in said.send_to and said.sent_from}
        return Message(text, send_to={ALL, *asked})


class Human(Role):
    """A person who takes up what is sent to them by name; the answer goes to whoever sent it.

    They are asked at the terminal, or through `answer`, a function of a `Question` that may be
    async. Roles that watch `Answer` hear the answer too; `watch` adds what the person takes up
    besides.
    """

    answer: Answerer | None = None
    actions = [Answer]
    watch = ()

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if self.model is None:
            self.model = HumanModel(self.answer)
