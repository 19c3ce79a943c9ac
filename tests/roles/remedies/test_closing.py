"""Closing: only a superior of all who took part may end a discussion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Environment, Message, Role, UserRequirement
from rolecraft.errors import ProtocolViolation, UnknownName, UsageError
from rolecraft.messages import address_of
from rolecraft.roles.remedies import Hierarchy, KeepsProtocol, May, MessageProtocol, SuperiorCloses
from rolecraft.roles.remedies.protocol import Saying


class Object_(Action):
    async def run(self) -> str:
        return "I see it otherwise."


class Argue(Action):
    async def run(self) -> str:
        return "Because."


class Settle(Action):
    async def run(self) -> str:
        return "So be it."


LADDER = Hierarchy({"Ann": "Lead", "Bob": "Lead", "Lead": "Boss", "Eve": "Boss"})
CLOSES = SuperiorCloses(LADDER, opens=[Object_], closes=[Settle])


def saying(sender: str, *before: tuple[str, type[Action]]) -> Saying:
    return Saying(
        sender=sender,
        kind=address_of(Settle),
        document=None,
        send_to=frozenset({"<all>"}),
        answers=(),
        before=[Message("", sent_from=name, cause_by=kind) for name, kind in before],
    )


@pytest.mark.parametrize("sender", ["Lead", "Boss"])
def test_a_superior_of_all_may_close(sender: str) -> None:
    assert CLOSES(saying(sender, ("Ann", Object_), ("Bob", Argue))) is None


@pytest.mark.parametrize("sender", ["Ann", "Bob", "Eve"])
def test_nobody_else_may_and_is_told_who(sender: str) -> None:
    problem = CLOSES(saying(sender, ("Ann", Object_), ("Bob", Argue)))
    assert problem == f"{sender} may not close a discussion of Ann, Bob; Lead or Boss may"


def test_who_took_part_counts_however_short() -> None:
    talk = (("Ann", Object_), ("Bob", Argue), ("Eve", Argue))
    assert CLOSES(saying("Lead", *talk)) == (
        "Lead may not close a discussion of Ann, Bob, Eve; Boss may"
    )
    assert CLOSES(saying("Boss", *talk)) is None


def test_a_superior_who_took_part_may_close() -> None:
    assert CLOSES(saying("Lead", ("Ann", Object_), ("Lead", Argue))) is None


def test_nobody_closes_a_discussion_with_himself_that_a_superior_could_close() -> None:
    assert CLOSES(saying("Ann", ("Ann", Object_))) is not None
    assert CLOSES(saying("Lead", ("Ann", Object_))) is None
    assert CLOSES(saying("Boss", ("Boss", Object_))) is None


def test_what_was_said_before_and_what_was_settled_is_no_part_of_it() -> None:
    settled = (("Eve", Argue), ("Eve", Object_), ("Boss", Settle), ("Ann", Object_), ("Bob", Argue))
    assert CLOSES(saying("Lead", *settled)) is None


def test_what_nobody_opened_only_a_head_closes() -> None:
    assert CLOSES(saying("Boss")) is None
    assert CLOSES(saying("Lead")) == "Settle is for Boss, not for Lead"


def test_other_messages_are_not_looked_at() -> None:
    said = saying("Ann", ("Bob", Object_))
    assert CLOSES(Saying(**{f: getattr(said, f) for f in said.__slots__} | {"kind": "x"})) is None


def test_a_circle_is_no_hierarchy() -> None:
    with pytest.raises(UsageError, match="a -> b -> a"):
        Hierarchy({"a": "b", "b": "a"})
    with pytest.raises(UnknownName, match="Did you mean 'Lead'"):
        LADDER.superiors("Leed")


TREES = st.lists(st.integers(0, 6), min_size=1, max_size=7).map(
    # Person i + 1 reports to somebody with a smaller number, so that there is no circle.
    lambda above: Hierarchy({f"p{i + 1}": f"p{min(boss, i)}" for i, boss in enumerate(above)})
)


@given(TREES, st.data())
def test_whoever_is_above_a_closer_may_close_too_and_a_common_head_always_may(
    tree: Hierarchy, data: st.DataObject
) -> None:
    members = data.draw(st.lists(st.sampled_from(tree.names), min_size=1, unique=True))
    closers = tree.closers(members)
    assert tree.heads == ["p0"]
    assert "p0" in closers
    for closer in closers:
        assert set(tree.superiors(closer)) <= set(closers)


async def test_a_role_without_the_right_cannot_close_in_a_run() -> None:
    protocol = MessageProtocol(
        [
            May("Ann", Object_, answers=[UserRequirement]),
            May(["Ann", "Bob", "Lead"], Settle, answers=[Object_]),
        ],
        checks=[CLOSES],
    )

    def team(closer: str) -> list[Role]:
        ann = KeepsProtocol(name="Ann", actions=[Object_], protocol=protocol)
        other = KeepsProtocol(name=closer, actions=[Settle], watch=[Object_], protocol=protocol)
        return [ann, other]

    env = Environment(team("Lead"))
    env.publish_message("go")
    await env.run()
    assert env.last_message is not None
    assert env.last_message.content == "So be it."

    env = Environment(team("Bob"))
    env.publish_message("go")
    with pytest.raises(ProtocolViolation, match="Bob may not close a discussion of Ann; Lead"):
        await env.run()
    assert [event.role for event in env.trajectory.of("message")] == ["user", "Ann"]
