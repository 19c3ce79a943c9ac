"""Ask more than once: vote on the answers, or ask again until one holds.

    actions = [Vote(Solve(), times=5, key=read_number)]      what most answers say
    actions = [CodeThatRuns(WriteCode(), tries=3)]           the first that passes its check

Both wrap an action and take its place: what they say has that action's address, so whoever watches
it hears them. They help against wrong answers that are not all wrong in the same way; a model that
gives the same answer every time gains nothing, so sample it with a temperature.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rolecraft.actions import Action
from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.roles._replies import as_reply

if TYPE_CHECKING:
    from rolecraft.roles.memory import History

Ties = Literal[
    "first",  # of the answers with most votes, the one that was given first
    "nobody",  # a tie decides nothing
]


@dataclass(frozen=True, slots=True)
class Tally:
    """How a vote came out. `winner` is None if nobody won."""

    winner: Hashable | None
    votes: int
    """For the winner; where nobody won, the most that any answer had."""
    of: int
    """All that were cast, those that named nothing included."""


def majority(
    votes: Sequence[Hashable | None], *, ties: Ties = "first", above: float = 0.0
) -> Tally:
    """What most of `votes` say. A vote of None names nothing; it counts, and cannot win.

    A winner needs more than the share `above` of all votes: 0.5 is an absolute majority. Raises
    `UsageError` for a share outside [0, 1) and an unknown `ties`.
    """
    if ties not in get_args(Ties):
        raise UsageError(f"`ties` is {ties!r}, expected one of {list(get_args(Ties))}.")
    if not 0 <= above < 1:
        raise UsageError(f"`majority(above={above!r})`: a share is at least 0 and less than 1.")
    ranked = Counter(vote for vote in votes if vote is not None).most_common()
    if not ranked:
        return Tally(None, 0, len(votes))
    (winner, most), *others = ranked  # those with equal counts, in the order of their first votes
    tied = bool(others) and others[0][1] == most
    won = most > above * len(votes) and not (tied and ties == "nobody")
    return Tally(winner if won else None, most, len(votes))


class _Instead(Action):
    """An action that does another one, more than once, and stands in its place."""

    action: Action

    def __init__(self, action: Action, **fields: Any) -> None:
        super().__init__(action=action, **fields)
        if not isinstance(action, Action):
            raise UsageError(
                f"`{type(self).__name__}` wraps an action, got {action!r}: "
                f"`{type(self).__name__}(Solve())`."
            )
        if "name" not in fields:
            self.name = f"{type(self).__name__}({action.name})"

    @property
    def address(self) -> str:
        """That of the action: its place in the team stays as it was."""
        return self.action.address

    async def _once(self, history: Sequence[Message]) -> Message | None:
        """Do the action on its own record; what it says, if it says anything."""
        action = copy.copy(self.action)._bound(self.role)  # others may run beside it
        result = await (action.run(history) if action._takes_history else action.run())
        return as_reply(result, action, self.role)


class Vote(_Instead):
    """Do an action `times` times and say what most of its answers say (self-consistency).

    `key` says what an answer votes for, None for nothing; the whole text unless given. Of the
    answers for the winner the first is said, with the count in its metadata under `vote`. Where
    nobody wins, by `ties` and `above` (see `majority`), the first answer is said, and `won` there
    is False. The answers are asked for at the same time; each has its own place in the record.
    """

    times: int = 5
    key: Callable[[str], Hashable | None] | None = None
    ties: Ties = "first"
    above: float = 0.0

    def __init__(self, action: Action, **fields: Any) -> None:
        super().__init__(action, **fields)
        if self.times < 1:
            raise UsageError(f"`Vote(times={self.times!r})`: a vote has at least one voter.")
        majority((), ties=self.ties, above=self.above)

    async def run(self, history: History) -> Message | None:
        # All are waited for, also when one fails: what was paid for is in the record.
        outcomes = await asyncio.gather(
            *[self._once(history) for _ in range(self.times)], return_exceptions=True
        )
        answers = [_or_raise(outcome) for outcome in outcomes]
        votes = [self._vote(answer) for answer in answers]
        tally = majority(votes, ties=self.ties, above=self.above)
        won = tally.winner is not None
        said = answers[votes.index(tally.winner)] if won else answers[0]
        if said is None:
            return None
        count = {"won": won, "votes": tally.votes, "of": tally.of}
        return replace(said, metadata={**(said.metadata or {}), "vote": count})

    def _vote(self, answer: Message | None) -> Hashable | None:
        return (self.key or _whole)(answer.content) if answer is not None else None


def _or_raise(outcome: Message | BaseException | None) -> Message | None:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _whole(text: str) -> Hashable | None:
    return text.strip() or None


class Verification(NamedTuple):
    """What a check found. `passed` is None if it could not tell."""

    passed: bool | None
    said: str = ""


class UntilVerified(_Instead):
    """Do an action until its answer passes `check`, at most `tries` times.

    Subclass it and write `check`. Each check is recorded under `target`. With `tell`, a new try is
    told of the failed one and of what its check said; without, it is a fresh sample. If none
    passes, the last answer is said; whether it passed is in its metadata under `verified`.
    """

    tries: int = 3
    target: str = "answer"
    tell: bool = True

    def __init__(self, action: Action, **fields: Any) -> None:
        super().__init__(action, **fields)
        if self.tries < 1:
            raise UsageError(f"`{type(self).__name__}(tries={self.tries!r})`: try at least once.")

    async def check(self, answer: str) -> Verification:
        """Whether `answer` holds. Subclasses write this."""
        raise UsageError(
            f"`{type(self).__name__}` has no `async def check(self, answer)`: write it."
        )

    async def run(self, history: History) -> Message | None:
        seen = list(history)
        for left in reversed(range(self.tries)):
            said = await self._once(seen)
            found = await self._checked(said)
            self.record_check(self.target, passed=found.passed, said=found.said)
            if found.passed or not left:
                break
            if self.tell:
                me = self.role.name
                tried = said or Message("")
                seen += [
                    replace(tried, sent_from=me, role=me),
                    Message(f"This does not hold: {found.said}", sent_from=self.name),
                ]
        if said is None:
            return None
        return replace(said, metadata={**(said.metadata or {}), "verified": bool(found.passed)})

    async def _checked(self, said: Message | None) -> Verification:
        if said is None:
            return Verification(False, "nothing was said")
        return await self.check(said.content)
