"""Where a name surely has a value, and of what kind it is."""

from __future__ import annotations

import libcst as cst
import pytest

from rolecraft.synthesis.modifiers.bindings import bindings_of
from rolecraft.synthesis.modifiers.kinds import kinds_in


def function(body: str, head: str = "def f():") -> cst.FunctionDef:
    node = cst.parse_statement("\n".join([head, *(f"    {line}" for line in body.splitlines())]))
    assert isinstance(node, cst.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("a = 1\nHERE", "a"),
        ("HERE\na = 1", ""),
        ("a = HERE", ""),
        ("if c:\n    a = 1\nHERE", ""),
        ("if c:\n    a = 1\n    HERE", "a"),
        ("for a in HERE:\n    pass", ""),
        ("for a, (b, *d) in c:\n    HERE", "a b d"),
        ("for a in c:\n    pass\nHERE", ""),
        ("with c as a:\n    HERE", "a"),
        ("with c as a:\n    b = 1\nHERE", "a"),
        ("try:\n    a = 1\nexcept E as e:\n    HERE", "e"),
        ("[HERE for a in c]", "a"),
        ("[a for a in HERE]", ""),
        ("[a for a in c if HERE for b in d]", "a"),
        ("{b: HERE for a, b in c}", "a b"),
        ("[a for a in c]\nHERE", ""),
        ("c(lambda a: HERE)", "a"),
        ("def g(a, *b, d=HERE):\n    pass", ""),
        ("def g(a, *b, d, **e):\n    HERE", "a b d e"),
        ("a = 1\ndef g():\n    HERE", "a"),
        ("x[a := 1]\nHERE", ""),
        ("a: int = 1\nb: int\nHERE", "a"),
        ("a = b = 1\ndel b\nHERE", "a"),
        ("global a\na = 1\nHERE", ""),
        ("x.a = y[b] = 1\nHERE", ""),
        ("match c:\n    case a:\n        HERE", ""),
        ("while c:\n    a = 1\nelse:\n    HERE", ""),
    ],
)
def test_what_has_a_value_at_a_place(body: str, bound: str) -> None:
    """On the safe side: a name bound in a branch is taken to have a value in this branch only."""
    bindings = bindings_of(function(body))
    (place,) = [place for name, place in bindings.uses if name.value == "HERE"]
    assert {*bindings.at(place)} == {*bound.split()}


def test_parameters_are_known_as_such() -> None:
    bindings = bindings_of(function("b = 1\nHERE", head="def f(a, /, *args, c=1, **kwargs):"))
    (place,) = [place for name, place in bindings.uses if name.value == "HERE"]
    there = bindings.at(place)
    assert {name for name, each in there.items() if each.is_parameter} == {
        *("a", "args", "c", "kwargs")
    }
    assert {*there} == {"a", "args", "b", "c", "kwargs"}
    assert bindings.bound == {"f", "a", "args", "b", "c", "kwargs"}


@pytest.mark.parametrize(
    ("body", "name", "kind"),
    [
        ("return a < 1", "a", "number"),
        ("for a in range(2): pass", "a", "number"),
        ("for a, b in enumerate(c): pass", "a", "number"),
        ("return x[a:]", "a", "number"),
        ("return a + 1", "a", "number"),
        ("self.a = len(x)", "self.a", "number"),
        ("a.strip()", "a", "str"),
        ("return a == 'x'", "a", "str"),
        ("a = '%s' % b", "a", "str"),
        ("a = f'{b}'", "a", "str"),
        ("a, b = '', 1", "a", "str"),
        ("a.append(1)", "a", "list"),
        ("a = [b for b in c]", "a", "list"),
        ("a.items()", "a", "dict"),
        ("a = not b", "a", "bool"),
        ("return a()", "a", "called"),
        ("return [*a]", "a", "iterated"),
        ("yield from a", "a", "iterated"),
        ("return sorted(a)", "a", "iterated"),
        ("return f(*a)", "a", "iterated"),
        ("return a.b", "a", ".b"),
        ("return b in a", "a", "container"),
        ("a: list[int] = b", "a", ": list[int]"),
    ],
)
def test_what_use_tells_of_a_name(body: str, name: str, kind: str) -> None:
    assert kind in kinds_in(function(body)).of(name)


def test_kinds_that_exclude_each_other_are_never_shared() -> None:
    """A number and a text that are both compared and ordered are still not taken for each other."""
    kinds = kinds_in(function("return a < 1 and b < 'x' and c < 2 and d.e"))
    assert kinds.shared("a", "b") == 0
    assert not kinds.may_be_same("a", "b")
    assert kinds.shared("a", "c") == 2
    assert kinds.may_be_same("a", "d")
    assert kinds.is_object("d")
    assert not kinds.is_object("a")
