"""A debate: debaters answer each other, and a judge ends it when it is sure.

    user ──► debaters ◄──► debaters       every statement goes to the others and to the judge
                 │ ▲
                 ▼ │ what is still open
               judge ──► verdict           only the judge may end it

The judge weighs what was said whenever every debater has spoken again. It gives its verdict when
it is sure enough (`ActsWhenSure`); below that it gathers more, by telling the debaters what is
still open. A debate that starts with everybody goes on in parallel; one that starts with a single
debater (`send_to=["Ann", "Judge"]`) has two of them speak in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from rolecraft.actions import Action, Finish
from rolecraft.errors import UsageError
from rolecraft.messages import FINISH, NOBODY, USER, Message, address_of, addresses_of
from rolecraft.roles.remedies.confidence import ActsWhenSure, Estimate
from rolecraft.roles.role import Role

if TYPE_CHECKING:
    from rolecraft.roles.memory import History


class Argue(Action):
    """Meet the strongest point of the other side, and make one of your own."""

    async def run(self, history: History) -> Message:
        debater: Debater = self.role
        position = f"You hold: {debater.position}. " if debater.position else ""
        text = await self.ask(
            f"The debate so far:\n\n{so_far(history)}\n\n{position}You are {debater.name}, and "
            f"it is your turn. Take the strongest point against you first: say why it fails, or "
            f"grant it. Then make one point that was not made yet. Invent no facts. If you are "
            f"convinced, say so. At most 150 words."
        )
        return Message(text, send_to=debater.audience)


class Debater(Role):
    """Argues for `position`, or for what it finds right where none is given.

    It answers the user and the others, at most `statements` times in one debate; what the judge
    asks gives nobody the floor. `tells` are the names or classes of those who hear it: the others
    of its own class and `Judge`, unless set.
    """

    profile = "a debater who wants to win by being right"
    constraints = "argue on the merits, about what was really said"
    actions = [Argue]
    position: str = ""
    statements: int = 4
    tells: Sequence[str | type[Role]] = ()

    @property
    def audience(self) -> frozenset[str]:
        """The addresses of those who hear it."""
        return addresses_of(self.tells or (type(self), Judge.__name__))

    async def react(self) -> Message | None:
        to_answer = [message for message in self.rc.news if message.cause_by != address_of(AskOn)]
        spoken = [said for said in since_asked(self.rc.history) if said.sent_from == self.name]
        if not to_answer or len(spoken) >= self.statements:
            return None  # it listens
        return await super().react()


class Verdict(Estimate):
    """What the judge holds to be right, and how sure it is of it."""

    reasons: list[str] = Field(min_length=1)
    """The arguments that decided, and those that failed."""


class Weigh(Action):
    """Weigh the arguments, whoever made them and however often."""

    async def run(self, history: History) -> Verdict:
        return await self.ask(
            f"You judge this debate:\n\n{so_far(history)}\n\nAn argument counts for what it "
            f"shows, not for its length, its place or how often it was made; a point that was "
            f"granted is settled. Check what can be checked. Give your answer to the question of "
            f"the debate in as few words as it allows, the reasons, the probability between 0 and "
            f"1 that your answer would stand if the debate went on, and as `missing` what is still "
            f"open.",
            returns=Verdict,
        )


class AskOn(Action):
    """Tell the debaters what is still open."""

    async def run(self) -> Message:
        judge: Judge = self.role
        missing = judge.estimate.missing or "both sides have strong points that are not answered"
        return Message(f"Still open: {missing}", send_to=judge.debaters)


class Declare(Finish):
    """Give the verdict, and say how sure the judge is of it. This ends the debate."""

    async def run(self, history: History) -> Message:
        judge: Judge = self.role
        sure = judge.estimate.confidence >= judge.threshold
        return Message(
            judge.estimate.answer,
            instruct_content=judge.estimate,
            metadata={"sure": sure, "confidence": judge.estimate.confidence},
        )


class Judge(ActsWhenSure):
    """Listens to the debaters named in `debaters`, and gives the verdict.

    It weighs when every one of them has spoken since it weighed last. Sure to `threshold` it
    declares; else it asks on, at most `gatherings` times, and then declares what it holds, marked
    in `metadata["sure"]`.
    """

    profile = "a judge who belongs to no side"
    goal = "the answer that the better arguments support"
    debaters: Sequence[str]
    actions = [Weigh]
    gather = [AskOn]
    act = [Declare]
    unsure = [Declare]

    async def react(self) -> Message | None:
        if any(message.sent_from == USER for message in self.rc.news):
            self._asked = False  # another debate
        debate = since_asked(self.rc.history)
        if any(said.cause_by == FINISH and said.sent_from == self.name for said in debate):
            return None  # it has given its verdict
        spoke: set[str] = set()
        for message in debate:
            spoke = set() if message.sent_from == self.name else spoke | {message.sent_from}
        if not spoke >= set(self.debaters):
            return None  # somebody has not answered yet
        return await super().react()


def debaters_and_judge(
    positions: Sequence[str] = ("", ""),
    *,
    names: Sequence[str] = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Fay"),
    exchanges: int = 3,
    threshold: float = 0.8,
) -> list[Role]:
    """A debater for each position, and a judge; each debater speaks at most `exchanges` times.

    Raises `UsageError` for less than two positions: nobody debates with himself.
    """
    if not 2 <= len(positions) <= len(names):
        raise UsageError(
            f"`positions` is {positions!r}: a debate takes from 2 to {len(names)} of them, one for "
            f"each of `names`; an empty one is a debater who chooses."
        )
    chosen = names[: len(positions)]
    debaters = [
        Debater(name=name, position=position, statements=exchanges)
        for name, position in zip(chosen, positions, strict=True)
    ]
    judge = Judge(debaters=chosen, threshold=threshold, gatherings=exchanges - 1)
    return [*debaters, judge]


def since_asked(history: Sequence[Message]) -> list[Message]:
    """What the user asked last, and all that was said since."""
    start = max((at for at, said in enumerate(history) if said.sent_from == USER), default=0)
    return list(history[start:])


def so_far(history: Sequence[Message]) -> str:
    """The debate as text; what nobody was told is left out."""
    return "\n\n".join(
        f"{message.sent_from}: {message.content}"
        for message in since_asked(history)
        if NOBODY not in message.send_to
    )
