"""A text tells what a test did and saw, in code of the test, without the name of what changed."""

from __future__ import annotations

import pytest

from rolecraft.synthesis.texts.failures import changed_text, compared, read_failure


@pytest.mark.parametrize("traceback", ["native", "long"])
def test_a_wrong_value_is_told_with_what_leads_to_it(described, traceback):
    text = described("inner value", traceback=traceback)
    assert "import phrases" in text
    assert "phrases.shorten(" in text
    assert "cut" not in text
    assert "inner" not in text
    assert "test_" not in text


def test_what_does_not_lead_to_the_failure_is_left_out(described):
    assert "unused" not in described("inner error")


def test_an_exception_is_told_with_its_type(described):
    text = described("inner error")
    assert "AttributeError" in text
    assert "phrases.shorten" in text


def test_an_exception_that_does_not_come_is_told(described):
    text = described("no error")
    assert "`ValueError`" in text
    assert "shorten" not in text
    assert "Cut a text to at most so many characters" in text
    assert "func('a long text', 2)" in text or "LONG = 'a long text'" in text


def test_a_method_is_described_by_its_documentation_instead_of_its_name(described):
    text = described("method")
    assert "most_common" not in text
    assert "Return the word that comes most often" in text
    assert ".method()" in text
    assert "'a'" in text
    assert "'b'" in text


def test_what_has_no_documentation_is_told_all_the_same(described):
    text = described("undocumented")
    assert "undocumented" not in text
    assert ".method()" in text


def test_the_parameters_of_a_test_are_told_with_their_values(phrases):
    from rolecraft.synthesis.texts.solution import Sources
    from rolecraft.synthesis.texts.symptom import symptoms

    candidate, verdict = phrases.plant("boundary")
    sources = Sources(phrases.plan.project, phrases.read)
    name = "tests/test_phrases.py::test_short_enough[a long text-a long text-11]"
    solution = sources.solution(candidate, verdict.fail_to_pass)
    (seen,) = symptoms(solution, {name: verdict.messages[name]}, sources)
    assert "text = 'a long text'" in seen.code
    assert "most = 11" in seen.code
    assert seen.expected == "'a long text'"
    assert seen.got == "'a long t...'"
    assert not seen.unknown


def test_texts_of_several_lines_are_shown_as_they_look(phrases):
    from rolecraft.synthesis.texts.solution import Sources
    from rolecraft.synthesis.texts.symptom import symptoms
    from rolecraft.synthesis.texts.templates import filled_in

    candidate, verdict = phrases.plant("inner strip")
    sources = Sources(phrases.plan.project, phrases.read)
    solution = sources.solution(candidate, verdict.fail_to_pass)
    name = "tests/test_phrases.py::test_of_lines"
    (seen,) = symptoms(solution, {name: verdict.messages[name]}, sources)
    text = filled_in(seen, task="a", project="phrases")
    assert "```\none\ntwo...\n```" in text
    assert "```\nne\nt...\n```" in text


def test_the_same_task_has_the_same_text_and_others_are_worded_otherwise():
    from rolecraft.synthesis.texts.symptom import Symptom
    from rolecraft.synthesis.texts.templates import filled_in

    seen = Symptom("value", ("x = 1",), "x + 1", "2", "3")
    texts = {filled_in(seen, task=f"task {number}", project="p") for number in range(60)}
    assert len(texts) > 30
    assert filled_in(seen, task="a", project="p") == filled_in(seen, task="a", project="p")


def test_documentation_that_is_quoted_keeps_its_spaces():
    from rolecraft.synthesis.texts.masking import StandIn
    from rolecraft.synthesis.texts.symptom import Symptom
    from rolecraft.synthesis.texts.templates import filled_in

    about = "The reverse of :func:`more` (of a , b )"
    named = StandIn("func", "a function", about)
    seen = Symptom("value", ("x = 1",), "func(x)", "2", "3", stand_ins=(named,))
    for number in range(20):
        text = filled_in(seen, task=f"task {number}", project="p")
        assert about in text
        assert not any(gap in text for gap in ("p :", "p )", "p ,")), "no version, no gap"


def test_what_another_runner_prints_is_told_without_the_places():
    from rolecraft.synthesis.texts.symptom import _of_output

    seen = _of_output("/src/check.cpp:12: expected 3, got 4\n[  FAILED  ] Sums.one\nsum of 1 and 2")
    assert seen is not None
    assert seen.message == "expected 3, got 4\nsum of 1 and 2"


@pytest.mark.parametrize(
    ("message", "sides"),
    [
        ("assert 1 == 2", ("1", "2")),
        ("assert 'a == b' == 'c'\n  \n  - c", ("'a == b'", "'c'")),
        ("3 != 4", ("3", "4")),
        ("Lists differ: [1] != [2]\n\nFirst", ("[1]", "[2]")),
        ("assert 'aaaaaaaaaaaaa...bbbbbbbbbbbbb' == 'c'", None),
        ("something else", None),
    ],
)
def test_the_two_sides_of_a_comparison_are_read_or_left(message, sides):
    assert compared(message) == sides


def test_what_came_is_read_from_the_lines_of_a_diff():
    message = "assert 'a\\nb' == 'a\\nc'\n  \n    a\n  - c\n  + b".replace("\n  ", "\n")
    assert changed_text(message, "a\nc") == "a\nb"
    assert changed_text(message, "something else") is None


def test_a_failure_without_a_line_of_the_test_has_none():
    assert read_failure("tests/test_a.py::test_b", "ImportError: no").line is None


def test_a_test_of_a_base_class_is_found_with_what_its_class_sets_up():
    import ast

    from rolecraft.synthesis.texts.test_code import doing

    tree = ast.parse(
        "class Shared:\n"
        "    def test_it(self):\n"
        "        made = self.make(2)\n"
        "        assert made.size == self.size\n"
        "class TestOne(Shared):\n"
        "    size = 2\n"
        "    def make(self, n):\n"
        "        return Box(n)\n"
    )
    found = doing(tree, "tests/test_a.py::TestOne::test_it", 4)
    assert found is not None
    code = [ast.unparse(ast.fix_missing_locations(each)) for each in found.before]
    assert code == ["def make(n):\n    return Box(n)", "made = make(2)"]
    assert ast.unparse(found.expected) == "2"
    assert not found.unknown


def test_every_text_says_what_its_stand_ins_are_also_after_others_of_the_same_file(phrases):
    """The tree of a file of tests is read for many tests: masking one leaves it as it is."""
    from rolecraft.synthesis.texts.solution import Sources
    from rolecraft.synthesis.texts.symptom import symptoms

    candidate, verdict = phrases.plant("no error")
    sources = Sources(phrases.plan.project, phrases.read)
    solution = sources.solution(candidate, verdict.fail_to_pass)
    first, second = (symptoms(solution, dict(verdict.messages), sources) for _ in range(2))
    assert [each.name for each in first[0].stand_ins] == ["func"]
    assert first == second


def of_test(phrases, source, message, others=None):
    """The symptoms of a failing `test_it`, on the last line of this source."""
    import ast

    from rolecraft.synthesis.texts.solution import Sources
    from rolecraft.synthesis.texts.symptom import symptoms

    path = "tests/test_phrases.py"
    given = {path: source, **(others or {})}
    solution = Sources(phrases.plan.project, phrases.read).solution(
        phrases.plant("inner value")[0], ()
    )
    sources = Sources(
        phrases.plan.project, lambda name: given[name] if name in given else phrases.read(name)
    )
    line = ast.parse(source).body[-1].end_lineno
    head = "Traceback (most recent call last):\n"
    text = f'{head}  File "/box/{path}", line {line}, in test_it\n    code\n{message}'
    return symptoms(solution, {f"{path}::test_it": text}, sources)


def test_a_name_of_which_nothing_tells_the_value_is_not_what_was_expected(phrases):
    source = "import phrases\ndef test_it(wanted):\n    assert phrases.shorten('a') == wanted\n"
    assert of_test(phrases, source, "AssertionError: assert 'b...") == []
    (seen,) = of_test(phrases, source, "AssertionError: assert 'b' == 'a'")
    assert (seen.expected, seen.got, seen.unknown) == ("'a'", "'b'", ())
    (seen,) = of_test(phrases, source, "TypeError: no")
    assert (seen.expected, seen.error, seen.unknown) == ("", "TypeError", ())


def test_what_prints_is_told_also_where_nothing_reads_its_result(phrases):
    source = (
        "import phrases\ndef test_it(capsys):\n    code = phrases.main(['a'])\n"
        "    assert code == 0\n    captured = capsys.readouterr()\n    assert not captured.out\n"
    )
    (seen,) = of_test(phrases, source, "AssertionError: assert not 'x'")
    assert "code = phrases.main(['a'])" in seen.code


def test_what_was_printed_is_not_told_without_what_was_done(phrases):
    source = "def test_it(capsys):\n    got = capsys.readouterr()\n    assert not got.out.strip()\n"
    assert of_test(phrases, source, "AssertionError: assert not 'x'") == []


def test_a_title_speaks_of_documentation_only_where_it_is_quoted():
    from rolecraft.synthesis.texts.masking import StandIn
    from rolecraft.synthesis.texts.symptom import Symptom
    from rolecraft.synthesis.texts.templates import filled_in

    def titles(*named: StandIn) -> set[str]:
        seen = Symptom("value", ("x = 1",), "func(x)", "2", "3", stand_ins=named)
        texts = (filled_in(seen, task=f"task {number}", project="p") for number in range(60))
        return {text.partition("\n")[0] for text in texts}

    quoting = titles(StandIn("func", "a function", "Add one"))
    assert any("documentation" in title for title in quoting)
    for named in ((), (StandIn("func", "a function", ""),)):
        assert not any("documentation" in title for title in titles(*named))


def test_frames_of_a_traceback_are_no_part_of_what_an_exception_says():
    frames = (
        '  |   File "/env/site-packages/_pytest/runner.py", line 3, in run\n  |     call()\n'
        "  | ValueError: no\n/env/site-packages/_pytest/warn.py:12: a warning\n    kept"
    )
    text = 'Traceback (most recent call last):\n  File "/b/test_a.py", line 4, in test_b\nE: it\n'
    message = read_failure("test_a.py::test_b", text + frames).message
    assert message == "it\n  | ValueError: no\n    kept"


def test_the_value_of_a_fixture_that_returns_one_is_told(phrases):
    conftest = (
        "import pytest\nfrom phrases import Tally\n@pytest.fixture\ndef few():\n"
        "    '''Words.'''\n    return ['b', 'a']\n@pytest.fixture(name='tally')\n"
        "def _tally():\n    yield Tally(['a'])\n    print('over')\n"
        "@pytest.fixture\ndef much(few):\n    return few * 9\n"
    )
    source = (
        "import phrases, pytest\n@pytest.fixture\ndef most():\n    return 3\n"
        "def test_it(few, most, tally, much):\n    tally.add(few)\n"
        "    assert phrases.shorten(few, most, tally, much) == ['b']\n"
    )
    given = {"tests/conftest.py": conftest}
    (seen,) = of_test(phrases, source, "AssertionError: assert 1 == ['b']", given)
    for line in ("few = ['b', 'a']", "most = 3", "tally = Tally(['a'])"):
        assert line in seen.code
    assert "from phrases import Tally" in seen.code
    assert seen.unknown == ("much",)
    assert "fixture" not in "\n".join(seen.code)


@pytest.mark.parametrize(
    ("reads", "expression"),
    [
        ("    assert capsys.readouterr().out == 'a b'\n", "output"),
        ("    out, err = capsys.readouterr()\n    assert out == 'a b'\n", "output"),
        ("    out = capsys.readouterr().out\n    assert out == 'a b'\n", "output"),
        ("    got = capsys.readouterr()\n    assert got.err == 'a b'\n", "errors"),
        ("    said = capsys.readouterr().out.strip()\n    assert said == 'a b'\n", "said"),
    ],
)
def test_what_is_printed_is_told_without_words_of_pytest(phrases, reads, expression):
    from rolecraft.synthesis.texts.templates import filled_in

    source = f"import phrases\ndef test_it(capsys):\n    phrases.main(['a'])\n{reads}"
    (seen,) = of_test(phrases, source, "AssertionError: assert 'a' == 'a b'")
    assert "phrases.main(['a'])" in seen.code
    assert (seen.expression, seen.expected, seen.got) == (expression, "'a b'", "'a'")
    text = filled_in(seen, task="a", project="p")
    assert "capsys" not in text
    assert "readouterr" not in text
    error = expression == "errors"
    assert ("is printed to the standard error" if error else "what is printed") in text
    if expression == "said":
        assert "said = output.strip()" in seen.code


def test_what_is_read_twice_of_what_is_printed_stays_as_it_is(phrases):
    """Each time has another text, and one name cannot stand for both."""
    source = (
        "import phrases\ndef test_it(capsys):\n    phrases.main(['a'])\n"
        "    first = capsys.readouterr().out\n    phrases.main(['b'])\n"
        "    assert first == capsys.readouterr().out\n"
    )
    (seen,) = of_test(phrases, source, "AssertionError: assert 'a' == 'b'")
    assert seen.printed == ()
