"""Lines are given to statements, and statements to the tests that run any of their lines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rolecraft.synthesis.planning.seen import seen, statements

TEXT = '''\
LIMIT = [
    1,
]


@cache
def area(
    side=LIMIT,
):
    """A docstring."""

    if (
        side
    ):
        return (
            side *
            side
        )
    else:
        return 0


class Shape:
    name = "shape"

    def told(self): return self.name
'''


def test_statements_over_several_lines_are_one_thing() -> None:
    found = {tuple(lines): early for lines, early in statements(TEXT)}
    assert found == {
        (1, 2, 3): True,
        (6, 7, 8, 9): True,  # decorator and default: when the module is imported
        (10,): False,
        (12, 13, 14, 19): False,  # `if` with its `else`
        (15, 16, 17, 18): False,
        (20,): False,
        (23,): True,
        (24,): True,
        (26,): False,
    }


@pytest.mark.parametrize("path", sorted(Path("rolecraft/synthesis").glob("*.py")))
def test_no_line_belongs_to_two_statements(path: Path) -> None:
    text = (Path(__file__).parents[3] / path).read_text("utf-8")
    lines = [line for several, _ in statements(text) for line in several]
    assert len(lines) == len(set(lines))
    assert {node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)} <= {
        *lines
    }


def test_tests_of_lines_of_imports_and_of_shared_fixtures() -> None:
    """A fixture that several tests share was set up in one of them, and all of them see it."""
    said = {
        "contexts": ["", "test_a", "test_b", "\0000"],
        "sets": [[0], [1], [2], [3], [0, 2]],
        "users": {"\0000": ["test_b", "test_c"]},
        "files": {
            "a.py": {"1": 0, "6": 0, "12": 1, "13": 2, "16": 3, "20": 4},
            "never.py": {},
        },
    }
    seen_by, on_import = seen(said, lambda path: TEXT)
    assert seen_by["a.py"] == {
        **dict.fromkeys((12, 13, 14, 19), ("test_a", "test_b")),
        **dict.fromkeys((15, 16, 17, 18), ("test_b", "test_c")),
        20: ("test_b",),
    }
    assert on_import["a.py"] == (1, 2, 3, 6, 7, 8, 9, 20, 23, 24)
    assert "never.py" not in seen_by
