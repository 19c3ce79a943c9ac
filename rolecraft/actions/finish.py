"""`Finish`: the action that ends a run."""

from __future__ import annotations

from typing import Any, ClassVar

from rolecraft.actions.action import Action
from rolecraft.messages import FINISH


class Finish(Action):
    """End the run: nothing is left to do.

    Its message says why, by default the last message of the history. The environment ends the run
    after the round, with the reason `finished`, if the role is one that may (`may_finish`).
    Subclass it to decide: a `run` that returns None does not end anything. Subclasses have the
    same address: whoever watches `Finish` hears of all of them.
    """

    ADDRESS: ClassVar[str] = FINISH

    message: str = ""

    async def run(self, history: Any) -> Any:
        return self.message or (history[-1].content if history else "Finished.")

    @property
    def address(self) -> str:
        return FINISH
