"""A person as a model: the terminal, callbacks, and typed questions in words."""

from __future__ import annotations

import asyncio
import datetime
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from rolecraft.errors import InvalidAnswer, NobodyAnswers, RealModelForbidden, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import Limits, allow_real_models
from rolecraft.models.base import Sampling, Tool
from rolecraft.models.budget import Budget
from rolecraft.models.human import HumanModel, Question, Terminal
from rolecraft.models.questions import put_question
from rolecraft.models.resolve import resolve_model


class Person:
    """Somebody who types these lines, and remembers what was asked."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.asked = list(lines), list[str]()

    def __call__(self, question: Question) -> str:
        self.asked.append(question.text)
        return self.lines.pop(0)


async def ask(person: Person, returns: object, **options: object) -> object:
    session = HumanModel(person).session("Ann")
    answer = await put_question(session, "So?", returns=returns, **options)
    assert person.lines == []
    return answer


# --- typed questions in words ----------------------------------------------------------------


class Part(BaseModel):
    title: str = Field(description="what it is called")
    pages: int = Field(1, gt=0)


class Book(BaseModel):
    kind: Literal["novel", "poems"]
    first: Part
    tags: list[str] = Field(default_factory=list, max_length=2)
    read: bool


async def test_a_model_is_asked_field_by_field_and_nobody_writes_json() -> None:
    person = Person("Novel", "Rain", "", "wet", "grey", "", "yes")
    assert await ask(person, Book) == Book(
        kind="novel", first=Part(title="Rain"), tags=["wet", "grey"], read=True
    )
    assert person.asked == [
        "So?\nkind",
        "first.title, what it is called: text",
        "first.pages: a whole number [1]",
        "tags: one a line, then an empty line",
        "",
        "",
        "read: yes or no",
    ]


@pytest.mark.parametrize(
    ("returns", "line", "answer"),
    [
        (str, "as it is ", "as it is "),
        (int, "7", 7),
        (bool, "n", False),
        (float, " 0.5", 0.5),
        (int | None, "", None),
        (int | None, "3", 3),
        (datetime.date, "2026-11-21", datetime.date(2026, 11, 21)),
        (tuple[int, int], "[1, 2,]", (1, 2)),
        (Literal[1, 2], "2", 2),
    ],
)
async def test_what_a_person_types_is_read_as_it_is_meant(
    returns: object, line: str, answer: object
) -> None:
    assert await ask(Person(line), returns) == answer


async def test_tables_are_lines_with_a_colon_and_may_be_empty() -> None:
    assert await ask(Person("a: 1", " b :2", ""), dict[str, int]) == {"a": 1, "b": 2}
    assert await ask(Person(""), dict[str, int]) == {}


async def test_of_a_list_of_models_one_more_is_offered() -> None:
    person = Person("yes", "Rain", "2", "no")
    assert await ask(person, list[Part]) == [Part(title="Rain", pages=2)]


class Tree(BaseModel):
    value: int
    left: Tree | None = None
    marks: list[str] = ["new"]


async def test_an_empty_line_leaves_a_default_as_it_is_also_of_a_list() -> None:
    assert await ask(Person("1", "no", ""), Tree) == Tree(value=1)
    assert await ask(Person("1", "no", "old", ""), Tree) == Tree(value=1, marks=["old"])


async def test_of_a_part_that_may_be_missing_it_is_asked_whether_it_is() -> None:
    """Else a person could never come to the end of a tree."""
    person = Person("1", "yes", "2", "no", "", "")
    assert await ask(person, Tree) == Tree(value=1, left=Tree(value=2))
    assert person.asked[1] == "left: shall there be one?: yes or no"


async def test_what_is_wrong_is_said_in_clear_words_and_asked_again() -> None:
    person = Person("many", "3")
    assert await ask(person, int) == 3
    assert person.asked[1] == (
        "That will not do: answer: Input should be a valid integer, unable to parse string as an "
        "integer (it is 'many')\na whole number"
    )


async def test_a_list_that_is_too_long_is_asked_again_as_a_whole() -> None:
    person = Person("novel", "Rain", "", "a", "b", "c", "", "a", "", "yes")
    book = await ask(person, Book)
    assert isinstance(book, Book)
    assert book.tags == ["a"]
    assert "at most 2 items" in person.asked[7]


async def test_a_table_line_without_a_colon_starts_again() -> None:
    person = Person("a 1", "a: 1", "")
    assert await ask(person, dict[str, int]) == {"a": 1}
    assert "'a 1' has no `:`" in person.asked[1]


class Range(BaseModel):
    low: int
    high: int

    @field_validator("low")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value

    @model_validator(mode="after")
    def ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


async def test_only_what_the_model_refuses_is_asked_again() -> None:
    person = Person("1", "5", "2")
    assert await ask(person, Range) == Range(low=2, high=5)
    assert person.asked[2].startswith("That will not do: low: odd")


async def test_a_reason_that_names_no_field_asks_for_all_of_them() -> None:
    person = Person("4", "2", "2", "4")
    assert await ask(person, Range) == Range(low=2, high=4)
    assert "low is above high" in person.asked[2]


async def test_a_check_refuses_an_answer_with_its_reason() -> None:
    def odd(value: int) -> None:
        if value % 2 == 0:
            raise ValueError(f"{value} is even")

    person = Person("2", "3")
    assert await ask(person, int, check=odd) == 3
    assert person.asked[1] == "That will not do: 2 is even\na whole number"


async def test_who_mistypes_for_ever_gave_no_valid_answer() -> None:
    with pytest.raises(InvalidAnswer, match="'human' was asked 10 times"):
        await ask(Person(*["x"] * 10), int)
    with pytest.raises(InvalidAnswer, match="refused"):
        await ask(
            Person(*"123"), int, check=lambda value: (_ for _ in ()).throw(ValueError("refused"))
        )


async def test_two_typed_questions_to_one_person_do_not_mix() -> None:
    asked: list[str] = []

    async def answer(question: Question) -> str:
        asked.append(question.role)
        await asyncio.sleep(0)
        return "2"

    person = HumanModel(answer)
    both = [put_question(person.session(name), "Which?", returns=Range) for name in ("Ann", "Bob")]
    assert await asyncio.gather(*both) == [Range(low=2, high=2)] * 2
    assert asked == ["Ann", "Ann", "Bob", "Bob"]


# --- callbacks -------------------------------------------------------------------------------


async def test_a_callback_may_be_async_and_hears_who_is_asked_and_the_choices() -> None:
    heard = []

    async def answer(question: Question) -> str:
        heard.append(question)
        return "red"

    session = HumanModel(answer).session("Ann", system="You are Ann.")
    await session.generate([Message("Colour?")], sampling=Sampling(choices=("red", "green")))
    await session.generate([Message("Sure?"), Message("Really?")])
    assert heard == [
        Question("Ann", "Colour?", ("red", "green")),
        Question("Ann", "Sure?\nReally?"),
    ]
    assert str(heard[0]) == "Ann: Colour? (red, green)"


async def test_a_callback_that_returns_no_text_is_told_so() -> None:
    with pytest.raises(UsageError, match="returned 7 to"):
        await HumanModel(lambda question: 7).session().generate([Message("So?")])  # type: ignore
    with pytest.raises(UsageError, match="wants a function of a `Question`, got 'yes'"):
        HumanModel("yes")  # type: ignore[arg-type]


async def test_a_person_costs_a_call_and_no_money() -> None:
    session = HumanModel(lambda question: "yes").session()
    session.budget = budget = Budget(Limits(usd=0.0, tokens=1, calls=1))
    assert (await session.generate([Message("So?")])).usage.usd == 0
    assert budget.spent.calls == 1


LOOK = Tool(
    name="look",
    description="Look at a page.",
    parameters={"type": "object", "properties": {"page": {"type": "integer"}}},
)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ('look {"page": 3}', {"page": 3}),
        ("look {page: 3}", {"page": 3}),
        ("look", {}),
        ("look out, it rains", None),
        ("look 3", None),
        ("Nothing to see", None),
    ],
)
async def test_a_person_calls_a_tool_by_its_name(line: str, arguments: Any) -> None:
    questions: list[Question] = []

    def answer(question: Question) -> str:
        questions.append(question)
        return line

    session = HumanModel(answer).session("Ann")
    completion = await session.generate([Message("So?")], tools=[LOOK])
    assert str(questions[0]) == 'Ann: So?\n  look {"page": ...}  Look at a page.'
    if arguments is None:
        assert (completion.text, completion.tool_calls) == (line, [])
    else:
        assert completion.finish_reason == "tool_calls"
        assert completion.tool_calls == [ToolCall("look", arguments, "call-1")]


async def test_a_test_never_waits_for_the_keyboard() -> None:
    with pytest.raises(RealModelForbidden):
        await resolve_model("human").session().generate([Message("So?")])


# --- the terminal ----------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[TextIO, TextIO]]:
    """What a person reads from and writes to."""
    read, write = os.pipe()
    with os.fdopen(read) as source, os.fdopen(write, "w", buffering=1) as keyboard:
        yield source, keyboard


class Screen:
    """An output that can be waited for: it wakes who waits when a question is written."""

    def __init__(self) -> None:
        self.text, self.asked = "", asyncio.Queue[str]()

    def write(self, text: str) -> None:
        self.text += text
        self.asked.put_nowait(text)

    def flush(self) -> None: ...


async def test_the_loop_goes_on_while_the_person_thinks(pipe: tuple[TextIO, TextIO]) -> None:
    source, keyboard = pipe
    screen = Screen()
    asking = asyncio.create_task(Terminal(source, screen)(Question("Ann", "So?")))  # type: ignore
    assert await screen.asked.get() == "Ann: So?\n> "
    await asyncio.sleep(0)  # the loop turns
    assert not asking.done()
    keyboard.write("yes, grün\n")
    assert await asking == "yes, grün"


async def test_questions_at_once_are_put_one_after_the_other(pipe: tuple[TextIO, TextIO]) -> None:
    """Two objects for one keyboard must not listen at the same time."""
    source, keyboard = pipe
    screen = Screen()
    both = asyncio.gather(
        Terminal(source, screen)(Question("Ann", "a?")),  # type: ignore[arg-type]
        Terminal(source, screen)(Question("Bob", "b?")),  # type: ignore[arg-type]
    )
    await screen.asked.get()
    assert "Bob" not in screen.text
    keyboard.write("1\n2\n")
    assert await both == ["1", "2"]


async def test_a_cancelled_question_leaves_the_keyboard_to_the_next(
    pipe: tuple[TextIO, TextIO],
) -> None:
    source, keyboard = pipe
    screen = Screen()
    terminal = Terminal(source, screen)  # type: ignore[arg-type]
    first = asyncio.create_task(terminal(Question("Ann", "a?")))
    await screen.asked.get()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    keyboard.write("late\n")
    assert await terminal(Question("Ann", "b?")) == "late"


async def test_the_end_of_the_input_is_an_error_that_says_what_was_asked(
    pipe: tuple[TextIO, TextIO],
) -> None:
    source, keyboard = pipe
    terminal = Terminal(source, Screen())  # type: ignore[arg-type]
    keyboard.write("no line end")
    keyboard.close()
    assert await terminal(Question("Ann", "a?")) == "no line end"
    with pytest.raises(NobodyAnswers, match="input has ended, and role 'Ann' asks 'b\\?'"):
        await terminal(Question("Ann", "b?"))


async def test_an_input_that_is_no_file_is_no_terminal() -> None:
    """As pytest's, or that of a program without a console."""
    with allow_real_models(), pytest.raises(NobodyAnswers, match="There is no terminal"):
        await HumanModel().session("Ann").generate([Message("So?")])


async def test_answers_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("one\ntwo\n")
    with (tmp_path / "answers").open() as source:
        terminal = Terminal(source, Screen())  # type: ignore[arg-type]
        assert [await terminal(Question("", "?")) for _ in range(2)] == ["one", "two"]
        with pytest.raises(NobodyAnswers):
            await terminal(Question("", "?"))


PROGRAM = """
import asyncio
from typing import Literal
from rolecraft import Role

async def main():
    ann = Role(name="Ann", model="human")
    print("got", repr(await ann.ask("Which?", returns=Literal["red", "green"])))
    print("got", repr(await ann.ask("How many?", returns=int)))

asyncio.run(main())
"""


def test_a_real_terminal() -> None:
    """A program that talks to a person at a pseudo-terminal, to the end of its input."""
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=side, stdout=side, stderr=subprocess.PIPE
    )
    os.close(side)
    shown = b""

    def until(text: bytes) -> None:
        nonlocal shown
        while text not in shown:
            shown += os.read(main, 1000)

    until(b"Ann: Which? (red, green)\r\n> ")
    os.write(main, b"blue\n")
    until(b"'blue' is none of the choices. Answer with one of: red, green")
    os.write(main, b"GREEN\n")
    until(b"got 'green'")
    until(b"How many?\r\na whole number\r\n> ")
    os.write(main, b"\x04")  # Ctrl-D
    _, errors = program.communicate()
    os.close(main)
    assert program.returncode == 1
    assert b"NobodyAnswers: The input has ended, and role 'Ann' asks 'How many?" in errors


def test_a_program_in_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="red\n3\n", capture_output=True, text=True
    )
    assert [line for line in done.stdout.splitlines() if "got" in line] == [
        "> got 'red'",
        "> got 3",
    ]
