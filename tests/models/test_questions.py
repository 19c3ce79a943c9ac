"""Typed questions to a model: what it is told of the type, what of its reply is the answer."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from rolecraft.errors import InvalidAnswer
from rolecraft.models import Completion, ScriptedModel
from rolecraft.models.doubles import Reply
from rolecraft.models.questions import put_question


class Chapter(BaseModel):
    title: str = Field(description="at most four words", examples=["Rain in spring"])
    pages: int = Field(3, gt=0)


class Directory(BaseModel):
    language: str = Field(examples=["English"])
    chapters: list[Chapter]


RAIN = Directory(language="English", chapters=[Chapter(title="Rain", pages=2)])


async def ask(*replies: Reply, returns: Any = Directory, **options: Any) -> tuple[Any, list[str]]:
    """The answer, and what the model was asked."""
    model = ScriptedModel(replies)
    answer = await put_question(model.session(), "Chapters?", returns=returns, **options)
    model.assert_complete()
    return answer, [call.messages[-1].content for call in model.calls]


async def test_descriptions_and_examples_of_fields_are_told() -> None:
    _, (asked,) = await ask(RAIN.model_dump_json())
    question, schema, example = asked.split("\n", 3)[0], asked.split("\n")[3], asked.split("\n")[-1]
    assert question == "Chapters?"
    title = json.loads(schema)["$defs"]["Chapter"]["properties"]["title"]
    assert title["description"] == "at most four words"
    assert json.loads(example) == {"language": "English", "chapters": [{"title": "Rain in spring"}]}


async def test_without_an_example_of_a_required_field_none_is_made_up() -> None:
    class Bare(BaseModel):
        name: str = Field(examples=["Ann"])
        age: int

    _, (asked,) = await ask('{"name": "Bob", "age": 3}', returns=Bare)
    assert "For example" not in asked


@pytest.mark.parametrize(
    "reply",
    [
        "Sure!\n```json\n{'language': 'English', chapters: [{title: 'Rain', 'pages': 2,}],}\n```",
        'It is {"language": "English", "chapters": [{"title": "Rain", "pages": 2}]}, see [1].',
        '{"language": "English", "chapters": [{"title": "Rain", "pages": 2}]',
        '<think>{"language": "?"}</think>' + RAIN.model_dump_json(),
    ],
)
async def test_near_json_is_an_answer(reply: str) -> None:
    assert (await ask(reply))[0] == RAIN


async def test_an_answer_is_of_the_type_or_asked_again_with_every_flaw() -> None:
    wrong = '{"language": 7, "chapters": [{"title": "Rain", "pages": 0}]}'
    answer, asked = await ask(wrong, RAIN.model_dump_json())
    assert answer == RAIN
    assert asked[1] == (
        "That answer is not valid: language: Input should be a valid string (it is 7); "
        "chapters.0.pages: Input should be greater than 0 (it is 0). Answer again, with JSON only."
    )


async def test_many_flaws_are_counted_and_not_all_told() -> None:
    _, asked = await ask(json.dumps(["x"] * 13), "[]", returns=list[int])
    assert asked[1].count("valid integer") == 10
    assert "and 3 more" in asked[1]


async def test_the_reason_says_where_the_json_is_broken() -> None:
    _, asked = await ask('{"language": English}', RAIN.model_dump_json())
    assert "It is no JSON in `language`: text in double quotes" in asked[1]
    assert "at '{\"language\": English}'" in asked[1]


async def test_no_json_at_all_is_said_so() -> None:
    _, asked = await ask("I cannot.", RAIN.model_dump_json())
    assert asked[1].startswith("That answer is not valid: There is no JSON in it.")


async def test_an_answer_that_was_cut_off_is_never_completed() -> None:
    """Two of three chapters would be a valid directory."""
    cut = '{"language": "English", "chapters": [{"title": "Rain", "pages": 2}, {"title": "Sn'
    answer, asked = await ask(Completion(text=cut, finish_reason="length"), RAIN.model_dump_json())
    assert answer == RAIN
    assert "It breaks off in `chapters.1.title`" in asked[1]
    assert "Be shorter: the answer was cut off." in asked[1]
    whole_but_for_brackets = '{"language": "English", "chapters": [{"title": "Rain", "pages": 2}'
    _, asked = await ask(
        Completion(text=whole_but_for_brackets, finish_reason="length"), RAIN.model_dump_json()
    )
    assert "It breaks off" in asked[1]


async def test_two_different_answers_are_none() -> None:
    _, asked = await ask('First {"a": 1}, then {"a": 2}.', '{"a": 2}', returns=dict[str, int])
    assert "It has 2 different answers in it. Answer with one of them." in asked[1]
    assert (await ask('First {"a": 1}, again {"a": 1}.', returns=dict[str, int]))[0] == {"a": 1}


async def test_values_of_other_types_beside_the_answer_do_not_matter() -> None:
    assert (await ask('As in [1]: {"a": 2}', returns=dict[str, int]))[0] == {"a": 2}


async def test_a_check_asks_again_with_its_reason() -> None:
    def short(answer: Directory) -> None:
        if len(answer.language) > 8:
            raise ValueError("`language` has more than 8 letters")

    long = RAIN.model_copy(update={"language": "Esperanto"}).model_dump_json()
    answer, asked = await ask(long, RAIN.model_dump_json(), check=short)
    assert answer == RAIN
    assert asked[1] == "That answer is not valid: `language` has more than 8 letters"
    with pytest.raises(InvalidAnswer, match="more than 8 letters"):
        await ask(long, long, long, check=short)


async def test_a_type_that_cannot_be_a_key_can_be_asked_for() -> None:
    unhashable = Annotated[int, Field(examples=[1]), ["not hashable"]]
    assert (await ask("7", returns=unhashable))[0] == 7


@given(st.text())
async def test_no_reply_breaks_the_reading(reply: str) -> None:
    try:
        await ask(reply, returns=dict[str, int], retries=0)
    except InvalidAnswer as error:
        assert repr(reply) in str(error)  # noqa: PT017 (a reply may be an answer)
