"""Planted breaches of demands that a program can check, and answers that keep them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy.detectors import TaskSpec
from rolecraft.failure_taxonomy.planting import Make, Score, Script, Turn, Use
from rolecraft.failure_taxonomy.requirements import read_from

MODE = "task_spec"


def answered(draw: Any, task: str, answer: str, **more: Any) -> Script:
    """A run that ends with an answer: of the role that the goal names, or of a team of one."""
    solver, other = draw.role(), draw.role()
    if draw.one_of(True, False):
        turns = [Turn(other, says=draw.say()), Turn(solver, says=answer)]
        turns += [Turn(other, says=draw.say())] if draw.one_of(True, False) else []
        more["goal"] = {"answer": solver}
    else:
        turns = [Turn(solver, "Think", says=draw.say()), Turn(solver, says=answer)]
    about = {"task": draw.one_of(task, {"prompt": task}) if task else None}
    return Script(turns, about=about, stop=draw.one_of("idle", "finished"), **more)


def sentence(draw: Any, count: int) -> str:
    return " ".join(draw.one_of("red", "green", "blue", "it's", "so-so") for _ in range(count))


# --- a demand is broken ---------------------------------------------------------------------------


def too_long(draw: Any) -> Script:
    limit = draw.number(3, 12)
    task = draw.one_of(
        f"Name the colours. Answer in at most {limit} words.",
        f"Name the colours.\nYour answer must not exceed {limit} words.",
        f"Reply in {limit} words or fewer! {draw.say()}",
        f"Please respond with no more than {limit} words.",
    )
    return answered(draw, task, sentence(draw, limit + draw.number(1, 30)))


def no_bare_number(draw: Any) -> Script:
    task = draw.one_of(
        "How many are there? Answer with the bare number.",
        "Count them. Reply with just a number.",
        "Respond with a single number only.",
        "Your answer must be only a number.",
    )
    count = draw.number(0, 99)
    return answered(draw, task, draw.one_of(f"There are {count} of them.", "forty-two", "none"))


def no_json(draw: Any) -> Script:
    task = draw.one_of(
        "List the files. Respond with JSON only.",
        "Answer in JSON and nothing else.",
        "Reply only in valid JSON.",
    )
    answer = draw.one_of('Here it is: {"files": 1}', '{"files": 1', draw.say(), "['a', 'b']")
    return answered(draw, task, answer)


def neither_yes_nor_no(draw: Any) -> Script:
    task = draw.one_of("Is it? Answer with yes or no.", 'Reply only with "yes" or "no".')
    return answered(draw, task, draw.one_of("Perhaps.", "Yes, because it is so.", draw.say()))


def stated_in_the_header(draw: Any) -> Script:
    entry, answer = draw.one_of(
        ({"at_most_words": 5}, sentence(draw, 9)),
        ({"at_least_words": 20}, sentence(draw, 9)),
        ({"format": "word"}, sentence(draw, 2)),
        ({"schema": {"answer": "number"}}, json.dumps({"answer": "12"})),
        ({"schema": {"answer": "number"}}, json.dumps({"result": 12})),
        ({"schema": {"right": "boolean"}}, json.dumps({"right": 1})),
        ({"schema": {"n": "integer"}}, json.dumps({"n": True})),
        ({"pattern": r"The answer is \d+"}, "It is 12."),
    )
    return answered(draw, "", answer, constraints=[{"name": "rule", **entry}])


def a_forbidden_tool(draw: Any) -> Script:
    tool = draw.one_of("web_search", "shell")
    task, listed = draw.one_of(
        (f"{draw.say()} Do not use the `{tool}` tool.", None),
        (f"{draw.say()} You must not use any tools.", None),
        ("", [{"name": "offline", "forbidden_tools": [tool, "curl"]}]),
    )
    role = draw.role()
    turns = [Turn(role, does=[draw.reading()] * draw.number(0, 1), says=draw.say())] * (not task)
    turns.append(Turn(role, does=[Use(tool, {"q": draw.say()}, draw.say())], says=draw.say()))
    stop = draw.one_of("finished", "rounds", None)
    return Script(turns, about={"task": task}, constraints=listed, stop=stop)


def a_file_is_missing(draw: Any) -> Script:
    names = [draw.file() for _ in range(draw.number(1, 3))]
    role = draw.role()
    turns = [Turn(role, does=[Make(name, draw.say())], says=draw.say()) for name in names[1:]]
    turns.append(Turn(role, says=draw.say()))
    return Script(turns, constraints=[{"name": "files", "required_files": names}])


# --- none is --------------------------------------------------------------------------------------


def short_enough(draw: Any) -> Script:
    limit = draw.number(3, 12)
    answer = sentence(draw, draw.number(1, limit))
    return answered(draw, f"Answer in at most {limit} words.", f"{answer} - .")


def a_number_it_is(draw: Any) -> Script:
    """Wrong or not, it is a bare number."""
    answer = draw.one_of("42", "-3.5", "1/2", "1,000", " 7 ", "42.", "$12", "3e8", "50%")
    return answered(draw, "How many? Answer with the bare number.", answer)


def json_it_is(draw: Any) -> Script:
    answer = draw.one_of('{"a": 1}', "[1, 2]", '```json\n{"a": 1}\n```', "12", ' {"a": []}\n')
    return answered(draw, "Respond with JSON only.", answer)


def kept_as_stated(draw: Any) -> Script:
    entry, answer = draw.one_of(
        ({"at_most_words": 5}, sentence(draw, 5)),
        ({"format": "yes_no"}, "Yes."),
        ({"schema": {"answer": "number"}}, json.dumps({"answer": 12, "why": "so"})),
        ({"pattern": r"(?i)the answer is \d+"}, "Well: the answer is 12."),
        ({"schema": {"x": "whatever"}}, json.dumps({"x": None})),
        ({"at_most_words": "five"}, sentence(draw, 50)),
        ({"pattern": "("}, sentence(draw, 5)),
        ({"format": "sonnet"}, sentence(draw, 5)),
        ({"at_most_words": 1, "mode": "role_spec"}, sentence(draw, 5)),
    )
    return answered(draw, "", answer, constraints=[{"name": "rule", **entry}])


def it_is_about_something_else(draw: Any) -> Script:
    """Limits of a part, of an example, of what others write: none of the answer's."""
    task = draw.one_of(
        "Write an article; each paragraph has at most 5 words.",
        "Answer in at most 3 words per colour.",
        "The title must not exceed 2 words.",
        "If you do not know, answer with the bare number.",
        "Answer at length. Summaries may have at most 3 words.",
        "The user may answer in JSON.",
        "Explain how to answer with a number.",
        "Reply in about 3 words.",
        "Answer with a number and its unit.",
        "Do not use tools that cost money.",
        "Use tools.",
        "They asked: answer with yes or no, or at length.",
    )
    script = answered(draw, task, sentence(draw, 30))
    turn = Turn(script.turns[0].role, does=[draw.writing()], says=draw.say())
    script.turns = [turn, *script.turns]
    return script


def cut_off(draw: Any) -> Script:
    """There is no answer yet."""
    role = draw.role()
    why = draw.one_of("rounds", "limit", "error", None)
    turns = [Turn(role, says=sentence(draw, 30))]
    return Script(turns, about={"task": "Answer in at most 3 words."}, stop=why)


def who_answers_is_not_said(draw: Any) -> Script:
    """The last message of a team may be a thank-you to the one who answered."""
    one, two = draw.role(), draw.role()
    turns = [Turn(one, says="42"), Turn(two, says=draw.say())]
    return Script(turns, about={"task": "Answer with the bare number."})


def another_tool(draw: Any) -> Script:
    role = draw.role()
    turns = [Turn(role, does=[draw.reading()], says=draw.say())]
    return Script(turns, constraints=[{"name": "offline", "forbidden_tools": ["web_search"]}])


def the_files_are_there(draw: Any) -> Script:
    names = [draw.file() for _ in range(draw.number(1, 3))]
    role = draw.role()
    turns = [Turn(role, does=[Make(name, draw.say())], says=draw.say()) for name in names]
    return Script(turns, constraints=[{"name": "files", "required_files": names}])


POSITIVE = [
    too_long,
    no_bare_number,
    no_json,
    neither_yes_nor_no,
    stated_in_the_header,
    a_forbidden_tool,
    a_file_is_missing,
]
NEGATIVE = [
    short_enough,
    a_number_it_is,
    json_it_is,
    kept_as_stated,
    it_is_about_something_else,
    cut_off,
    who_answers_is_not_said,
    another_tool,
    the_files_are_there,
]


async def test_broken_demands_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(TaskSpec(), MODE, positive=POSITIVE, negative=NEGATIVE, seeds=12))


@pytest.mark.parametrize(
    ("task", "kind", "value"),
    [
        ("Answer in fewer than ten words.", "at_most_words", 9),
        ("Reply in five words or fewer.", "at_most_words", 5),
        ("Your answer may have up to 80 words.", "at_most_words", 80),
        ("Answer in one word.", "format", "word"),
        ("Answer with the bare number.", "format", "number"),
        ("Don't use tools.", "forbidden_tools", ["*"]),
        ("Never call `shell`.", "forbidden_tools", ["shell"]),
    ],
)
def test_a_demand_is_read_from_a_plain_sentence(task: str, kind: str, value: Any) -> None:
    (found,) = read_from(f"Do it well. {task} Thank you.")
    assert (found.name, found.kind, found.value) == (task, kind, value)
