"""Each of the published modifiers: a function, and all that becomes of it."""

from __future__ import annotations

from random import Random
from textwrap import dedent

import pytest

from rolecraft.synthesis.modifiers import entities, known


def afters(name: str, before: str) -> list[str]:
    """What a modifier makes of the first entity that it is for."""
    text = dedent(before).strip() + "\n"
    modifier = known()[name]
    entity = next(each for each in entities("a.py", text) if each.kind in modifier.kinds)
    found = []
    for variant in modifier.variants(entity, Random(0)):
        changed = entity.as_text(variant)
        assert entity.key_of(changed) != entity.key, variant.note
        found.append(changed)
    return found


def check(name: str, before: str, expected: list[str]) -> None:
    assert afters(name, before) == [dedent(text).strip() + "\n" for text in expected]


def within(line: str) -> str:
    return f"def f(self, a, b, c, xs):\n    {line}\n"


LINES = [
    ("invert-if", "return a if b else c", ["return c if b else a"]),
    ("invert-if", "return a if b else a", []),
    ("invert-if", "if a and b: c()", ["if not (a and b): c()"]),
    ("invert-if", "if a == b: c()", []),  # `change-comparison` has it
    ("invert-if", "if not a: c()", []),  # `dropped-not` has it
    ("change-operator", "return a + b", ["return a - b"]),
    ("change-operator", "return a // b", ["return a * b", "return a % b"]),
    ("change-operator", "return a & b", ["return a | b"]),
    ("change-operator", "return a @ b", []),
    ("change-operator", "return 'x' + a", []),
    ("change-operator", "return '%s' % a", []),
    ("change-operator", "a += 1", ["a -= 1"]),
    ("change-operator", "a += [b]", []),
    ("change-comparison", "return a == b", ["return a != b"]),
    ("change-comparison", "return a < b <= c", ["return a >= b <= c", "return a < b > c"]),
    ("change-comparison", "return a not in b", ["return a in b"]),
    ("change-comparison", "return a if b is c else 1", []),  # `invert-if` has it
    ("change-comparison", "assert a == b, a != c", ["assert a != b, a != c"]),
    ("swap-operands", "return a - b", ["return b - a"]),
    ("swap-operands", "return a - (b - c)", ["return (b - c) - a", "return a - (c - b)"]),
    ("swap-operands", "return a - b - c", ["return c - (a - b)", "return b - a - c"]),
    ("swap-operands", "return a + b", []),
    ("swap-operands", "return a - a", []),
    ("swap-operands", "return 'x' + a", ["return a + 'x'"]),
    ("swap-operands", "return '%s' % a", []),
    ("swap-operands", "return a < b", ["return b < a"]),
    ("swap-operands", "return a == b", []),
    ("break-chain", "return a + b - c", ["return a + b", "return a - c"]),
    ("break-chain", "return a + b", []),
    ("break-chain", "return a.strip(b).lower()", ["return a.lower()", "return a.strip(b)"]),
    ("break-chain", "return a.b.lower()", []),
    ("change-constant", "return a[3]", ["return a[4]", "return a[2]"]),
    ("change-constant", "return 0", ["return 1"]),
    ("change-constant", "return -1", ["return -2"]),
    ("change-constant", "return 0.5", ["return 1.5"]),
    ("change-constant", "a(b=True)", ["a(b=False)"]),
    ("change-constant", "raise ValueError('x', 3)", []),
    ("change-constant", "log.debug('%d', 3)", []),
    ("remove-operand", "return a and b", ["return a", "return b"]),
    ("remove-operand", "return a and (b or c)",
        ["return a", "return (b or c)", "return a and (b)", "return a and (c)"]),
    ("remove-call", "a.reset()", ["pass"]),
    ("remove-call", "log.debug(a)", []),
    ("remove-call", "yield a()", []),
    ("remove-assignment", "self.x = 1", ["pass"]),
    ("remove-assignment", "a[b] = c; return a", ["return a"]),
    ("remove-assignment", "a = b; return a", ["return a"]),  # a parameter has a value
    ("remove-assignment", "d = b; return d", []),  # it would be a `NameError`
    ("remove-assignment", "a += 1", ["pass"]),
    ("remove-assignment", "d: int", []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "lines"), LINES)
def test_a_line_becomes(name: str, line: str, lines: list[str]) -> None:
    check(name, within(line), [within(each) for each in lines])


def test_branches_change_places_with_what_is_said_in_them() -> None:
    check(
        "invert-if",
        """
        def f(a):
            if a:  # why
                # one
                return 1
            else:
                return 2
        """,
        [
            """
            def f(a):
                if a:
                    return 2
                else:  # why
                    # one
                    return 1
            """
        ],
    )


def test_statements_change_places_if_one_needs_the_other() -> None:
    """What has no value yet is not used, what does not matter is not moved."""
    check(
        "shuffle-statements",
        """
        def f(self, a, b):
            '''Docstring.'''
            c = 1
            d = 2
            a = a + 1
            b = a * 2
            e = b
            print(c, d, e)
            return a
        """,
        [
            """
            def f(self, a, b):
                '''Docstring.'''
                c = 1
                d = 2
                b = a * 2
                a = a + 1
                e = b
                print(c, d, e)
                return a
            """,
            """
            def f(self, a, b):
                '''Docstring.'''
                c = 1
                d = 2
                a = a + 1
                e = b
                b = a * 2
                print(c, d, e)
                return a
            """,
        ],
    )
    check(
        "shuffle-statements",
        """
        def f(self, xs):
            for x in xs:
                self.count += 1
                # keep
                x.add(self.count)
                self.other = 3
        """,
        [
            """
            def f(self, xs):
                for x in xs:
                    # keep
                    x.add(self.count)
                    self.count += 1
                    self.other = 3
            """
        ],
    )


CONDITION = """
def f(a, b):
    x = 0
    if a:
        x = 1
    elif b:
        x = 2
    else:
        x = 3
    return x
"""


def test_a_condition_and_each_of_its_branches_can_be_missing() -> None:
    check(
        "remove-condition",
        CONDITION,
        [
            "def f(a, b):\n    x = 0\n    x = 1\n    return x\n",
            CONDITION.replace("    if a:\n        x = 1\n    elif b", "    if b"),
            CONDITION.replace("    elif b:\n        x = 2\n", ""),
        ],
    )


def test_a_guard_can_be_missing_and_what_follows_it_is_reached() -> None:
    """Without its condition nothing after it would run: that is no change that a person makes."""
    check(
        "remove-condition",
        "def f(a):\n    if not a:\n        return 1\n    return 2",
        ["def f(a):\n    return 2"],
    )


@pytest.mark.parametrize(
    "idle",
    [
        "if a:\n        return",
        "for x in a:\n        a()\n        if a: continue",
        "if a:\n        pass",
    ],
)
def test_a_condition_that_decides_nothing_is_left_alone(idle: str) -> None:
    for name in ("remove-condition", "removed-guard", "dropped-jump"):
        assert afters(name, f"def f(a):\n    a()\n    {idle}") == []


def test_a_loop_that_leaves_in_its_first_round_is_not_made_an_if() -> None:
    assert afters("remove-loop", "def f(a):\n    while a:\n        a = 1\n        return a") == [
        "def f(a):\n    pass\n"
    ]


def test_a_branch_that_gives_a_name_its_only_value_stays() -> None:
    check(
        "remove-condition",
        "def f(a):\n    if a:\n        x = 1\n    else:\n        y = 1\n    return x",
        ["def f(a):\n    x = 1\n    return x"],
    )


LOOPS = """
def f(a, xs):
    while a > 1:  # so
        a -= 1
    for x in xs:
        a += x
    return a
"""


def test_a_loop_can_be_missing_or_run_once() -> None:
    check(
        "remove-loop",
        LOOPS,
        [
            LOOPS.replace("    while a > 1:  # so\n        a -= 1\n", ""),
            LOOPS.replace("    for x in xs:\n        a += x\n", ""),
            LOOPS.replace("while", "if"),
        ],
    )
    assert afters("remove-loop", "def f(xs):\n    for x in xs:\n        y = x\n    return y") == []
    assert afters("remove-loop", "def f(xs):\n    for x in xs:\n        yield x\n") == []
    assert (
        afters("remove-loop", "def f(xs):\n    while xs:\n        yield xs.pop()\n        continue")
        == []
    )


def test_what_stands_around_a_block_can_be_missing() -> None:
    check(
        "remove-wrapper",
        "def f(self, a):\n    with self.lock:\n        a()",
        ["def f(self, a):\n    a()"],
    )
    check(
        "remove-wrapper",
        """
        def f(a):
            try:
                a(1)
            except ValueError:
                a(2)
            else:
                a(3)
            finally:
                a(4)
        """,
        [
            "def f(a):\n    a(1)\n    a(3)\n    a(4)",
            """
            def f(a):
                try:
                    a(1)
                except ValueError:
                    a(2)
                else:
                    a(3)
            """,
        ],
    )
    assert afters("remove-wrapper", "def f(a):\n    with a as b:\n        return b") == []


def test_a_base_can_be_missing() -> None:
    check(
        "remove-base",
        "class A(B, c.D):\n    x = 1",
        ["class A(c.D):\n    x = 1", "class A(B):\n    x = 1"],
    )
    check("remove-base", "class A(B):\n    x = 1", ["class A:\n    x = 1"])
    check(
        "remove-base", "class A(B, metaclass=M):\n    x = 1", ["class A(metaclass=M):\n    x = 1"]
    )
    assert afters("remove-base", "class A(object, Generic[T]):\n    x = 1") == []  # fmt: skip


def test_a_method_can_be_missing_unless_the_class_reads_it_while_it_is_made() -> None:
    check(
        "remove-method",
        """
        class A:
            def __repr__(self):
                return "A"

            # of f
            def f(self):
                return 1

            def g(self):
                return 2

            x = property(g)

            @property
            def h(self):
                return 3

            @h.setter
            def h(self, value):
                pass
        """,
        [
            """
            class A:
                def __repr__(self):
                    return "A"

                def g(self):
                    return 2

                x = property(g)

                @property
                def h(self):
                    return 3

                @h.setter
                def h(self, value):
                    pass
            """
        ],
    )


def test_of_a_class_the_constants_of_its_attributes_are_changed() -> None:
    """Those in its methods are the methods' own."""
    modifier = known()["change-constant"]
    (entity, _) = entities("a.py", "class A:\n    x = True\n\n    def f(self):\n        return 1\n")
    (variant,) = modifier.variants(entity, Random(0))
    assert (
        entity.as_text(variant) == "class A:\n    x = False\n\n    def f(self):\n        return 1\n"
    )


def test_a_function_on_one_line_stays_on_one() -> None:
    check("remove-call", "def f(a): a()", ["def f(a): pass"])
    check("remove-assignment", "def f(a): a = 1; return a", ["def f(a): return a"])
