"""`Ask`: a typed question as an action, and trees of questions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rolecraft import Message, Role, ScriptedModel, Team
from rolecraft.actions._parts import outermost, parts_of, with_changes
from rolecraft.actions.ask import Ask
from rolecraft.errors import InvalidAnswer, UnknownName, UsageError
from rolecraft.models.human import HumanModel


class Chapter(BaseModel):
    title: str = Field(description="at most four words")
    pages: int = 1


class Directory(BaseModel):
    language: str
    cover: Chapter
    chapters: list[Chapter] = []


class Outline(Ask[Directory]):
    """Decide on the chapters.

    And on the cover.
    """

    prompt = "Which chapters?"


DRAFT = Directory(
    language="English",
    cover=Chapter(title="Weather"),
    chapters=[Chapter(title="Rain"), Chapter(title="Snow", pages=4)],
)
DRAFT_TEXT = DRAFT.model_dump_json()


def asked(model: ScriptedModel) -> list[str]:
    return [call.messages[-1].content for call in model.calls]


def outline(*replies: str, **fields: Any) -> tuple[Outline, ScriptedModel]:
    """The action of a role, and the model that is asked."""
    model = ScriptedModel(replies)
    role = Role(name="Ann", actions=[Outline(**fields)], model=model)
    (action,) = role.rc.cursor.actions
    assert isinstance(action, Outline)
    return action, model


# --- the question ----------------------------------------------------------------------------


async def test_the_answer_is_the_instruct_content_of_the_message() -> None:
    model = ScriptedModel([DRAFT_TEXT])
    role = Role(name="Ann", actions=[Outline], model=model)
    message = await role.run("a book about the weather")
    assert message is not None
    assert message.instruct_content == DRAFT
    assert message.content == DRAFT_TEXT
    assert message.cause_by == Outline.__module__ + ".Outline"
    (prompt,) = asked(model)
    assert prompt.startswith(
        "Which chapters?\n\nWhat has happened:\nuser: a book about the weather\n\nAnswer with JSON"
    )
    assert "at most four words" in prompt


async def test_a_question_needs_no_class() -> None:
    role = Role(actions=[Ask(list[int], "Which numbers?")], model=ScriptedModel(["[1, 2]"]))
    message = await role.run("go")
    assert message is not None
    assert message.content == "[1, 2]"


async def test_texts_and_choices_are_answers_too() -> None:
    role = Role(actions=[Ask(str, "Why?")], model=ScriptedModel(["Because."]))
    assert str(await role.run("go")) == "Role: Because."


async def test_the_question_may_depend_on_fields_and_history() -> None:
    class Write(Ask[Chapter]):
        title: str

        def question(self, history: Sequence[Message]) -> str:
            return f"Write {self.title!r} for {history[-1].content}"

    model = ScriptedModel(['{"title": "Rain"}'])
    await Role(actions=[Write("Rain")], model=model).run("children")
    assert asked(model)[0].startswith("Write 'Rain' for children\n\nAnswer")


@pytest.mark.parametrize(
    ("recent", "told"), [(None, "one two"), (1, "two"), (0, ""), (9, "one two")]
)
async def test_recent_says_how_much_of_the_history_is_told(recent: int | None, told: str) -> None:
    model = ScriptedModel(["ok"])
    role = Role(actions=[Ask(str, "So?", recent=recent)], model=model)
    await role.run(["one", "two"])
    lines = [line for line in asked(model)[0].split("\n") if line.startswith("user: ")]
    assert lines == [f"user: {word}" for word in told.split()]


async def test_check_refuses_an_answer_with_a_reason() -> None:
    class Even(Ask[int]):
        prompt = "A number?"

        def check(self, answer: int) -> None:
            if answer % 2:
                raise ValueError(f"{answer} is odd")

    model = ScriptedModel(["3", "4"])
    message = await Role(actions=[Even], model=model).run("go")
    assert message is not None
    assert message.content == "4"
    assert asked(model)[1] == "That answer is not valid: 3 is odd"


def test_what_models_read_about_it_when_they_choose() -> None:
    assert Outline().description == "Decide on the chapters."
    assert Ask(int, "How many?\nAnd why?").description == "How many?"
    assert Ask(int, "How many?", desc="count").description == "count"


def test_the_type_is_inherited_and_can_be_replaced() -> None:
    class Short(Outline):
        prompt = "Two chapters?"

    assert Short()._kind is Directory
    assert Short("Three?").prompt == "Three?"
    assert Outline(returns=Chapter)._kind is Chapter


async def test_a_question_without_a_type_or_a_prompt_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match=r"write `class Ask\(Ask\[Answer\]\)`, or `Ask\(Answer"):
        Ask(prompt="?")
    with pytest.raises(UsageError, match="`Ask` asks nothing: give it a `prompt`"):
        await Role(actions=[Ask(int)], model=ScriptedModel([])).run("go")


async def test_an_action_may_have_a_model_of_its_own() -> None:
    other = ScriptedModel([DRAFT_TEXT])
    role = Role(actions=[Outline(model=other)], model=ScriptedModel([]))
    await role.run("go")
    other.assert_complete()


# --- fill ------------------------------------------------------------------------------------


async def test_node_by_node_each_leaf_is_a_question_of_one_conversation() -> None:
    action, model = outline('"English"', '"Weather"', "1", '[{"title": "Rain"}]', strategy="each")
    answer = await action.fill()
    assert answer == Directory(
        language="English", cover=Chapter(title="Weather"), chapters=[Chapter(title="Rain")]
    )
    first, second, *_ = [text.split("\n\nAnswer with JSON")[0] for text in asked(model)]
    assert first == "Which chapters?\n\nAnswer it part by part. The first is `language`"
    assert second == "Now `cover.title`: at most four words"
    assert len({id(call.messages[0]) for call in model.calls}) == 1


async def test_a_leaf_that_is_no_answer_is_asked_again_alone() -> None:
    action, model = outline('"English"', "Weather", '"Weather"', "1", "[]", strategy="each")
    await action.fill()
    assert "There is no JSON in it" in asked(model)[2]


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("`low` is above `high`")
        return self


async def test_leaves_that_do_not_go_together_are_asked_again() -> None:
    model = ScriptedModel(["4", "2", "2", "4"])
    role = Role(actions=[Ask(Range, "Which?", strategy="each")], model=model)
    message = await role.run("go")
    assert message is not None
    assert message.instruct_content == Range(low=2, high=4)
    assert asked(model)[2].startswith("That is not valid: answer: `low` is above `high`\nNow `low`")


async def test_what_the_check_refuses_node_by_node_is_asked_for_as_a_whole() -> None:
    class Wide(Ask[Range]):
        prompt = "Which?"
        strategy = "each"

        def check(self, answer: Range) -> None:
            if answer.high - answer.low < 5:
                raise ValueError("too narrow")

    model = ScriptedModel(["1", "2", '{"low": 1, "high": 9}'])
    message = await Role(actions=[Wide], model=model).run("go")
    assert message is not None
    assert message.instruct_content == Range(low=1, high=9)
    assert asked(model)[2].startswith("All of it is not valid: too narrow. Write all of it anew.")


# --- review and revise -----------------------------------------------------------------------


async def test_a_model_reviews_by_path_and_only_the_commented_parts_are_asked_again() -> None:
    model = ScriptedModel(
        [
            DRAFT_TEXT,
            '{"chapters.1.title": "say what kind of snow", "language": "in Danish"}',
            '{"chapters.1.title": "Powder snow", "language": "Danish"}',
            "{}",
        ]
    )
    role = Role(actions=[Outline(reviews=2)], model=model)
    message = await role.run("the weather")
    assert message is not None
    revised = message.instruct_content
    assert revised == Directory(
        language="Danish",
        cover=Chapter(title="Weather"),
        chapters=[Chapter(title="Rain"), Chapter(title="Powder snow", pages=4)],
    )
    _, review, revision, _ = asked(model)
    assert "The question was:\nWhich chapters?\n\nWhat has happened:\nuser: the weather" in review
    assert "- chapters.1.title: say what kind of snow" in revision
    assert "only these: chapters.1.title, language." in revision
    schema = json.loads(revision.rpartition("\n")[2])
    assert list(schema["properties"]) == ["chapters.1.title", "language"]
    model.assert_complete()


async def test_an_accepted_answer_is_not_reviewed_again() -> None:
    action, model = outline(DRAFT_TEXT, "{}", reviews=3)
    assert await action.run() == DRAFT
    model.assert_complete()


async def test_a_comment_on_a_part_that_does_not_exist_is_asked_again() -> None:
    action, model = outline('{"chapters.7.title": "?"}', '{"chapters.0.title": "longer"}')
    assert await action.review(DRAFT) == {"chapters.0.title": "longer"}
    assert "Part 'chapters.7.title' is not known. Did you mean 'chapters." in asked(model)[1]


async def test_another_model_may_review() -> None:
    critic = ScriptedModel(["{}"])
    action, model = outline(DRAFT_TEXT, reviews=1, reviewer=critic)
    await action.run()
    critic.assert_complete()
    model.assert_complete()


async def test_a_person_reviews_in_lines_and_writes_no_json() -> None:
    lines = iter(["language: in Danish", ""])
    person = HumanModel(lambda question: next(lines))
    action, _ = outline('{"language": "Danish"}', reviewer=person)
    comments = await action.review(DRAFT)
    assert comments == {"language": "in Danish"}
    assert (await action.revise(DRAFT, comments)).language == "Danish"


async def test_a_function_may_review_sync_or_async() -> None:
    async def later(answer: Directory) -> dict[str, str]:
        return {"cover": f"not {answer.cover.title}"}

    for reviewer in (later, lambda answer: {"cover": "not Weather"}):
        action, model = outline(reviewer=reviewer)
        assert await action.review(DRAFT) == {"cover": "not Weather"}
        assert model.calls == []
    action, _ = outline(reviewer=lambda answer: None)
    assert await action.review(DRAFT) == {}
    action, _ = outline(reviewer=lambda answer: {"covers": "?"})
    with pytest.raises(UnknownName, match="Did you mean 'cover'"):
        await action.review(DRAFT)


async def test_in_a_class_the_reviewer_may_be_a_method() -> None:
    class Strict(Outline):
        reviews = 1

        def reviewer(self, answer: Directory) -> dict[str, str]:
            return {"language": f"not {answer.language}, says {self.name}"}

    model = ScriptedModel([DRAFT_TEXT, '{"language": "Danish"}'])
    message = await Role(actions=[Strict], model=model).run("go")
    assert message is not None
    assert "not English, says Strict" in asked(model)[1]


async def test_a_comment_on_a_node_asks_for_all_of_it_once() -> None:
    action, model = outline('{"cover": {"title": "Skies", "pages": 2}}')
    revised = await action.revise(DRAFT, {"cover": "dull", "cover.title": "very"})
    assert revised.cover == Chapter(title="Skies", pages=2)
    assert "only these: cover." in asked(model)[0]


async def test_the_whole_can_be_commented_on() -> None:
    other = DRAFT.model_copy(update={"language": "Danish"})
    action, _ = outline(json.dumps({"*": other.model_dump()}))
    assert await action.revise(DRAFT, {"*": "in Danish"}) == other


async def test_without_comments_nobody_is_asked() -> None:
    action, _ = outline()
    assert await action.revise(DRAFT, {}) is DRAFT


async def test_a_revision_that_breaks_the_whole_is_asked_again() -> None:
    model = ScriptedModel(['{"low": 7}', '{"low": 3}'])
    role = Role(actions=[Ask(Range, "Which?")], model=model)
    (action,) = role.rc.cursor.actions
    assert isinstance(action, Ask)
    assert await action.revise(Range(low=1, high=4), {"low": "higher"}) == Range(low=3, high=4)
    assert "`low` is above `high`" in asked(model)[1]


async def test_parts_that_only_go_together_can_be_revised_together() -> None:
    role = Role(actions=[Ask(Range, "?")], model=ScriptedModel(['{"low": 7, "high": 9}']))
    (action,) = role.rc.cursor.actions
    assert isinstance(action, Ask)
    revised = await action.revise(Range(low=1, high=4), {"low": "higher", "high": "higher"})
    assert revised == Range(low=7, high=9)


async def test_a_model_that_never_revises_well_is_an_invalid_answer() -> None:
    action, _ = outline(*["no"] * 3)
    with pytest.raises(InvalidAnswer):
        await action.revise(DRAFT, {"language": "?"})


async def test_a_replay_asks_neither_model_nor_reviewer() -> None:
    reviews: list[Directory] = []

    def reviewer(answer: Directory) -> dict[str, str]:
        reviews.append(answer)
        return {"language": "in Danish"}

    team = Team(
        [Role(name="Ann", actions=[Outline(reviews=1, reviewer=reviewer)])],
        model=ScriptedModel([DRAFT_TEXT, '{"language": "Danish"}']),
    )
    run = await team.run("the weather")
    again = await team.replay(run)
    assert again.trajectory.events == run.trajectory.events
    assert again.message is not None
    assert again.message.instruct_content == DRAFT.model_copy(update={"language": "Danish"})
    assert len(reviews) == 1


# --- parts -----------------------------------------------------------------------------------


class Tree(BaseModel):
    model_config = ConfigDict(frozen=True)

    value: int
    name: str = Field("x", alias="the name")
    left: Tree | None = None
    others: list[Tree] = []


TREES = st.recursive(
    st.builds(Tree, value=st.integers(0, 9)),
    lambda inner: st.builds(
        Tree,
        value=st.integers(0, 9),
        left=st.none() | inner,
        others=st.lists(inner, max_size=2),
    ),
    max_leaves=6,
)


@given(TREES, st.data())
def test_only_the_commented_parts_change(tree: Tree, data: st.DataObject) -> None:
    paths = parts_of(tree, Tree)
    leaves = [path for path in paths if path.endswith("value")]
    chosen = data.draw(st.lists(st.sampled_from(leaves), unique=True))
    changed = with_changes(tree, {paths[path].steps: 77 for path in chosen})
    after = parts_of(changed, Tree)
    assert list(after) == list(paths)
    for path in leaves:
        before, now = at(tree, paths[path].steps), at(changed, paths[path].steps)
        assert now == (77 if path in chosen else before)


@given(TREES, st.data())
def test_of_parts_within_each_other_the_outermost_are_asked_for(
    tree: Tree, data: st.DataObject
) -> None:
    paths = parts_of(tree, Tree)
    chosen = data.draw(st.lists(st.sampled_from(list(paths)), unique=True, min_size=1))
    asked = outermost({path: paths[path] for path in chosen})
    for path in chosen:
        within = [
            outer
            for outer, part in asked.items()
            if paths[path].steps[: len(part.steps)] == part.steps
        ]
        assert len(within) == 1


def at(value: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def test_paths_are_those_of_the_json() -> None:
    tree = Tree.model_validate({"value": 1, "the name": "y", "others": [{"value": 2}]})
    assert [path for path in parts_of(tree, Tree) if "name" in path] == [
        "the name",
        "others.0.the name",
    ]
