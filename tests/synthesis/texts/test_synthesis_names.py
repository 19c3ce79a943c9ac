"""What a name in a text's code stands for, where an import of it would say too much."""

from __future__ import annotations

import ast

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.texts.masking import Masking, imports_of
from rolecraft.synthesis.texts.solution import Changed, Solution, Sources
from rolecraft.synthesis.texts.symptom import Symptom
from rolecraft.synthesis.texts.templates import filled_in

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
