"""A panel: several answer, see each other's answers, answer again, and are counted.

    round 1   everyone answers alone          ┐
    round 2…  everyone answers, having seen   ├── the last answers go to the chair ──► majority
              all answers of the round before ┘

This is the "multi-agent debate" of Du et al. (arXiv 2305.14325). What a panelist sees does not
depend on the schedule: it answers for the n-th time when it has everybody's answer number n - 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel

from rolecraft.actions import Action, Finish
from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.roles.ready.answers import exact_value
from rolecraft.roles.ready.debate import since_asked
from rolecraft.roles.remedies.voting import majority
from rolecraft.roles.role import Role

if TYPE_CHECKING:
    from rolecraft.roles.memory import History


class Proposal(BaseModel):
    """An answer and the way to it."""

    reasoning: str
    answer: str

    def __str__(self) -> str:
        return f"{self.reasoning}\nAnswer: {self.answer}"


class Propose(Action):
    """Answer the question; after the first time, having seen the answers of the others."""

    async def run(self) -> Message:
        panelist: Panelist = self.role
        proposal = await self.ask(self._question(panelist), returns=Proposal)
        return Message(str(proposal), send_to=panelist.audience, instruct_content=proposal)

    def _question(self, panelist: Panelist) -> str:
        question = f"Question:\n{panelist.question}\n\n"
        form = "Give your reasoning step by step, and then the answer alone, as short as it can be."
        own = panelist.own
        if own is None:
            return question + form
        others = "\n\n".join(f"{name} says:\n{said}" for name, said in panelist.seen.items())
        return (
            f"{question}You said:\n{own}\n\n{others}\n\nWhere you differ, somebody is wrong: find "
            f"the first step at which, and trust no answer because of who gives it or how many "
            f"do. {form}"
        )


class Panelist(Role):
    """Answers `rounds` times, and sees in between what the `others` answered; tells `chair`."""

    profile = "a careful thinker on a panel"
    actions = [Propose]
    others: Sequence[str]
    rounds: int = 2
    chair: str = "Chair"

    @property
    def question(self) -> str:
        """What the user asked last."""
        return since_asked(self.rc.history)[0].content

    @property
    def own(self) -> Proposal | None:
        """Its own latest answer to the question; None before the first."""
        own = self._answers(self.name)
        return own[-1] if own else None

    @property
    def seen(self) -> dict[str, Proposal]:
        """The answers of the others to which its next one replies."""
        place = len(self._answers(self.name)) - 1
        return {name: self._answers(name)[place] for name in self.others}

    @property
    def audience(self) -> Sequence[str]:
        """Who hears its next answer: the others, and in the last round the chair."""
        is_last = len(self._answers(self.name)) + 1 == self.rounds
        return [self.chair] if is_last else self.others

    async def react(self) -> Message | None:
        said = None
        while self._has_the_floor():
            self._set_state(-1)  # from the first action again: it may be two rounds behind
            said = await super().react()
        return said

    def _has_the_floor(self) -> bool:
        """True if it has heard as many answers of each of the others as it gave itself."""
        given = len(self._answers(self.name))
        return given < self.rounds and all(
            len(self._answers(name)) >= given for name in self.others
        )

    def _answers(self, name: str) -> list[Proposal]:
        return [
            said.instruct_content
            for said in since_asked(self.rc.history)
            if said.sent_from == name and isinstance(said.instruct_content, Proposal)
        ]


class Count(Finish):
    """Say what most of the panel answered. This ends the debate."""

    async def run(self, history: History) -> Message:
        chair: Chair = self.role
        last = chair.answers
        answers = [last[name] for name in chair.panel]
        votes = [as_vote(answer) for answer in answers]
        tally = majority(votes)
        won = tally.winner is not None
        return Message(
            answers[votes.index(tally.winner)] if won else "The panel has no answer.",
            metadata={"won": won, "votes": tally.votes, "of": tally.of},
        )


class Chair(Role):
    """Counts the last answers of the `panel`; asks no model."""

    actions = [Count]
    watch = ()
    panel: Sequence[str]

    @property
    def answers(self) -> dict[str, str]:
        """The last answers, by name, that it has not counted yet."""
        found: dict[str, str] = {}
        for message in self.rc.history:
            if message.sent_from == self.name:
                found.clear()
            elif isinstance(message.instruct_content, Proposal):
                found[message.sent_from] = message.instruct_content.answer
        return found

    async def react(self) -> Message | None:
        if not self.answers.keys() >= set(self.panel):
            return None
        return await super().react()


def panel(
    size: int = 3,
    *,
    rounds: int = 2,
    names: Sequence[str] = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Fay", "Gil"),
) -> list[Role]:
    """`size` panelists who answer `rounds` times, and a chair. Raises `UsageError`."""
    if not 2 <= size <= len(names) or rounds < 1:
        raise UsageError(
            f"`panel({size!r}, rounds={rounds!r})`: from 2 to {len(names)} of `names` answer at "
            f"least once."
        )
    chosen = names[:size]
    panelists = [
        Panelist(name=name, others=[other for other in chosen if other != name], rounds=rounds)
        for name in chosen
    ]
    return [*panelists, Chair(panel=chosen)]


def as_vote(answer: str) -> Hashable | None:
    """What an answer votes for: its number, exactly, else its words; None for an empty one."""
    value = exact_value(answer)
    return value if value is not None else answer.casefold().strip(" .!\n") or None
