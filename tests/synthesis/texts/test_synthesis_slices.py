"""The lines before a check that make it true are told, and which side of it was looked at."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.test_code import doing

HEAD = "import m\nfrom datetime import timedelta\nfrom decimal import Decimal\n"


def told(body: str, head: str = HEAD) -> Doing:
    """What a test of these lines does that fails in the last one."""
    source = f"{head}def test_x():\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    tree = ast.parse(source)
    line = tree.body[-1].end_lineno
    found = doing(tree, "t.py::test_x", line, (), frozenset({"m"}))
    assert found is not None
    return found


def code(found: Doing) -> str:
    lines = (ast.unparse(ast.fix_missing_locations(each)) for each in found.before)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "body",
    [
        "items = [1, 2]\nitems.append(3)\nassert m.last(items) == 3",
        "items = []\nfor i in range(3):\n    items.append(i)\nassert m.last(items) == 2",
        "d = {}\nd['a'] = 1\nassert m.f(d) == 1",
        "x = m.Thing()\nx = m.more(x)\nassert m.f(x) == 1",
        "x = m.Thing()\nx.size = 5\nassert x.area() == 25",
        "x = m.Thing()\nx['a']['b'] = 5\nassert x.area() == 25",
        "n = 0\nwhile n < 3:\n    n += 1\nassert m.f(n) == 3",
        "n = 1\nif m.ok():\n    n = 2\nassert m.f(n) == 3",
        "x = m.Thing()\ndel x['a']\nassert m.f(x) == 3",
        "x = m.Thing()\nx.a.add(3)\nassert m.f(x) == 3",
        "x = m.Thing()\ny = x.add(3)\nassert m.f(x) == 3",
        "x = m.Thing()\nif m.ok():\n    x.add(3)\nassert m.f(x) == 3",
        "x = m.Thing()\nwith x:\n    x.add(3)\nassert m.f(x) == 3",
        "with m.open() as x:\n    x.add(3)\nassert x.total == 3",
        "x = iter([1, 2, 3])\nnext(x)\nassert m.first(x) == 2",
        "m.set(3)\nassert m.get() == 3",
    ],
)
def test_what_changes_a_value_is_told_with_what_made_it(body):
    found = told(body)
    assert code(found).split("\n")[1:] == ast.unparse(ast.parse(body)).split("\n")[:-1]


def test_a_check_is_told_as_far_as_it_changes_what_is_looked_at():
    found = told("it = m.peek([1, 2])\nassert next(it) == 1\nassert len([it]) == 1\nassert it == 2")
    assert code(found) == "import m\nit = m.peek([1, 2])\nnext(it)"


def test_a_value_of_the_file_is_told_with_the_lines_that_change_it():
    head = f"{HEAD}TABLE = {{}}\nTABLE['a'] = 1\nOTHER = []\nOTHER.append(2)\n"
    found = told("assert m.f(TABLE) == 1", head)
    assert code(found) == "import m\nTABLE = {}\nTABLE['a'] = 1"


@pytest.mark.parametrize(
    ("body", "actual", "expected"),
    [
        ("result = m.total([])\nassert result == Decimal('3')", "result", "Decimal('3')"),
        ("found = m.span(1)\nassert found == timedelta(days=3)", "found", "timedelta(days=3)"),
        ("x = m.tokens('a')\nassert x == [m.T.A, m.T.B]", "x", "[m.T.A, m.T.B]"),
        ("x = m.tokens('a')\nassert [m.T.A, m.T.B] == x", "x", "[m.T.A, m.T.B]"),
        ("x = m.parse('a')\nassert m.Thing(3) == x", "x", "m.Thing(3)"),
        (
            "expected = m.f(1)\nresult = m.g(2)\nassert expected == result",
            "result",
            "m.f(1)",
        ),
        (
            "want = ','.join(sorted('ab'))\nassert m.f(1) == want",
            "m.f(1)",
            "','.join(sorted('ab'))",
        ),
        ("self.assertEqual(sorted([1]), m.f(1))", "m.f(1)", "sorted([1])"),
        ("self.assertEqual(m.f(1), sorted([1]))", "m.f(1)", "sorted([1])"),
        ("assert 3 == m.f(1)", "m.f(1)", "3"),
    ],
)
def test_the_side_that_comes_of_the_projects_code_is_the_one_looked_at(body, actual, expected):
    found = told(body)
    assert (ast.unparse(found.actual), ast.unparse(found.expected)) == (actual, expected)


def test_a_helper_of_the_tests_that_calls_the_project_reaches_it():
    head = f"{HEAD}def run(text):\n    return m.run(text)\n"
    found = told("out = run('a')\nassert out == Decimal('3')", head)
    assert ast.unparse(found.expected) == "Decimal('3')"


def test_what_is_taken_of_self_by_its_own_name_is_no_line():
    source = (
        "import m\nclass TestX:\n    a = m.Thing()\n    b = 1\n    def test_x(self):\n"
        "        a, b = self.a, self.b\n        assert m.f(a, b) == 3"
    )
    found = doing(ast.parse(source), "t.py::TestX::test_x", 7, (), frozenset({"m"}))
    assert found is not None
    assert code(found).split("\n") == ["import m", "a = m.Thing()", "b = 1"]
