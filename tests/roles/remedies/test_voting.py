"""Voting and asking again: what wins, what a tie does, and that the team hears no difference."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Environment, FunctionModel, Message, Role, ScriptedModel
from rolecraft.errors import UsageError
from rolecraft.models import ModelCall
from rolecraft.roles.remedies.voting import (
    Tally,
    UntilVerified,
    Verification,
    Vote,
    majority,
)
from rolecraft.trajectories.codec import encode_event

VOTES = st.lists(st.one_of(st.none(), st.sampled_from("abc")))


@given(VOTES)
def test_the_winner_has_most_votes_and_of_equals_the_one_named_first_wins(votes) -> None:
    tally = majority(votes)
    named = [vote for vote in votes if vote is not None]
    assert tally.of == len(votes)
    if not named:
        assert tally == Tally(None, 0, len(votes))
        return
    most = max(Counter(named).values())
    assert tally.votes == most
    assert tally.winner == next(vote for vote in named if named.count(vote) == most)


@given(VOTES)
def test_a_tie_can_be_nobodys_victory(votes) -> None:
    tally = majority(votes, ties="nobody")
    counts = sorted(Counter(vote for vote in votes if vote is not None).values())
    tied = len(counts) > 1 and counts[-1] == counts[-2]
    assert (tally.winner is None) == (not counts or tied)


def test_an_absolute_majority_counts_those_who_named_nothing() -> None:
    assert majority(["a", "a", "b"], above=0.5).winner == "a"
    assert majority(["a", "a", None, None], above=0.5) == Tally(None, 2, 4)
    assert majority(["a", "b"], above=0.5).winner is None
    assert majority([], above=0.5) == Tally(None, 0, 0)
    with pytest.raises(UsageError, match="above=1"):
        majority(["a"], above=1)


class Guess(Action):
    """Guess a number."""

    async def run(self, history):
        return await self.ask("Guess")


class Note(Action):
    """Note what was guessed."""

    async def run(self, history):
        return f"noted {history[-1].content}"


async def vote(replies: list[str], **fields: object) -> Message:
    role = Role(actions=[Vote(Guess(), times=len(replies), **fields)], model=ScriptedModel(replies))
    said = await role.run("go")
    assert said is not None
    return said


async def test_a_vote_says_the_first_of_the_answers_that_most_agree_with() -> None:
    said = await vote(["It is 4", "5!", "so 4", "?"], key=lambda text: "4" if "4" in text else None)
    assert said.content == "It is 4"
    assert said.metadata == {"vote": {"won": True, "votes": 2, "of": 4}}


async def test_where_nobody_wins_the_first_answer_is_said_and_marked() -> None:
    said = await vote(["1", "2"], ties="nobody")
    assert said.content == "1"
    assert said.metadata == {"vote": {"won": False, "votes": 1, "of": 2}}
    said = await vote(["1", "2"], key=lambda text: None)
    assert said.metadata == {"vote": {"won": False, "votes": 0, "of": 2}}


async def test_whoever_watches_the_action_hears_the_vote_on_it() -> None:
    voter = Role(name="Voter", actions=[Vote(Guess(), times=3)])
    clerk = Role(name="Clerk", actions=[Note], watch=[Guess])
    env = Environment([voter, clerk], model=ScriptedModel(["1", "2", "2"]))
    env.publish_message(Message("go"))
    await env.run()
    assert [event.content for event in env.trajectory.of("message")] == ["go", "2", "noted 2"]


async def test_a_vote_leaves_the_same_bytes_whoever_is_faster() -> None:
    async def play(chance: random.Random) -> list[bytes]:
        async def slow(call: ModelCall) -> str:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            return "same"

        env = Environment(
            [Role(name="A", actions=[Vote(Guess(), times=4)]), Role(name="B", actions=[Guess])],
            model=FunctionModel(slow),
        )
        env.publish_message(Message("go"))
        await env.run()
        return [encode_event(event) for event in env.trajectory.events]

    runs = [await play(random.Random(seed)) for seed in range(20)]
    assert all(run == runs[0] for run in runs)


class Even(UntilVerified):
    """An even number."""

    async def check(self, answer: str) -> Verification:
        return Verification(int(answer) % 2 == 0, f"{answer} modulo 2 is {int(answer) % 2}")


async def until_even(replies: list[str], **fields: object) -> tuple[Message, Role, ScriptedModel]:
    model = ScriptedModel(replies)
    role = Role(name="R", actions=[Even(Guess(), **fields)], model=model)
    said = await role.run("go")
    assert said is not None
    return said, role, model


async def test_it_is_done_again_until_it_passes_and_every_check_is_on_record() -> None:
    said, role, model = await until_even(["1", "3", "4"])
    model.assert_complete()
    assert (said.content, said.metadata) == ("4", {"verified": True})
    checks = [event.data["passed"] for event in role.trajectory.of("verify")]
    assert checks == [False, False, True]


async def test_tries_are_bounded_and_what_fails_to_the_last_is_marked() -> None:
    said, _, model = await until_even(["1", "3"], tries=2)
    model.assert_complete()
    assert (said.content, said.metadata) == ("3", {"verified": False})


class Recall(Action):
    """Say how much was heard."""

    async def run(self, history):
        return await self.ask(" | ".join(message.content for message in history))


@pytest.mark.parametrize(
    ("tell", "asked"),
    [(True, ["go", "go | 1 | This does not hold: 1 modulo 2 is 1"]), (False, ["go", "go"])],
)
async def test_a_new_try_is_told_of_the_failed_one_or_is_a_fresh_sample(
    tell: bool, asked: list[str]
) -> None:
    model = ScriptedModel(["1", "2"])
    role = Role(name="R", actions=[Even(Recall(), tell=tell)], model=model)
    await role.run("go")
    assert [call.messages[-1].content for call in model.calls] == asked
    assert len(role.rc.history) == 2, "the role remembers what it was told and what it said"


def test_a_wrong_setting_is_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError, match=r"wraps an action, got <class"):
        Vote(Guess)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one voter"):
        Vote(Guess(), times=0)
    with pytest.raises(UsageError, match="try at least once"):
        Even(Guess(), tries=0)
    with pytest.raises(UsageError, match=r"`ties` is 'last'"):
        Vote(Guess(), ties="last")


async def test_a_missing_check_is_named() -> None:
    with pytest.raises(UsageError, match="no `async def check"):
        await Role(actions=[UntilVerified(Guess())], model=ScriptedModel(["1"])).run("go")


class Silent(Action):
    """Say nothing."""

    async def run(self, history):
        return None


async def test_silence_votes_for_nothing_passes_no_check_and_stays_silence() -> None:
    assert await Role(actions=[Vote(Silent(), times=2)]).run("go") is None
    role = Role(actions=[Even(Silent(), tries=2)])
    assert await role.run("go") is None
    assert [event.content for event in role.trajectory.of("verify")] == ["nothing was said"] * 2


class Voter(Role):
    actions = [Vote(Guess(), times=2)]


async def test_roles_of_one_class_vote_apart() -> None:
    one = Voter(name="One", model=ScriptedModel(["1", "1"]))
    two = Voter(name="Two", model=ScriptedModel(["2", "2"]))
    env = Environment([one, two])
    env.publish_message(Message("go"))
    await env.run()
    said = {event.role: event.content for event in env.trajectory.of("message")}
    assert (said["One"], said["Two"]) == ("1", "2")
