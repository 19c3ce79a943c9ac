"""A check in a function that the test calls is told as if it stood in the test."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.helpers import Below
from rolecraft.synthesis.texts.test_code import Way, doing

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
    found = doing(files[0], "t.py::test_x", line, (), frozenset({"m"}), way=Way(below))
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
            "def two(t):\n    a = m.f(t)\n    a2 = m.g(t)\n    assert m.h(a, a2)  # fails\n",
            "a = 'b'\ntwo(a)",
            ("import m", "a = 'b'", "a3 = m.f(a)", "a2 = m.g(a)", "m.h(a3, a2)"),
        ),
        (
            "def anew(found):\n    m.reset()\n    assert m.f(found) == 3  # fails\n",
            "anew(m.count())",
            ("import m", "found = m.count()", "m.reset()", "m.f(found)", "3"),
        ),
        (
            "def has(found):\n    assert all(x in found for x in 'ab')  # fails\n",
            "has(m.stream())",
            ("import m", "found = m.stream()", "all((x in found for x in 'ab'))"),
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
    found = doing(tree, "t.py::test_x", 4, (), frozenset({"m"}), way=Way([outer, inner]))
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
        "class T:\n    def same(self, a, b):\n        assert a == self.b  # fails\n",
        "def same(a, b):\n    assert sorted([a], key=lambda b: b.x) == b  # fails\n",
        "def same(a, b):\n    match a:\n        case 1:\n            b()  # fails\n",
        "def same(a, b):\n    try:\n        a()\n    except E as e:\n        b()  # fails\n",
    ],
)
def test_a_function_that_means_something_else_elsewhere_is_told_by_its_call(helper):
    found = told("text = 'a'\nsame(m.run(text), 'b')", own=helper)
    assert ast.unparse(found.actual) == "same(m.run(text), 'b')"


def of_class(body: str, *, line: int) -> Doing:
    """What the test of a class does, in the last line of which a method fails in this one."""
    source = f"import m\nclass TestX:\n{textwrap.indent(body, '    ')}\n"
    tree = ast.parse(source)
    last = len(source.rstrip().split("\n"))
    name = "t.py::TestX::test_x"
    found = doing(tree, name, last, (), frozenset({"m"}), way=Way([Below(tree, line)]))
    assert found is not None
    return found


def test_a_method_of_the_tests_own_is_told_with_its_attributes():
    body = "size = 3\ndef check(self, text):\n    assert m.f(text) == self.size\n"
    found = of_class(f"{body}def test_x(self):\n    self.check('a')", line=5)
    assert said(found) == ("import m", "m.f('a')", "3")


@pytest.mark.parametrize(
    "body",
    [
        # An attribute and an argument of one name are two things.
        "text = 'A'\ndef check(self, text):\n    assert m.f(text) == self.text\n"
        "def test_x(self):\n    self.check('a')",
        # It is the method of another object.
        "size = 3\ndef check(self, text):\n    assert m.f(text) == self.size\n"
        "def test_x(self):\n    m.checker().check('a')",
    ],
)
def test_a_method_whose_attributes_are_others_is_told_by_its_call(body):
    found = of_class(body, line=5)
    assert ast.unparse(found.actual).endswith("check('a')")


def test_a_class_within_a_test_keeps_its_self():
    source = (
        "import m\nclass TestX:\n    def test_x(self):\n        class Box:\n"
        "            def __init__(self):\n                self.size = 3\n"
        "        assert m.f(Box()) == 3"
    )
    found = doing(ast.parse(source), "t.py::TestX::test_x", 7, (), frozenset({"m"}))
    assert found is not None
    assert "self.size = 3" in said(found)[1]


def test_a_fixture_is_not_told_as_a_function_of_the_other_file():
    tree = ast.parse("import m\ndef test_x(client):\n    ok(client)\n")
    other = "@fixture\ndef client():\n    yield 3\ndef ok(it):\n    assert m.f(it) == 3\n"
    below = [Below(ast.parse(other), 5)]
    found = doing(tree, "t.py::test_x", 3, (), frozenset({"m"}), way=Way(below))
    assert found is not None
    assert "def client" not in "".join(said(found))


@pytest.mark.parametrize(
    "own",
    [
        "SIZE = 1\n",
        "SIZE = 1\ndef cut(text):\n    return text[:SIZE]\n",
        "from far import SIZE\n",
    ],
)
def test_a_name_that_is_two_things_in_two_files_is_not_told(own):
    """Whoever reads the text has one of them."""
    source = f"import m\n{own}def test_x():\n    sized(m.run(1))\n"
    lines = (
        "SIZE = 2",
        "def n():",
        "    return SIZE",
        "def sized(text):",
        "    assert text == n()",
    )
    way = Way([Below(ast.parse("\n".join(lines)), 5)])
    last = source.count("\n")
    assert doing(ast.parse(source), "t.py::test_x", last, (), frozenset({"m"}), way=way) is None


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
