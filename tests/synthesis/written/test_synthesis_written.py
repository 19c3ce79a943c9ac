"""Bugs that models and patches write become candidates, each asked for once."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft import FunctionModel
from rolecraft.errors import ModelError, UsageError
from rolecraft.models import Completion
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.synthesis.modifiers.entities import entities
from rolecraft.synthesis.modifiers.meaning import joined
from rolecraft.synthesis.written.answers import BadAnswer, bug_line, read_function
from rolecraft.synthesis.written.by_model import write_bugs
from rolecraft.synthesis.written.combining import combine
from rolecraft.synthesis.written.given import read_patches, take_patches
from rolecraft.trajectories.events import Usage

CODE = '''class Box:
    # A box.
    def area(self, unit=1):
        """The area."""
        side = self.side  # of a square
        text = """
keep
"""
        return side * side * unit
'''


def _entity(name="Box.area"):
    return next(each for each in entities("box.py", CODE) if each.name == name)


def _answer(code, bug="BUG: wrong factor"):
    return f"{bug}\n\n```python\n{code}```\n"


def test_an_answer_takes_the_place_of_the_function_as_it_stands():
    code = "def area(self, unit=1):\n    side = self.side\n    # BUG here\n    return side * unit\n"
    new = read_function(_answer(code), _entity())
    assert new.startswith("    # A box.\n    def area(self, unit=1):\n")
    assert '"""The area."""' in new, "the docstring is put back"
    assert "BUG" not in new, "comments that were not there are taken out"
    assert "        return side * unit\n" in new


def test_a_text_of_several_lines_stays_what_it_is():
    code = 'def area(self, unit=1):\n    text = """\nkeep\n"""\n    return len(text)\n'
    assert 'text = """\nkeep\n"""' in read_function(_answer(code), _entity())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no code at all", "0 blocks"),
        (_answer("def area(self, unit=1): pass\n") * 2, "2 blocks"),
        (_answer("def area(self, unit=1:\n"), "no Python"),
        (_answer("def area(self, unit=1): pass\nx = 1\n"), "one definition"),
        (_answer("def other(self, unit=1): pass\n"), "does not define"),
        (_answer("def area(self): pass\n"), "parameters"),
        (_answer("async def area(self, unit=1): pass\n"), "async"),
    ],
)
def test_an_answer_that_is_not_that_function_is_refused(answer, why):
    with pytest.raises(BadAnswer, match=why):
        read_function(answer, _entity())


def test_an_answer_that_says_no_bug_is_refused():
    assert bug_line(_answer("x = 1\n")) == "wrong factor"
    with pytest.raises(BadAnswer):
        bug_line("```python\n# BUG: in code\n```")


class Author(FunctionModel):
    """Answers with these texts, one after the other, a cent each."""

    def __init__(self, *answers):
        super().__init__(self._next, name="author")
        self.answers, self.asked = list(answers), []

    def _next(self, call):
        self.asked.append("\n".join(message.content for message in call.messages))
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Completion(text=text, usage=Usage(10, 10, 0.01, 1))

    def estimate_usd(self, session, sampling, tools=()):
        return 0.01


SQUARE = """def square(side):
    if side < 0:
        raise ValueError("a side is not negative")
    return side + side
"""


def _candidates(made):
    return [*read_ledger(made.folder.candidates, Candidate, key=lambda each: each.id)]


def test_a_model_writes_a_bug_and_it_is_asked_once(made):
    made.plan()
    model = Author(_answer(SQUARE))
    found = asyncio.run(write_bugs(made.folder, model, most=1))
    assert (found.made, found.usd) == (1, pytest.approx(0.01))
    (candidate,) = _candidates(made)
    assert (candidate.modifier, candidate.usd, candidate.note) == ("modify", 0.01, "wrong factor")
    assert candidate.entity == "shapes/areas.py::square"
    assert (
        "return side + side"
        in candidate.texts(lambda path: (made.source / path).read_text())["shapes/areas.py"]
    )
    again = asyncio.run(write_bugs(made.folder, model, most=1))
    assert (again.made, again.before, len(model.asked)) == (0, 1, 1)


def test_an_answer_that_cannot_be_used_is_asked_for_once_more_and_then_left(made):
    made.plan()
    model = Author("nonsense", _answer(SQUARE))
    assert asyncio.run(write_bugs(made.folder, model, most=1)).made == 1
    assert "no line that begins with `BUG:`" in model.asked[1]
    other = Author("nonsense")
    found = asyncio.run(write_bugs(made.folder, other, how="rewrite", most=1))
    assert (found.made, len(other.asked)) == (0, 2)
    assert "0 blocks" in next(iter(found.nothing))


def test_what_was_paid_before_a_model_failed_is_entered_and_not_paid_again(made):
    """It once was forgotten: the next call asked again, and the budget knew of nothing."""

    class Fails(Author):
        def _next(self, call):
            if self.asked:
                raise ModelError("no more today")
            return super()._next(call)

    made.plan()
    found = asyncio.run(write_bugs(made.folder, Fails("nonsense"), most=1, usd=1.0))
    assert (found.usd, found.failed) == (pytest.approx(0.01), {})
    assert "no more today" in next(iter(found.nothing))
    again = asyncio.run(write_bugs(made.folder, Author("nonsense"), most=1, usd=1.0))
    assert again.before == 1


def test_a_question_whose_second_try_the_budget_refused_is_asked_again(made):
    """It counted as asked, though the command said that the rest is left for more money."""
    made.plan()
    found = asyncio.run(write_bugs(made.folder, Author("nonsense"), most=1, usd=0.015))
    assert (found.usd, found.made) == (pytest.approx(0.01), 0)
    again = asyncio.run(write_bugs(made.folder, Author(_answer(SQUARE)), most=1, usd=1.0))
    assert (again.made, again.before, again.usd) == (1, 0, pytest.approx(0.01))
    (candidate,) = _candidates(made)
    assert candidate.usd == pytest.approx(0.02), "with what the first try took"


def test_a_function_to_be_written_anew_is_not_shown_and_the_same_one_is_no_bug(made):
    made.plan()
    model = Author(_answer(SQUARE.replace("side + side", "side * side"), bug=""))
    found = asyncio.run(write_bugs(made.folder, model, how="rewrite", most=1))
    assert "side * side" not in model.asked[0]
    assert "def square(side)" in model.asked[0]
    assert dict(found.nothing) == {"it is the same function": 1}


def test_the_budget_ends_it_and_the_next_call_goes_on(made):
    made.plan()
    made.write(
        {
            "shapes/areas.py": "\n\n".join(
                f"def f{n}(a):\n    b = a + {n}\n    return b\n" for n in range(5)
            )
        }
    )

    def changes(call):
        text = "\n".join(message.content for message in call.messages)
        name = text.rpartition("Answer for the function ")[2].split(".")[0].strip()
        return Completion(
            text=_answer(f"def {name}(a):\n    b = a - 1\n    return b\n"),
            usage=Usage(1, 1, 0.01, 1),
        )

    model = FunctionModel(changes, name="author")
    model.estimate_usd = lambda session, sampling, tools=(): 0.01
    first = asyncio.run(write_bugs(made.folder, model, most=5, usd=0.02, at_once=1))
    assert (first.made, bool(first.stopped)) == (2, True)
    rest = asyncio.run(write_bugs(made.folder, model, most=5, usd=1.0))
    assert (rest.made, rest.before, rest.stopped) == (3, 2, "")
    assert len({each.id for each in _candidates(made)}) == 5


FIX = """diff --git a/shapes/areas.py b/shapes/areas.py
--- a/shapes/areas.py
+++ b/shapes/areas.py
@@ -7,4 +7,4 @@


 def rectangle(width, height):
-    return width + height
+    return width * height
diff --git a/tests/test_areas.py b/tests/test_areas.py
--- a/tests/test_areas.py
+++ b/tests/test_areas.py
@@ -1,1 +1,1 @@
-something that is not there
+today
""".replace("\n\n\n def", "\n \n \n def")


def test_a_fix_is_taken_back_and_the_tests_of_its_patch_are_left_aside(made):
    made.plan()
    found = asyncio.run(take_patches(made.folder, [("one.patch", FIX)]))
    assert (found.made, found.refused) == (1, {})
    (candidate,) = _candidates(made)
    assert (candidate.modifier, candidate.entity) == ("mirror", "shapes/areas.py::rectangle")
    assert [edit.text for edit in candidate.edits] == ["    return width + height\n"]
    assert asyncio.run(take_patches(made.folder, [("one.patch", FIX)])).before == 1


def test_a_patch_that_does_not_apply_is_refused_with_the_reason_and_the_rest_goes_on(made):
    made.plan()
    gone = FIX.replace("width", "breadth")
    patches = [("gone.patch", gone), ("words.patch", "just words"), ("one.patch", FIX)]
    found = asyncio.run(take_patches(made.folder, patches))
    assert found.made == 1
    assert found.refused["gone.patch"].startswith("does_not_apply: ")
    assert found.refused["words.patch"] == "it is no unified diff"


def _patch(path, *lines):
    return f"--- a/{path}\n+++ b/{path}\n" + "".join(f"{line}\n" for line in lines)


COMMENT = _patch(
    "shapes/areas.py",
    "@@ -7,4 +7,5 @@",
    *(" ", " ", " def rectangle(width, height):", "+    # both in metres"),
    "     return width * height",
)


def test_a_patch_of_comments_alone_is_refused_with_the_reason(made):
    made.plan()
    found = asyncio.run(take_patches(made.folder, [("one.patch", COMMENT)], polarity="bug"))
    assert found.made == 0
    assert found.refused == {
        "one.patch": "it changes comments and layout alone, so no test can tell"
    }
    with_a_bug = COMMENT.replace(
        "     return width * height", "-    return width * height\n+    return width + height"
    )
    plain = FIX.partition("diff --git a/tests")[0]
    both = [("plain.patch", plain), ("commented.patch", with_a_bug)]
    asyncio.run(take_patches(made.folder, both[:1]))
    again = asyncio.run(take_patches(made.folder, both[1:], polarity="bug"))
    assert again.refused == {"commented.patch": "a candidate that does the same is there"}


def test_what_the_plan_has_as_code_is_code_whatever_its_folder_is_called(made):
    """Half of such a patch, or all of it, was once left aside as tests."""
    made.write({"shapes/testing/tools.py": "def close(a, b):\n    return abs(a - b) < 1\n"})
    made.project = {"code": ("shapes/areas.py", "shapes/testing/tools.py")}
    made.plan()
    head = ("shapes/testing/tools.py", "@@ -1,2 +1,2 @@", " def close(a, b):")
    tools = _patch(*head, "-    return abs(a - b) < 1", "+    return abs(a - b) <= 1")
    mended = _patch(*head, "-    return abs(a - b) <= 1", "+    return abs(a - b) < 1")
    found = asyncio.run(take_patches(made.folder, [("tools.patch", tools)], polarity="bug"))
    assert (found.made, found.refused, found.aside) == (1, {}, {})
    asked = [("both.patch", FIX.partition("diff --git a/tests")[0] + mended)]
    assert asyncio.run(take_patches(made.folder, asked)).made == 1
    assert {edit.path for edit in _candidates(made)[-1].edits} == {
        "shapes/areas.py",
        "shapes/testing/tools.py",
    }


def test_the_tests_of_a_patch_that_are_left_aside_are_said(made):
    made.plan()
    found = asyncio.run(take_patches(made.folder, [("one.patch", FIX)]))
    assert found.aside == {"one.patch": ["tests/test_areas.py"]}
    assert _candidates(made)[0].note.endswith("taken back; left aside: tests/test_areas.py")


def test_a_patch_of_two_functions_is_the_same_as_their_combination(three_bugs):
    made = three_bugs()
    with Ledger(made.folder.candidates, Candidate, key=lambda each: each.id) as ledger:
        known = [*ledger]
    patches = [(each.id, each.patch(made.plan().reader())) for each in known]
    made.folder.candidates.unlink()
    taken = asyncio.run(take_patches(made.folder, patches, polarity="bug"))
    assert taken.made == len(known) == 3
    one, other, _ = _candidates(made)
    text = one.patch(made.plan().reader()) + other.patch(made.plan().reader())
    asyncio.run(take_patches(made.folder, [("two.patch", text)], polarity="bug"))
    assert _candidates(made)[-1].key == joined((one.key, other.key))


def test_a_patch_that_plants_a_bug_in_another_language_is_taken_as_it_is(made, tmp_path):
    made.write({"src/sum.cpp": "int sum(int a, int b) {\n  return a + b;\n}\n"})
    made.project = {"code": ("src/sum.cpp",), "runner": "ctest"}
    made.plan()
    patch = (
        "--- a/src/sum.cpp\n+++ b/src/sum.cpp\n@@ -1,3 +1,3 @@\n int sum(int a, int b) {\n"
        "-  return a + b;\n+  return a - b;\n }\n"
    )
    (tmp_path / "bugs").mkdir()
    (tmp_path / "bugs" / "minus.diff").write_text(patch)
    patches = read_patches(tmp_path / "bugs")
    assert asyncio.run(take_patches(made.folder, patches, polarity="bug")).made == 1
    (candidate,) = _candidates(made)
    assert (candidate.modifier, candidate.entity) == ("given", "src/sum.cpp")
    with pytest.raises(UsageError, match=r"no \.patch"):
        next(read_patches(made.source))


def test_valid_bugs_of_one_folder_are_combined_and_those_that_meet_are_not(three_bugs):
    made = three_bugs()
    found = combine(made.folder, within="module", most=10)
    both = [each for each in _candidates(made) if each.modifier == "combine"]
    assert found.made == len(both) >= 2
    for each in both:
        assert len(each.about["parents"]) == 2
        assert len(each.edits) == 2
        each.texts(lambda path: (made.source / path).read_text())  # they fit together
    assert combine(made.folder, within="module", most=10).made == 0


def test_a_combination_costs_nothing_of_its_own_and_names_its_parents(made):
    """Its parents' cost stands in theirs: added up in the rows, it would count twice."""
    made.plan()
    parents = [
        made.bug(
            "shapes/areas.py", "side * side", "side", "tests/test_areas.py::test_square", usd=0.25
        ),
        made.bug("shapes/names.py", ".strip()", "", "tests/test_names.py::test_it", usd=0.5),
    ]
    combine(made.folder, within="module", most=1)
    (both,) = [each for each in _candidates(made) if each.modifier == "combine"]
    assert both.usd is None
    assert sorted(both.about["parents"]) == sorted(parents)


def test_what_cannot_be_combined_is_said(made):
    made.plan()
    with pytest.raises(UsageError, match="2 valid candidates"):
        combine(made.folder)
