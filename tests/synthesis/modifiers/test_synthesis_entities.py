"""Entities, their variants as text, and when two versions of one do the same."""

from __future__ import annotations

import libcst as cst
import pytest

from rolecraft.synthesis.modifiers.entities import Entity, Refused, Variant, entities

TEXT = """\
# a comment of the file
import os


# of f
@decorated
def f(a):  # why
    return a   +  1


class A:
    x = 1

    def g(self):
        # inside
        return  1

    if os.name:
        async def h(self):
            yield 2

    # after


try:
    pass
except Exception:
    def k(): return 3
else:
    class B:
        pass

def stub(): ...
"""


def of(text: str, name: str) -> Entity:
    return next(each for each in entities("a.py", text) if each.name == name)


def one_more(entity: Entity) -> Variant:
    (number, *_) = entity.find(cst.Integer)
    return entity.replacing(number, cst.Integer("9"), note="n")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace("    ", "\t"), TEXT.rstrip(), "\ufeff" + TEXT])
def test_a_variant_keeps_all_else_of_the_file(text: str, line_end: str) -> None:
    """Whatever the indentation and the line ends; with and without one at the end of the file."""
    text = text.replace("\n", line_end)
    found = [each.name for each in entities("a.py", text)]
    assert found == ["f", "A", "A.g", "A.h", "k", "B"]
    for entity in entities("a.py", text):
        assert entity.as_text(Variant(entity.node, "")) == entity.text
        assert text[entity.start :].startswith(entity.text)
        if not entity.find(cst.Integer):
            continue
        edit = entity.edit(entity.as_text(one_more(entity)))
        made = text[: edit.start] + edit.text + text[edit.end :]
        old, new = text.splitlines(), made.splitlines()
        assert len(old) == len(new)
        assert [(was, now) for was, now in zip(old, new, strict=True) if was != now] == [
            (was, was.replace(was.strip("\x20\t:")[-1], "9"))
            for was in old
            if was == old[entity.lines(one_more(entity))[0] - 1]
        ]


def test_a_form_feed_ends_no_line() -> None:
    """Python counts it as a space; entities after it stand where they stand."""
    text = "x = 1\n\x0c\ndef f():\n    return 'a\x0cb'\n\n\ndef g():\n    return 2\n"
    for entity in entities("a.py", text):
        assert text[entity.start :].startswith(entity.text)
        assert entity.text.rstrip().endswith(("2", "'"))


def test_a_file_that_libcst_does_not_take_is_refused() -> None:
    with pytest.raises(Refused, match="line 1"):
        entities("a.py", "print 'x'\n")


CLASS = """\
class A:
    x = 1

    def f(self):
        return 1

    def g(self):
        return 2
"""


def test_the_key_is_that_of_the_only_method_that_changed() -> None:
    """So that a change of the class and one of the method are not planted twice."""
    changed = CLASS.replace("return 2", "return 3")
    whole, method = of(CLASS, "A"), of(CLASS, "A.g")
    assert whole.key_of(changed) == method.key_of("    def g(self):\n        return  3  # so\n")
    assert whole.key_of(changed) != whole.key
    assert method.key_of(method.text) == method.key
    for other in (
        changed.replace("return 1", "return 0"),  # two methods
        changed.replace("x = 1", "x = 2"),
        CLASS.replace("x = 1", "x = 2"),
        CLASS.replace("    def g(self):\n        return 2\n", ""),
    ):
        assert whole.key_of(other) not in {whole.key_of(changed), whole.key, method.key}


def test_a_key_sees_what_python_sees() -> None:
    entity = of("def f(a):\n    return (a+1)  # why\n", "f")
    assert entity.key_of("def f(a):\n    return a + 1\n") == entity.key
    assert entity.key_of("def f(a):\n    return a + 2\n") != entity.key
    same = of("def g(a):\n    return (a+1)\n", "g")
    assert same.key != entity.key


@pytest.mark.parametrize("body", ["return 1 +", "break", "nonlocal a", "await a"])
def test_what_python_refuses_has_no_key(body: str) -> None:
    """Also what its parser takes and only its compiler refuses."""
    entity = of(CLASS, "A.g")
    with pytest.raises(SyntaxError):
        entity.key_of(f"    def g(a):\n        {body}\n")


def test_odd_escapes_of_the_code_are_no_warnings_of_ours() -> None:
    assert of("def f():\n    return '\\d' is x\n", "f").key
