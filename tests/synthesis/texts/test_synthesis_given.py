"""A text tells what a test was really given, where its code alone does not say it."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import pytest

from rolecraft.sandboxes import default_provider
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.texts.given import decided
from rolecraft.synthesis.texts.solution import Sources
from rolecraft.synthesis.texts.symptom import symptoms
from rolecraft.synthesis.texts.test_code import doing
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.settings import Settings
from rolecraft.synthesis.validation.warm import WarmPytest
from rolecraft.synthesis.verdicts import Verdict

PATH = "tests/test_cases.py"
CASES = {
    "short": {"text": "a long text", "most": 9, "wanted": "a long...", "number": 1},
    "longer than a text can say": {
        "text": f"a long text{' and more' * 80}",
        "most": 9,
        "wanted": "a long...",
        "number": 2,
    },
    "with a name that must not be said": {
        "text": "a long inner.py",
        "most": 9,
        "wanted": "a long...",
        "number": 3,
    },
}
TESTS = """
import json
from pathlib import Path

import phrases
import pytest

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())


class Page:
    text = "a long text"


@pytest.fixture
def line():
    words = ["a", "long"]
    words.append("text")
    return " ".join(words)


@pytest.fixture
def page():
    made = Page()
    return made


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_case(case):
    result = phrases.shorten(case["text"], case["most"])
    if case["number"] == 0:
        result = result.upper()
    assert result == case["wanted"]


def test_line(line):
    assert phrases.shorten(line, 9) == "a long..."


def test_page(page):
    assert phrases.shorten(page.text, 9) == "a long..."
"""


def lines(nodes: list[ast.stmt]) -> list[str]:
    return [ast.unparse(ast.fix_missing_locations(each)) for each in nodes]


async def texts_of(phrases, tests: list[str]) -> dict[str, str]:
    """By failing test, the text of a bug that it alone tells of."""
    (phrases.folder.source / PATH).write_text(TESTS)
    (phrases.folder.source / "tests/cases.json").write_text(json.dumps(CASES))
    plan = replace(phrases.plan, project=replace(phrases.plan.project, tests=(PATH,)))
    plan.save(phrases.folder)
    planted = {
        f"{PATH}::{test}": phrases.plant("inner value", number=number)
        for number, test in enumerate(tests)
    }
    worker = WarmPytest(plan, Settings(), default_provider(), await Place.of(plan))
    bug = next(iter(planted.values()))[0].texts(phrases.read)
    ran = await worker.run(bug, [*planted], most=len(planted))
    await worker.close()
    with Ledger(phrases.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        for test, (_, verdict) in planted.items():
            said = {test: ran.messages[test]}
            verdicts.append(replace(verdict, fail_to_pass=(test,), messages=said))
    await describe(phrases.folder)
    return {
        test.partition("::")[2]: phrases.texts[candidate.id].text
        for test, (candidate, _) in planted.items()
    }


async def test_what_a_test_is_given_is_written_where_it_is_short_and_gives_nothing_away(phrases):
    tests = [*(f"test_case[{case}]" for case in CASES), "test_line", "test_page"]
    said = await texts_of(phrases, tests)
    own = [test for test, text in said.items() if "set-up" in text or "set up myself" in text]
    assert own == [
        "test_case[longer than a text can say]",
        "test_case[with a name that must not be said]",
    ]
    assert "page" not in said["test_page"], "nobody else has such an object, so it was not run"
    wanted = [
        *("import phrases", "", "case = {'text': 'a long text', 'most': 9}"),
        *("result = phrases.shorten(case['text'], case['most'])", "result"),
    ]
    code = said["test_case[short]"].partition("```python\n")[2].partition("\n```")[0]
    assert code.split("\n") == wanted, "without branches that are not taken, and keys not read"
    assert "'a long...'" in said["test_case[short]"]
    assert "line = 'a long text'\nphrases.shorten(line, 9)" in said["test_line"]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("case['number'] == 1", ["first()"]),
        ("case['number'] in (2, 3)", ["second()"]),
        ("not case['text']", ["first()"]),
        ("case['absent'] == 1", None),
        ("case['text'] < 1", None),
        ("other == 1", None),
    ],
)
def test_of_a_branch_that_what_is_given_decides_the_one_taken_is_left(condition, kept):
    code = f"def test_it(case):\n    if {condition}:\n        first()\n    else:\n        second()"
    node = ast.parse(code).body[0]
    made = decided(node, {"case": {"number": 1, "text": ""}})
    assert lines(made.body) == (kept or lines(node.body))


def test_a_branch_on_a_name_that_the_test_gives_another_value_is_kept():
    code = "def test_it(x):\n    x = change(x)\n    if x == 1:\n        x = 2\n    assert f(x) == 1"
    found = doing(ast.parse(code), "test_a.py::test_it[a]", 5, values={"x": 1})
    assert found is not None
    assert lines(found.before) == [
        "x = 1",
        "x = change(x)",
        "if x == 1:\n    x = 2",
    ]


def test_a_dict_that_is_used_as_a_whole_is_written_as_a_whole():
    code = "def test_it(case):\n    assert f(case['a'], len(case)) == case['b']"
    given = {"case": {"a": 1, "b": 2, "c": 3}}
    found = doing(ast.parse(code), "test_a.py::test_it[case0]", 2, values=given)
    assert found is not None
    assert lines(found.before) == ["case = {'a': 1, 'b': 2, 'c': 3}"]
    assert ast.unparse(found.expected) == "2"
    assert not found.unknown


@pytest.mark.parametrize(
    ("raised", "kept"), [("no WordTally", "no WordTally"), ("no such thing", "")]
)
def test_a_changed_name_in_an_exceptions_text_stays_if_the_project_says_it_there(
    phrases, raised, kept
):
    inner = f"def cut(tally):\n    raise TypeError({raised!r})\n"
    files = {"phrases/inner.py": inner, PATH: "import phrases\ndef test_it():\n    phrases.go()\n"}
    sources = Sources(phrases.plan.project, lambda name: files.get(name) or phrases.read(name))
    candidate, _ = phrases.plant("inner value")
    solution = Sources(phrases.plan.project, phrases.read).solution(candidate, ())
    solution = replace(solution, removed=("if not isinstance(tally, WordTally):",))
    frame = f'Traceback (most recent call last):\n  File "/box/{PATH}", line 3, in test_it\n'
    said = {f"{PATH}::test_it": f"{frame}    code\nTypeError: no WordTally"}
    (seen,) = symptoms(solution, said, sources)
    assert (seen.error, seen.message) == ("TypeError", kept)
