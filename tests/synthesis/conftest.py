"""A folder of synthesis whose candidates are planted, validated and described by hand; and the
files of a project in C++.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.synthesis.verdicts import Status, Verdict

CMAKE = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.16)
project(shapes VERSION 1.2 LANGUAGES CXX)
enable_testing()
add_library(shapes src/area.cpp)
target_include_directories(shapes PUBLIC include)
file(GLOB tests tests/*.cpp)
foreach(test ${tests})
  get_filename_component(name ${test} NAME_WE)
  add_executable(${name} ${test})
  target_link_libraries(${name} shapes)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
""",
    "include/area.hpp": "int area(int side);\nint area(int width, int height);\n",
    "src/area.cpp": """#include "area.hpp"

int area(int side) {
    return area(side, side);
}

int area(int width, int height) {
    return width * height;
}
""",
    "tests/square.cpp": '#include "area.hpp"\nint main() { return area(3) == 9 ? 0 : 1; }\n',
    "tests/negative.cpp": '#include "area.hpp"\nint main() { return area(-2) == 4 ? 0 : 1; }\n',
    "tests/rectangle.cpp": '#include "area.hpp"\nint main() { return area(2, 3) == 6 ? 0 : 1; }\n',
}
AREAS = '''"""Areas."""


def square(side):
    if side < 0:
        raise ValueError("a side is not negative")
    return side * side


def rectangle(width, height):
    return width * height
'''
NAMES = """def title(name):
    return name.strip().capitalize()


def initials(names):
    return "".join(name[0] for name in names)
"""
TEST_AREAS = """import pytest

from shapes.areas import rectangle, square


def test_square():
    assert square(3) == 9


def test_no_square():
    assert square(0) == 0
    with pytest.raises(ValueError):
        square(-1)


def test_rectangle():
    assert rectangle(2, 3) == 6
"""
TEST_NAMES = """from shapes.names import initials, title


def test_title():
    assert title(" circle") == "Circle"


def test_initials():
    assert initials(["circle", "square"]) == "cs"
"""
FILES = {
    "shapes/__init__.py": "",
    "shapes/areas.py": AREAS,
    "shapes/names.py": NAMES,
    "tests/conftest.py": "",
    "tests/test_areas.py": TEST_AREAS,
    "tests/test_names.py": TEST_NAMES,
    "README": "Shapes.\n",
}
TESTS = (
    "tests/test_areas.py::test_square",
    "tests/test_areas.py::test_no_square",
    "tests/test_areas.py::test_rectangle",
    "tests/test_names.py::test_title",
    "tests/test_names.py::test_initials",
)


@dataclass
class Made:
    """A folder, and what was put into it."""

    folder: SynthesisFolder
    project: dict[str, Any] = field(default_factory=dict)
    """Fields of the project that are not the usual ones."""
    ids: list[str] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return self.folder.source

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, text in files.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def plan(self, *, tests: tuple[str, ...] = TESTS, seen: dict[str, Any] | None = None) -> Plan:
        fields: dict[str, Any] = {
            "name": "shapes",
            "version": "1.2",
            "source": str(self.source),
            "code": ("shapes/__init__.py", "shapes/areas.py", "shapes/names.py"),
            "tests": ("tests/conftest.py", "tests/test_areas.py", "tests/test_names.py"),
            **self.project,
        }
        suite = Suite(outcomes=dict.fromkeys(tests, "passed"), seen_by=seen or {})
        made = Plan(Project(**fields), suite)
        made.save(self.folder)
        return made

    def bug(
        self,
        path: str,
        old: str,
        new: str,
        *fails: str,
        modifier: str = "op-swap",
        status: Status = "valid",
        text: str | None = "It does not work.",
        more: tuple[tuple[str, str, str], ...] = (),
        **fields: Any,
    ) -> str:
        """Plant, validate and describe one; its id. `more` are other replacements."""
        edits = []
        for file, was, now in ((path, old, new), *more):
            code = (self.source / file).read_bytes().decode()
            assert code.count(was) == 1, f"{was!r} stands once in {file}"
            start = code.index(was)
            edits.append(Edit(file, start, start + len(was), now))
        name = candidate_id("shapes", modifier, edits)
        candidate = Candidate(
            id=name,
            modifier=modifier,
            entity=f"{path}::somewhere",
            edits=tuple(edits),
            key=name,
            **fields,
        )
        with Ledger(self.folder.candidates, Candidate, key=lambda each: each.id) as candidates:
            candidates.append(candidate)
        verdict = Verdict(candidate=name, status=status, fail_to_pass=fails)
        with Ledger(self.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
            verdicts.append(verdict)
        if text is not None:
            self.say(name, text)
        self.ids.append(name)
        return name

    def say(self, task: str, text: str, **fields: Any) -> None:
        said = IssueText(task=task, text=text, **{"source": "template", **fields})
        with Ledger(self.folder.texts, IssueText, key=lambda each: each.task) as texts:
            texts.append(said)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """The files of a small package, and nothing planted yet."""
    found = Made(SynthesisFolder(tmp_path / "out"))
    found.write(dict(FILES))
    return found


@pytest.fixture
def three_bugs(made: Made) -> Callable[[], Made]:
    """The same with a plan and three tasks in two files."""

    def make() -> Made:
        made.plan()
        made.bug(
            "shapes/areas.py",
            "side < 0",
            "side <= 0",
            TESTS[1],
            modifier="boundary",
            text="A square of side 0 is refused.",
        )
        made.bug(
            "shapes/areas.py",
            "width * height",
            "width + height",
            TESTS[2],
            text="A rectangle of 2 by 3 comes to 5.",
        )
        made.bug(
            "shapes/names.py",
            "name.strip().capitalize()",
            "name.capitalize()",
            TESTS[3],
            modifier="break-chain",
            text="A title keeps the spaces around it.",
        )
        return made

    return make


@pytest.fixture
def cmake_files() -> dict[str, str]:
    """A library in C++, with a test for CTest in each file of `tests`."""
    return dict(CMAKE)
