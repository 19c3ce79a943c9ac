"""The values of a parametrized test are found by the ids that pytest really makes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from rolecraft.synthesis.texts.test_code import doing

TESTS = """
import pytest

PAIRS = (
    ("box", "boxes"),
    ("ox", "oxen"),
)
MORE = PAIRS + (("a b", "\\u00e9"),)
BY_NAME = {"one": 1, "two": 2}
NUMBERS = [1, 2, 2]
ONE = ("box", "boxes")


def check(*values):
    assert repr(values) == ""


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_named(left, right):
    check(left, right)


@pytest.mark.parametrize("left, right", MORE)
def test_added(left, right):
    check(left, right)


@pytest.mark.parametrize("left, right", BY_NAME.items())
def test_items(left, right):
    check(left, right)


@pytest.mark.parametrize("left, right", [(b, a) for a, b in PAIRS])
def test_comprehended(left, right):
    check(left, right)


@pytest.mark.parametrize(("left",), [(word,) for word in BY_NAME])
def test_keys(left):
    check(left)


@pytest.mark.parametrize("right", [[1], None, "x" * 3])
@pytest.mark.parametrize("left", NUMBERS)
def test_twice(left, right):
    check(left, right)


@pytest.mark.parametrize("left", [*NUMBERS, ValueError], ids=["a", "b", None, None])
def test_with_ids(left):
    check(left)


@pytest.mark.parametrize("left, right", [ONE, pytest.param(1, 2, id="mine")])
def test_named_item(left, right):
    check(left, right)
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """By test id, the values that pytest really gave the test."""
    folder = tmp_path_factory.mktemp("parameters")
    (folder / "test_params.py").write_text(TESTS)
    options = ["-vv", "--tb=no", "-rN", "-p", "no:cacheprovider", "--rootdir=."]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", "console_output_style=classic"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.endswith(" FAILED")]
    assert len(lines) == 26, done.stdout
    return [line.removesuffix(" FAILED") for line in lines]


def test_the_values_of_every_id_of_pytest_are_found(failed):
    tree = ast.parse(TESTS)
    for test in failed:
        found = doing(tree, test, None)
        assert found is not None
        assert not found.unknown, test


@pytest.mark.parametrize(
    ("test", "values"),
    [
        ("test_named[ox-oxen]", ["ox", "oxen"]),
        ("test_added[a b-\\xe9]", ["a b", "é"]),
        ("test_items[two-2]", ["two", 2]),
        ("test_comprehended[boxes-box]", ["boxes", "box"]),
        ("test_twice[2_1-None]", [2, None]),
        ("test_with_ids[b]", [2]),
        ("test_named_item[box-boxes]", ["box", "boxes"]),
        ("test_named_item[mine]", [1, 2]),
    ],
)
def test_a_value_is_what_stands_in_the_module(failed, test, values):
    whole = f"test_params.py::{test}"
    assert whole in failed
    found = doing(ast.parse(TESTS), whole, None)
    assert found is not None
    given = [each for each in found.before if isinstance(each, ast.Assign)]
    told = {each.targets[0].id: ast.literal_eval(each.value) for each in given}
    assert [told[name] for name in ("left", "right") if name in told] == values


def test_a_name_that_is_changed_later_is_not_told():
    tree = ast.parse(
        "ALL = ['a']\nALL += ['b']\n"
        "@pytest.mark.parametrize('x', ALL)\ndef test_it(x):\n    assert f(x) == 1\n"
    )
    found = doing(tree, "test_a.py::test_it[a]", 5)
    assert found is not None
    assert found.unknown == {"x"}
