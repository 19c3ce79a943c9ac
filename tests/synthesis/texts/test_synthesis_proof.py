"""A text is kept if its code, as it is written, gives what it says: with the bug and without."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.texts.proof import Facts, Proof, is_so
from rolecraft.synthesis.texts.solution import Sources
from rolecraft.synthesis.texts.symptom import Symptom
from rolecraft.synthesis.texts.templates import filled_in
from rolecraft.synthesis.verdicts import Verdict

TEST = "tests/test_phrases.py::test_shortened"
SHORTEN = ("import phrases",)
TRUE = Symptom("value", SHORTEN, "phrases.shorten('a long text', 9)", "'a long...'", "'a lon...'")

PLACE = ("import phrases", "class Place:\n    def __repr__(self):\n        return 'here'")
MASKED = {"masked": (("func", "cut"),), "test": TEST}


def claims() -> dict[str, tuple[str, Symptom, bool]]:
    """Bugs, what is said of them, and whether that is so."""
    value = replace(TRUE, test=TEST)
    error = Symptom("error", SHORTEN, value.expression, "", "", "AttributeError", test=TEST)
    lines = ("import phrases", "words = ['a', 'b']", "words.append('b')")
    common = Symptom(
        *("value", lines, "phrases.Tally(words).method()", "'b'", "'a'"),
        masked=(("method", "most_common"),),
        test=TEST,
    )
    silent = Symptom("no-error", ("Thing('a b', 2)",), "", "ValueError", test=TEST)
    said = ("from phrases import shorten", "print(shorten('a long text', 9))")
    return {
        "true": ("inner value", value, True),
        "another value came": ("inner value", replace(value, got="'a long te'"), False),
        "another was expected": ("inner value", replace(value, expected="'a lo...'"), False),
        "the sides are exchanged": (
            "inner value",
            replace(value, expression="'a long...'", expected="phrases.shorten('a long text', 9)"),
            False,
        ),
        "an import is left out": ("inner value", replace(value, code=()), False),
        "it is right with the bug": (
            "inner value",
            replace(value, expression="phrases.shorten('a', 9)", expected="'a'", got=""),
            False,
        ),
        "an exception": ("inner error", error, True),
        "another exception": ("inner error", replace(error, error="TypeError"), False),
        "another text of it": ("inner error", replace(error, message="no such thing"), False),
        "no exception": ("inner value", error, False),
        "a stand-in": ("method", common, True),
        "a line is left out": ("method", replace(common, code=lines[:2]), False),
        "no exception comes": (
            "no error",
            replace(silent, masked=(("Thing", "shorten"),)),
            True,
        ),
        "it would not come anyway": (
            "no error",
            replace(silent, code=("Thing('a', 2)",), masked=(("Thing", "shorten"),)),
            False,
        ),
        "a condition": (
            "undocumented",
            Symptom(
                *("condition", SHORTEN, "phrases.Tally(['a']).attribute() == 1"),
                masked=(("attribute", "undocumented"),),
                test=TEST,
            ),
            True,
        ),
        "what is printed": (
            "inner value",
            replace(value, code=said, expression="'long...' in output", kind="condition"),
            True,
        ),
        "an object that is shown as the one expected": (
            "undocumented",
            Symptom(
                *("value", PLACE, "(Place(), phrases.Tally(['a']).attribute())[0:2]"),
                *("(Place(), 1)", "(here, 2)"),
                masked=(("attribute", "undocumented"),),
                test=TEST,
            ),
            True,
        ),
        "a name that another package has too": (
            "inner value",
            Symptom("value", ("import pytest",), "func('ab', 2)", "'ab'", "'a'", **MASKED),
            True,
        ),
        "what nobody else has": (
            "inner value",
            replace(value, code=("import phrases", "texts.sort()"), unknown=("texts",)),
            False,
        ),
    }


async def test_what_is_said_of_a_bug_is_run_as_it_is_written(phrases):
    from rolecraft.synthesis.texts.masking import StandIn

    sources = Sources(phrases.plan.project, phrases.read)
    conftest = phrases.folder.source / "tests/conftest.py"
    conftest.write_text("import pytest\npytest.cut = len\n")
    proof = Proof(phrases.plan, sources)
    found = {}
    for what, (bug, symptom, _) in claims().items():
        if "output" in symptom.expression:
            symptom = replace(symptom, printed=(StandIn("output", "what is printed", ""),))
        candidate, verdict = phrases.plant(bug)
        solution = sources.solution(candidate, verdict.fail_to_pass)
        text = filled_in(symptom, task=candidate.id, project="phrases")
        found[what] = await proof.says_true(text, symptom, symptom, candidate, solution)
    await proof.close()
    assert proof.why == ""
    assert found == {what: so for what, (*_, so) in claims().items()}


async def test_every_text_by_a_template_is_run_before_it_is_kept(phrases):
    planted = [phrases.plant(name)[0] for name in ("inner value", "no error", "method")]
    verdicts = phrases.folder.verdicts
    verdicts.write_text(verdicts.read_text().replace("'a lon...'", "'a lo...'"))
    found = await describe(phrases.folder)
    assert (found.unproven, found.why_unproven, found.total) == (0, "", 3)
    text = phrases.texts[planted[0].id].text
    assert "a lo..." not in text, "what is not so is left out"
    assert "phrases.shorten(text, 9)" in text


async def test_where_no_code_can_be_told_that_is_so_the_output_alone_is_quoted(phrases):
    """A long class of the tests' file is not told, so code that needs it is none."""
    path = phrases.folder.source / "tests/test_phrases.py"
    more = "".join(f"    more{number} = {number}\n" for number in range(20))
    own = f"class Box:\n    text = LONG\n{more}\n\ndef test_shortened():\n    box = Box()\n"
    text = path.read_text().replace("def test_shortened():\n    text = LONG\n", own)
    path.write_text(text.replace("phrases.shorten(text, 9)", "phrases.shorten(box.text, 9)"))
    candidate, verdict = phrases.plant("inner value")
    line = 1 + text[: text.index("phrases.shorten(text, 9)")].count("\n")
    said = re.sub(r"line \d+, in test_sho", f"line {line}, in test_sho", verdict.messages[TEST])
    with Ledger(phrases.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(replace(verdict, messages={TEST: said}))
    await describe(phrases.folder, prove=False)
    assert "box = Box()" in phrases.texts[candidate.id].text
    found = await describe(phrases.folder, again=True)
    text = phrases.texts[candidate.id].text
    assert found.unproven == 0
    assert "Box" not in text
    assert "AssertionError: assert 'a lon...' == 'a long...'" in text


async def test_without_an_environment_texts_are_kept_and_counted(phrases):
    project = replace(phrases.plan.project, environment=str(phrases.folder.path / "gone"))
    replace(phrases.plan, project=project).save(phrases.folder)
    phrases.plant("inner value")
    found = await describe(phrases.folder)
    assert (found.total, found.unproven) == (1, 1)
    assert "not there" in found.why_unproven


async def test_tests_of_other_runners_are_not_run(phrases):
    project = replace(phrases.plan.project, runner="junit", test_command=("true",), report="r.xml")
    plan = replace(phrases.plan, project=project)
    assert Proof(plan, Sources(project, phrases.read)).why


@pytest.mark.parametrize(
    ("clean", "buggy", "so"), [(("1", "1"), ("2", "1"), True), (("1", "1"), ("1", "2"), False)]
)
def test_the_side_that_is_another_with_the_bug_is_what_came(clean, buggy, so):
    """Both sides are equal without the bug, whichever is said to be expected."""

    def facts(sides: tuple[str, str]) -> Facts:
        value, expected = sides
        equal = value == expected
        return Facts(looked=({"value": value, "expected": expected, "equal": equal, "got": []},))

    seen = Symptom("value", (), "f(1)", "g(2)")
    assert is_so(seen, facts(clean), facts(buggy)) is so
