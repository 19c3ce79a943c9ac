"""No work goes out before its reviewers have read it, and no comment is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecraft import Action, Environment, Role, ScriptedModel, Team, annotate
from rolecraft.environments import Run
from rolecraft.errors import UsageError
from rolecraft.roles.remedies import Deliver, Review, Reviewed, Reviewer, Vote


def review(*comments: str) -> str:
    return json.dumps(
        {
            "checked": ["read all of it"],
            "comments": [{"about": "line 1", "text": text} for text in comments],
            "accepted": not comments,
        }
    )


class Draft(Action):
    """Write it."""

    async def run(self, history: Any) -> str:
        return await self.ask(f"Write: {history[-1].content}")


class Writer(Reviewed):
    actions = [Draft]
    submits = Draft


class Print(Action):
    async def run(self, history: Any) -> str:
        return f"printed {history[-1].content!r}"


def said(run: Run) -> list[tuple[int, str, str]]:
    return [(e.time, e.role, e.content.splitlines()[0]) for e in run.trajectory.of("message")]


async def play(writes: list[str], reviews: list[str], **fields: Any) -> Run:
    model = ScriptedModel(per_role={"Writer": writes, "Reviewer": reviews})
    printer = Role(name="Printer", actions=[Print], watch=[Draft, Deliver])
    run = await Team([Writer(**fields), Reviewer(), printer], model=model).run("a poem")
    model.assert_complete()
    return run


async def test_accepted_work_goes_out_and_nobody_else_saw_it_before() -> None:
    run = await play(["Rain falls."], [review()])
    assert said(run) == [
        (0, "user", "a poem"),
        (1, "Writer", "Rain falls."),
        (2, "Reviewer", "Accepted."),
        (3, "Writer", "Rain falls."),
        (4, "Printer", "printed 'Rain falls.'"),
    ]
    delivered = list(run.trajectory.of("message"))[3]
    assert delivered.data["metadata"] == {"task": "a poem", "accepted": True, "revisions": 0}


async def test_a_comment_is_met_before_the_work_goes_out() -> None:
    model = ScriptedModel(
        per_role={"Writer": ["Rain fals.", "Rain falls."], "Reviewer": [review("typo"), review()]}
    )
    run = await Team([Writer(), Reviewer()], model=model).run("a poem")
    assert [line[1:] for line in said(run)] == [
        ("user", "a poem"),
        ("Writer", "Rain fals."),
        ("Reviewer", "Not accepted."),
        ("Writer", "Rain falls."),
        ("Reviewer", "Accepted."),
        ("Writer", "Rain falls."),
    ]
    revision = model.calls[2].messages[-1].content
    assert "a poem" in revision
    assert "Rain fals." in revision
    assert "- line 1: typo" in revision


async def test_the_reviewer_knows_the_task_the_work_and_what_it_said_before() -> None:
    model = ScriptedModel(
        per_role={"Writer": ["one", "two"], "Reviewer": [review("typo"), review()]}
    )
    await Team([Writer(), Reviewer()], model=model).run("a poem")
    first, second = (c.messages[-1].content for c in model.calls if c.role == "Reviewer")
    assert "Writer was asked:\na poem" in first
    assert "<work>\none\n</work>" in first
    assert "before" not in first
    assert "<work>\ntwo\n</work>" in second
    assert "To change: line 1: typo" in second


async def test_the_bound_delivers_the_work_as_it_is_and_says_so() -> None:
    run = await play(["one", "two", "three"], [review("no")] * 3, revisions=2)
    delivered = [e for e in run.trajectory.of("message") if "Deliver" in e.data["cause_by"]]
    assert [(e.content, e.data["metadata"]) for e in delivered] == [
        ("three", {"task": "a poem", "accepted": False, "revisions": 2})
    ]


async def test_all_reviewers_are_waited_for_and_all_of_their_comments_are_met() -> None:
    model = ScriptedModel(
        per_role={
            "Writer": ["one", "two"],
            "Ann": [review("too short"), review()],
            "Ben": [review("too dull"), review()],
        }
    )
    team = Team(
        [Reviewer(name="Ann"), Writer(reviewers=["Ann", "Ben"]), Reviewer(name="Ben")], model=model
    )
    run = await team.run("a poem", send_to="Writer")
    assert run.message is not None
    assert run.message.content == "two"
    revision = next(c for c in model.calls if "reviewers say" in c.messages[-1].content)
    assert "too short" in revision.messages[-1].content
    assert "too dull" in revision.messages[-1].content


async def test_an_author_waits_while_one_reviewer_has_not_answered() -> None:
    model = ScriptedModel(per_role={"Writer": ["one"], "Ann": [review()]})
    deaf = Role(name="Ben", actions=[Print], watch=[])
    run = await Team(
        [Writer(reviewers=["Ann", "Ben"]), Reviewer(name="Ann"), deaf], model=model
    ).run("a poem", send_to="Writer")
    assert all("Deliver" not in e.data["cause_by"] for e in run.trajectory.of("message"))


async def test_one_reviewer_serves_two_authors_at_once() -> None:
    model = ScriptedModel(per_role={"A": ["by A"], "B": ["by B"], "Reviewer": [review(), review()]})
    run = await Team([Writer(name="A"), Writer(name="B"), Reviewer()], model=model).run("a poem")
    delivered = [e for e in run.trajectory.of("message") if "Deliver" in e.data["cause_by"]]
    assert [(e.role, e.content) for e in delivered] == [("A", "by A"), ("B", "by B")]


async def test_a_second_task_begins_afresh() -> None:
    model = ScriptedModel(
        per_role={
            "Writer": ["one", "two", "three", "four"],
            "Reviewer": [review("no"), review("no"), review("no"), review()],
        }
    )
    team = Team([Writer(revisions=1), Reviewer()], model=model)
    first, second = await team.run("a poem"), await team.run("a song")
    assert first.message is not None
    assert second.message is not None
    assert first.message.metadata == {"task": "a poem", "accepted": False, "revisions": 1}
    assert second.message.metadata == {"task": "a song", "accepted": True, "revisions": 1}


async def test_work_that_was_reviewed_counts_as_checked_and_unreviewed_work_does_not() -> None:
    class Save(Action):
        async def run(self) -> str:
            self.record_artifact("poem.txt", "Rain.")
            return "Rain."

    async def verdict(*roles: Role) -> str:
        env = Environment(
            roles,
            model=ScriptedModel([review()]),
            about={"goal": {"artifacts": ["poem.txt"]}},
        )
        report = await annotate(await Team(env=env).run("a poem"))
        return next(f.verdict for f in report.findings if f.mode == "verification.absent")

    class Saver(Reviewed):
        actions = [Save]
        submits = Save

    assert await verdict(Saver(), Reviewer()) == "absent"
    assert await verdict(Role(name="Writer", actions=[Save])) == "present"


async def test_alone_an_author_just_writes() -> None:
    message = await Writer(model=ScriptedModel(["one"])).run("a poem")
    assert str(message) == "Writer: one"


def test_an_author_without_reviewers_is_refused() -> None:
    with pytest.raises(UsageError, match="name at least one role"):
        Writer(reviewers=[])
    with pytest.raises(UsageError, match="name at least one role"):
        Writer(reviewers="Reviewer")


def test_an_author_that_does_not_say_what_its_work_is_is_refused() -> None:
    with pytest.raises(UsageError, match=r"write `submits = \.\.\.` in its class"):
        Reviewed(actions=[Draft])


@pytest.mark.parametrize(
    "wrong",
    [
        {"checked": ["all"], "accepted": False},
        {"checked": ["all"], "accepted": True, "comments": [{"text": "but"}]},
        {"checked": [], "accepted": True},
    ],
    ids=["refused without a comment", "accepted with a comment", "nothing was checked"],
)
def test_a_review_that_says_nothing_is_no_review(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"comments|checked"):
        Review.model_validate(wrong)


async def test_a_reviewer_that_nobody_hired_is_named() -> None:
    with pytest.raises(UsageError, match="Receiver 'Reviewer' is not known"):
        await Team([Writer()], model=ScriptedModel(["one"])).run("a poem")


async def test_reviews_of_an_old_task_are_not_taken_for_those_of_the_new_one() -> None:
    """The reviewer is still reading the first work when the second is handed in."""
    model = ScriptedModel(
        per_role={"Writer": ["one", "two"], "Reviewer": [review("too old"), review()]}
    )
    env = Environment([Writer(), Reviewer()], model=model)
    env.publish_message("a poem")
    await env.run(rounds=1)
    env.publish_message("a song")
    await env.run()
    delivered = [e for e in env.trajectory.of("message") if "Deliver" in e.data["cause_by"]]
    assert [(e.content, e.data["metadata"]["task"]) for e in delivered] == [("two", "a song")]
    model.assert_complete()


async def test_the_action_that_makes_the_work_may_be_wrapped_in_another_remedy() -> None:
    author = Writer(actions=[Vote(Draft(), times=3)])
    model = ScriptedModel(per_role={"Writer": ["one", "two", "two"], "Reviewer": [review()]})
    run = await Team([author, Reviewer()], model=model).run("a poem")
    assert [line[1:] for line in said(run)][1:] == [
        ("Writer", "two"),
        ("Reviewer", "Accepted."),
        ("Writer", "two"),
    ]
