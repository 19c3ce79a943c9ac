"""Act only when sure: below a threshold of confidence a role gathers more before it acts.

    actions ── Estimate ── confidence >= threshold? ── yes ──► act
       ▲                          │ no
       └──────── gather ◄─────────┘   at most `gatherings` times, then `unsure`

The threshold is fixed, or adapts to how decisions came out. An estimate is recorded and told to
nobody: only what the role does when it is sure goes out.

It answers roles that assume where they should ask, and that end before they know enough.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from rolecraft.actions import Action
from rolecraft.errors import UsageError
from rolecraft.messages import ALL, NOBODY, SELF, USER, Message
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.roles.memory import History


class Estimate(BaseModel):
    """An answer, and the probability in [0, 1] that its author gives it of being right."""

    answer: str
    confidence: float = Field(ge=0, le=1)
    missing: str = ""
    """What its author would have to know to be sure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """A threshold that follows results, so that wrong acts become as rare as asked for.

    After each decision the threshold rises by `step * (wrong - error_rate)`, where `wrong` is 1 if
    the role acted and was wrong, else 0. Whatever the confidences and outcomes, of n decisions at
    most `error_rate + (1 + step - start) / (step * n)` are wrong acts: a role that is too sure of
    itself is asked to be surer still. The update is that of adaptive conformal inference (Gibbs
    and Candès, arXiv 2106.00193), on the confidence itself.
    """

    error_rate: float = 0.1
    step: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.error_rate < 1 or not 0 < self.step <= 1:
            raise UsageError(
                f"`error_rate` and `step` lie between 0 and 1, got {self.error_rate!r} and "
                f"{self.step!r}."
            )

    def next(self, threshold: float, *, wrong: bool) -> float:
        """The threshold after a decision; above 1 no confidence reaches it for a while."""
        return max(0.0, threshold + self.step * (wrong - self.error_rate))


class Decide(Action):
    """Answer, and say how sure you are."""

    async def run(self, history: History) -> Estimate:
        heard = "\n".join(str(said) for said in history if NOBODY not in said.send_to)
        return await self.ask(
            f"What you know:\n{heard}\n\nGive your answer, the probability between 0 and 1 that it "
            f"is right, and what you would have to know to be sure. Of answers with 0.7, seven in "
            f"ten should be right.",
            returns=Estimate,
        )


class Answer(Action):
    """Say the answer that the role is sure of."""

    async def run(self) -> str:
        estimate: Estimate = self.role.estimate
        return estimate.answer


class Abstain(Action):
    """Say that the role is not sure enough to answer, and what is missing."""

    async def run(self) -> Message:
        estimate: Estimate = self.role.estimate
        missing = f" What is missing: {estimate.missing}" if estimate.missing else ""
        return Message(f"I am not sure enough to answer.{missing}", metadata={"abstained": True})


class ActsWhenSure(Role):
    """A role that decides with `actions`, and does `act` only when it is sure enough.

    The last of `actions` returns an `Estimate`. At or above `threshold` the role works `act` off;
    below it `gather`, and then it decides again. A gathering action that addresses others by name
    is a question to them: the role decides again when it hears more. After `gatherings` of these
    it does `unsure`: the default says so; `(Answer,)` answers all the same. `adapt` lets the
    threshold follow what `learn` is told. Raises `UsageError` for a threshold outside [0, 1].
    """

    actions = [Decide]
    gather: Sequence[Action | type[Action]] = ()
    act: Sequence[Action | type[Action]] = (Answer,)
    unsure: Sequence[Action | type[Action]] = (Abstain,)
    threshold: float = 0.8
    adapt: Adaptive | None = None
    gatherings: int = 3

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        if not 0 <= self.threshold <= 1 or self.gatherings < 0:
            raise UsageError(
                f"Role {self.name!r} has `threshold` {self.threshold!r} and `gatherings` "
                f"{self.gatherings!r}: a threshold is a probability, and gatherings are counted."
            )
        self._deciding = self.rc.cursor.actions
        self._decides = True
        self._gathered = 0
        self._asked = False
        self._estimate: Estimate | None = None

    @property
    def estimate(self) -> Estimate:
        """The latest estimate. Raises `UsageError` before the first."""
        if self._estimate is None:
            raise UsageError(f"Role {self.name!r} has made no estimate yet.")
        return self._estimate

    def learn(self, *, wrong: bool) -> None:
        """Tell the role how a decision came out: `wrong` if it acted and should not have.

        Tell it of every decision, also of those on which it did not act. In an action of the role
        (one that hears of results) what it learns is recorded with it; from outside, between runs,
        it is not, and a recovered role would not know it.
        """
        if self.adapt is not None:
            self.threshold = self.adapt.next(self.threshold, wrong=wrong)

    async def react(self) -> Message | None:
        if not self._asked:  # else what is heard now belongs to the question of before
            self._gathered = 0
        while True:
            self._estimate = await self._decide()
            if self.estimate.confidence >= self.threshold:
                return await self._work_off("acts", self.act)
            if not self.gather or self._gathered >= self.gatherings:
                return await self._work_off("stays unsure", self.unsure)
            self._gathered += 1
            before = len(self.rc.history)
            said = await self._work_off("gathers more", self.gather)
            if any(_asks(message) for message in self.rc.history[before:]):
                self._asked = True
                return said

    async def _decide(self) -> Estimate:
        self._asked = False
        if not self._decides:
            self.set_actions(self._deciding)
            self._decides = True
        said = await self._react()
        estimate = said.instruct_content if said is not None else None
        if not isinstance(estimate, Estimate):
            raise UsageError(
                f"The last of the `actions` of role {self.name!r} gave {estimate!r}: it must "
                f"return an `Estimate`."
            )
        return estimate

    async def _work_off(
        self, decision: str, actions: Iterable[Action | type[Action]]
    ) -> Message | None:
        sure = f"{self.estimate.confidence:.2f} sure, acts from {self.threshold:.2f}"
        self._record(Event("thought", content=f"{sure}: {decision}"))
        # Those in a class's list belong to nobody: each role has copies.
        self.set_actions([copy.copy(action) for action in actions])
        self._decides = False
        return await self._react()

    async def _act(self) -> Message | None:
        message = await super()._act()
        said = message.instruct_content if message is not None else None
        if message is not None and self._decides and isinstance(said, Estimate):
            message.send_to = NOBODY
        return message


def _asks(message: Message) -> bool:
    return not message.send_to <= {ALL, NOBODY, SELF, USER}
