"""What a name in a text's code stands for, where an import of it would say too much."""

from __future__ import annotations

import ast

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.texts.masking import Masking, imports_of
from rolecraft.synthesis.texts.solution import Changed, Solution, Sources
from rolecraft.synthesis.texts.symptom import Symptom, plain, symptoms
from rolecraft.synthesis.texts.templates import filled_in
from rolecraft.synthesis.texts.test_code import doing

CODE = ("pkg/__init__.py", "pkg/names.py", "pkg/rest.py")
SOLUTION = Solution(
    changed=(Changed("pkg/names.py", ("check",)),),
    removed=("    return 1",),
    added=("    return 2",),
    rare=frozenset(),
    modifiers=("x",),
    tests=("tests/test_names.py::test_check",),
    package="pkg",
)
TEST = """from pkg.names import check as c, Other, other as o
from pkg.rest import more
import pkg.names

c(Other(), o(more), pkg.names.third)
"""


def test_a_name_whose_import_is_left_out_is_said_to_be_the_projects():
    tree = ast.parse(TEST)
    masking = Masking(SOLUTION, imports_of(tree, CODE))
    made = [masking(node) for node in tree.body]
    lines = [ast.unparse(ast.fix_missing_locations(node)) for node in made if node is not None]
    assert lines == ["from pkg.rest import more", "func(Other(), o(more), third)"]
    assert masking.own == {"Other": "Other", "o": "other", "third": "third"}
    own = tuple(masking.own.items())
    symptom = Symptom("value", (), lines[-1], "1", "2", own=own)
    text = filled_in(symptom, task="pkg__x__1", project="pkg")
    assert "`Other`, `o` (`other`), `third`" in text
    assert "names" not in text


@pytest.mark.parametrize(
    ("docstring", "about"),
    [
        ("Count the words of a text. Slowly.", "Count the words of a text"),
        ("A human-readable size (e.g. 3 MB). More.", "A human-readable size (e.g. 3 MB)"),
        ("Like :class:`dict`, with :py:meth:`~pkg.get`.", "Like dict, with pkg.get"),
        ("Short.", ""),
    ],
)
def test_the_first_sentence_of_the_documentation_is_quoted_as_it_reads(docstring, about):
    text = f'def check():\n    """{docstring}"""\n    return 1\n'
    project = Project(name="pkg", source="-", code=("pkg/names.py",), tests=())
    at = text.index("1\n")
    edits = (Edit("pkg/names.py", at, at + 1, "2"),)
    candidate = Candidate(id="a", modifier="x", entity="pkg/names.py::check", edits=edits, key="a")
    solution = Sources(project, lambda path: text).solution(candidate, ())
    assert [each.about for each in solution.changed] == [about]


def test_a_relative_import_is_told_as_users_write_it():
    text = "from ..core import f\nfrom . import g\nfrom ....far import h\n"
    project = Project(name="pkg", source="-", code=(), tests=(), python_path=("src",))
    tree = Sources(project, lambda path: text).tree("src/pkg/tests/test_a.py")
    assert tree is not None
    assert ast.unparse(tree).split("\n") == [
        *("from pkg.core import f", "from pkg.tests import g", "from ....far import h"),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [("from pkg.rest import Box", 1), ("from tests.boxes import Box", 0), ("from . import Box", 0)],
)
def test_code_that_needs_a_module_of_the_tests_is_not_told(line, told):
    """Nobody else has it."""
    files = {"tests/test_names.py": f"{line}\n\ndef test_check():\n    assert Box(3) == 4\n"}
    project = Project(
        name="pkg",
        source="-",
        code=CODE,
        tests=("tests/__init__.py", "tests/boxes.py", "tests/test_names.py"),
    )
    said = (
        "Traceback (most recent call last):\n"
        '  File "/box/tests/test_names.py", line 4, in test_check\n'
        "    assert Box(3) == 4\nAssertionError: assert 3 == 4\n"
    )
    sources = Sources(project, lambda path: files.get(path, ""))
    found = symptoms(SOLUTION, {SOLUTION.tests[0]: said}, sources)
    assert len(found) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [("AssertionError: 0 != 1", 0), ("KeyError: 2", 0), ("KeyError: 'it is empty'", 1)],
)
def test_a_message_without_a_word_is_not_quoted_alone(said, told):
    text = f'Traceback (most recent call last):\n  File "/a.py", line 4, in f\n    f()\n{said}\n'
    assert len(plain({"tests/test_names.py::test_check": text})) == told


def lines_of(source: str, test: str) -> list[str]:
    tree = ast.parse(source)
    found = doing(tree, test, source.count("\n"), (), frozenset({"m"}))
    assert found is not None
    return [ast.unparse(ast.fix_missing_locations(each)) for each in found.before]


def test_the_folder_that_pytest_gives_is_made_by_whoever_reads():
    source = "import m\ndef test_x(tmp_path):\n    assert m.f(tmp_path / 'a') == 3\n"
    assert {*lines_of(source, "t.py::test_x")} == {
        *("import m", "from pathlib import Path", "from tempfile import mkdtemp"),
        "tmp_path = Path(mkdtemp())",
    }


def test_a_method_that_changes_the_test_itself_is_not_told_as_a_function():
    source = (
        "import m\nclass TestX:\n    def count(self):\n        self.n += 1\n"
        "    def test_x(self):\n        assert m.f(self.count) == 3\n"
    )
    assert lines_of(source, "t.py::TestX::test_x") == ["import m"]
