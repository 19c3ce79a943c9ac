"""A small package in a sandbox, and verdicts on changes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.validation import Settings, validate
from rolecraft.synthesis.verdicts import Verdict

CODE = '''"""Numbers."""

LIMIT = 10


def double(number):
    result = number * 2
    return result


def half(number):
    return number // 2


def limited(number):
    return min(number, LIMIT)
'''
TESTS = """import pytest

from numbers_of_ours import double, half, limited


@pytest.mark.parametrize("number", [1, 2, 3])
def test_double(number):
    assert double(number) == 2 * number


@pytest.fixture
def four():
    return double(2)


def test_half(four):
    assert half(four) == 2


def test_limited():
    assert limited(11) == 10


@pytest.mark.parametrize("number", range(12))
def test_that_sees_nothing(number):
    assert number >= 0
"""
NAMES = (
    *(f"tests/test_numbers.py::test_double[{number}]" for number in (1, 2, 3)),
    "tests/test_numbers.py::test_half",
    "tests/test_numbers.py::test_limited",
    *(f"tests/test_numbers.py::test_that_sees_nothing[{number}]" for number in range(12)),
)
DOUBLES = NAMES[:4]
FILES = {"numbers_of_ours.py": CODE, "tests/test_numbers.py": TESTS}


class Small:
    """A package with a plan; candidates are replacements in its one file of code."""

    code = "numbers_of_ours.py"

    def __init__(self, folder: SynthesisFolder, environment: Path) -> None:
        self.folder = folder
        self.project: dict[str, Any] = {"environment": str(environment)}
        self.tests: Sequence[str] = NAMES
        self.suite: dict[str, Any] = {}
        self.write(FILES)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def plan(self) -> Plan:
        project = {
            "name": "numbers",
            "source": str(self.folder.source),
            "code": (self.code,),
            "tests": ("tests/test_numbers.py",),
            **self.project,
        }
        outcomes = dict.fromkeys(self.tests, "passed")
        made = Plan(Project(**project), Suite(**{"outcomes": outcomes, **self.suite}))
        made.save(self.folder)
        return made

    def candidate(self, old: str, new: str, *, path: str = "") -> Candidate:
        path = path or self.code
        place = self.folder.source / path
        text = place.read_text() if place.exists() else ""
        assert text.count(old) == 1 or not text, f"{old!r} stands once in {path}"
        start = text.index(old) if text else 0
        edits = (Edit(path, start, start + len(old), new),)
        name = candidate_id("numbers", "test", edits)
        return Candidate(
            id=name, modifier="test", entity=f"{path}::somewhere", edits=edits, key=name
        )

    async def verdicts(self, *candidates: Candidate, **options: Any) -> list[Verdict]:
        """Validate these; `time_limit` and `cap` are settings, the rest goes to `validate`."""
        known = {name: options.pop(name) for name in ("time_limit", "cap") if name in options}
        settings = Settings(**{"cap": 0.5, "time_limit": 1.0, **known})
        options = {"workers": 1, **options}
        plan = options.pop("plan", None) or self.plan()
        with Ledger(self.folder.verdicts, Verdict, key=lambda each: each.candidate) as ledger:
            running = validate(plan, candidates, ledger, settings=settings, **options)
            async with aclosing(running) as found:
                return [verdict async for verdict in found]


@pytest.fixture
def small(tmp_path: Path, bare_environment: Path, needs_program: Any) -> Small:
    needs_program("bwrap", package="bubblewrap")
    return Small(SynthesisFolder(tmp_path / "out"), bare_environment)


Judge = Callable[..., Awaitable[Verdict]]


@pytest.fixture
def judged(small: Small) -> Judge:
    """The verdict on one replacement."""

    async def judge(old: str, new: str, **options: Any) -> Verdict:
        (found,) = await small.verdicts(small.candidate(old, new), **options)
        return found

    return judge
