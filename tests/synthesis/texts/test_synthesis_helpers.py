"""A check in a function that the test calls is told as if it stood in the test."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.helpers import Below
from rolecraft.synthesis.texts.test_code import doing

SAME = "def same(wanted, found):\n    print(wanted)\n    assert found == wanted  # fails\n"


def told(test: str, *, own: str = "", elsewhere: str = "") -> Doing:
    """What a test does that fails in its last line, and from there on in lines with `# fails`."""
    test = f"def test_x():\n{textwrap.indent(test, '    ')}\n"
    file = f"import m\n{own}{test}"
    files = [ast.parse(file), ast.parse(elsewhere)]
    below = [
        Below(tree, number)
        for tree, text in zip(files, (file, elsewhere), strict=True)
        for number, line in enumerate(text.split("\n"), 1)
        if line.endswith("# fails")
    ]
    line = len(file.rstrip().split("\n"))
    found = doing(files[0], "t.py::test_x", line, (), frozenset({"m"}), below=below)
    assert found is not None
    return found


def said(found: Doing) -> tuple[str, ...]:
    """The lines before, what was looked at, and what was expected."""
    nodes = [*found.before, found.actual, found.expected]
    return tuple(ast.unparse(ast.fix_missing_locations(each)) for each in nodes if each is not None)


@pytest.mark.parametrize(
    ("helper", "call", "says"),
    [
        (SAME, "same(3, m.f(1))", ("import m", "m.f(1)", "3")),
        (SAME, "same(found=m.f(1), wanted=3)", ("import m", "m.f(1)", "3")),
        (SAME, "wanted = m.f(1)\nsame(3, wanted)", ("import m", "wanted = m.f(1)", "wanted", "3")),
        (
            SAME,
            "found = m.f(1)\nwanted = 3\nsame(found, wanted)",
            ("import m", "found = m.f(1)", "found", "3"),
        ),
        (
            "def runs(text, size=2):\n    made = m.run(text, size)\n    assert made  # fails\n",
            "made = 'a'\nruns(made)",
            ("import m", "made = 'a'", "made2 = m.run(made, 2)", "made2"),
        ),
        (
            "def runs(text):\n    return m.run(text)  # fails\n",
            "runs('a')",
            ("import m", "m.run('a')"),
        ),
        (
            "def twice(x):\n    assert m.f(x) == x + x  # fails\n",
            "twice(m.two())",
            ("import m", "x = m.two()", "m.f(x)", "x + x"),
        ),
        (
            "def each(xs):\n    for x in xs:\n        assert m.f(x) == x  # fails\n",
            "each([1, 2])",
            ("import m", "xs = [1, 2]", "for x in xs:\n    m.f(x)", "m.f(x)", "x"),
        ),
    ],
)
@pytest.mark.parametrize("far", [False, True])
def test_a_check_in_a_function_is_told_in_the_place_of_its_call(helper, call, says, far):
    if far:
        name = helper.removeprefix("def ").partition("(")[0]
        found = told(call, own=f"from checks import {name}\n", elsewhere=f"import m\n{helper}")
    else:
        found = told(call, own=helper)
    assert said(found) == says


def test_a_function_that_calls_another_is_told_to_its_end():
    helpers = SAME + "def right(text):\n    same('b', m.run(text))  # fails\n"
    # A traceback has the outer one first.
    outer, inner = (Below(ast.parse(helpers), line) for line in (5, 3))
    tree = ast.parse("import m\nfrom checks import right\ndef test_x():\n    right('a')\n")
    found = doing(tree, "t.py::test_x", 4, (), frozenset({"m"}), below=[outer, inner])
    assert found is not None
    assert said(found) == ("import m", "m.run('a')", "'b'")


def test_what_the_other_file_defines_is_told_with_it():
    head = "import m\nSIZE = 2\nOTHER = 3\n"
    helper = "def sized(text):\n    assert len(m.run(text, SIZE)) == SIZE  # fails\n"
    found = told("sized('a')", own="from checks import sized\n", elsewhere=head + helper)
    assert said(found)[:2] == ("import m", "SIZE = 2")


@pytest.mark.parametrize(
    "helper",
    [
        "def same(*both):\n    assert both[0] == both[1]  # fails\n",
        "def same(a, b):\n    if a is b:\n        return\n    assert a == b  # fails\n",
        "def same(a, b):\n    global last\n    last = a\n    assert a == b  # fails\n",
        "@loud\ndef same(a, b):\n    assert a == b  # fails\n",
        "def same(a, b):\n    assert m.f(a) == b == text  # fails\n",
        "def same(a, b):\n    import text\n    assert text.f(a) == b  # fails\n",
        "def other(a, b):\n    assert a == b  # fails\nsame = other\n",
    ],
)
def test_a_function_that_means_something_else_elsewhere_is_told_by_its_call(helper):
    found = told("text = 'a'\nsame(m.run(text), 'b')", own=helper)
    assert ast.unparse(found.actual) == "same(m.run(text), 'b')"


def test_a_name_that_is_two_things_in_two_files_is_not_told():
    """Whoever reads the text has one of them."""
    tree = ast.parse("import m\nSIZE = 1\ndef test_x():\n    sized(m.run(SIZE))\n")
    elsewhere = ast.parse("SIZE = 2\ndef sized(text):\n    assert len(text) == SIZE\n")
    below = [Below(elsewhere, 3)]
    assert doing(tree, "t.py::test_x", 4, (), frozenset({"m"}), below=below) is None


@pytest.mark.parametrize("traceback", ["native", "long"])
def test_a_check_in_another_file_is_told_with_what_came(described, traceback):
    """pytest says no values there: they come of running the text's own code."""
    text = described("checked elsewhere", traceback=traceback)
    assert "same" not in text
    assert "```python\n['ab', 'cd', 'e']\n```" in text
    assert "```python\n['bc', 'de']\n```" in text


def test_a_check_in_a_method_is_told_with_the_arguments_of_its_call(described):
    text = described("checked by a method")
    assert "['a', 'b']" in text
    assert "```python\n['1 a', '2 b']\n```" in text
    assert "```python\n['-1 a', '0 b']\n```" in text
    assert "check" not in text
