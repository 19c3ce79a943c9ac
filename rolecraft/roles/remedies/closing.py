"""Closing: only a superior of all who took part may end a discussion.

When those who did the work may also declare it done, a discussion ends when the first of them has
had enough. So ending it is the right of somebody above them. For the run as a whole that is
`Environment(may_finish=hierarchy.heads)`; for every discussion within it, a check of a message
protocol:

    MessageProtocol(rules, checks=[SuperiorCloses(hierarchy, opens=[Objection], closes=[Settle])])

The authors of the failure taxonomy gave ChatDev's superiors this right and 34.4 % of its programs
were correct instead of 25.0 % (MASFT, table 4, "improved prompt").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rolecraft.actions import Action
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import addresses_of
from rolecraft.roles.remedies.protocol import Saying


class Hierarchy:
    """Who reports to whom, by the roles' names: `Hierarchy({"Engineer": "CTO"})`.

    Whoever appears only as a superior reports to nobody. Raises `UsageError` for a circle.
    """

    def __init__(self, reports_to: Mapping[str, str]) -> None:
        self.reports_to = dict(reports_to)
        for name in self.reports_to:
            seen = [name]
            for superior in self._above(name):
                if superior in seen:
                    circle = " -> ".join([*seen, superior])
                    raise UsageError(f"A hierarchy has no circle, and here is one: {circle}.")
                seen.append(superior)

    @property
    def names(self) -> list[str]:
        """Everybody, in the order of mention."""
        return list(dict.fromkeys([*self.reports_to, *self.reports_to.values()]))

    @property
    def heads(self) -> list[str]:
        """Those who report to nobody."""
        return [name for name in self.names if name not in self.reports_to]

    def superiors(self, name: str) -> list[str]:
        """Everybody above `name`, the nearest first. Raises `UnknownName`."""
        if name not in self.names:
            raise UnknownName("Member of the hierarchy", name, self.names)
        return list(self._above(name))

    def closers(self, members: Iterable[str]) -> list[str]:
        """Who may close a discussion of `members`, the nearest first.

        Whoever is above all others of them: one who took part may be it, but nobody closes a
        discussion with himself that a superior could close.
        """
        members = list(dict.fromkeys(members))
        return [
            name
            for name in sorted(self.names, key=lambda name: -len(self.superiors(name)))
            if all(member == name or name in self.superiors(member) for member in members)
            and (members != [name] or name in self.heads)
        ]

    def _above(self, name: str) -> Iterator[str]:
        while name in self.reports_to:
            name = self.reports_to[name]
            yield name


class SuperiorCloses:
    """A check: messages of the kinds `closes` come from a superior of all who took part.

    Who took part are the senders, among the hierarchy's members, of what came since the first
    message of a kind in `opens` that was not followed by one in `closes`. With nothing open there
    is nothing to close, and the sender must be one of the hierarchy's heads.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        opens: Iterable[type[Action]],
        closes: Iterable[type[Action]],
    ) -> None:
        self.hierarchy = hierarchy
        self.opens = addresses_of(list(opens))
        self.closes = addresses_of(list(closes))

    def __call__(self, said: Saying) -> str | None:
        if said.kind not in self.closes:
            return None
        kind = said.kind.rpartition(".")[2]
        members = self.members(said)
        if not members:
            if said.sender in self.hierarchy.heads:
                return None
            return f"{kind} is for {' or '.join(self.hierarchy.heads)}, not for {said.sender}"
        closers = self.hierarchy.closers(members)
        if said.sender in closers:
            return None
        return (
            f"{said.sender} may not close a discussion of {', '.join(members)}; "
            f"{' or '.join(closers) or 'nobody in this hierarchy'} may"
        )

    def members(self, said: Saying) -> list[str]:
        """Who took part in the discussion that is open, in order of their first word."""
        members: dict[str, None] = {}
        is_open = False
        for message in said.before:
            if message.cause_by in self.closes:
                is_open = False
                members.clear()
            elif message.cause_by in self.opens:
                is_open = True
            if is_open and message.sent_from in self.hierarchy.names:
                members[message.sent_from] = None
        return list(members)
