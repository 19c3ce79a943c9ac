"""Two processes that are told to make a plan in one folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rolecraft.errors import JournalError, UsageError
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings

FILES = {
    "shapes.py": "def area(side):\n    return side * side\n",
    "test_shapes.py": "from shapes import area\n\n\ndef test_area():\n    assert area(3) == 9\n",
}
FIRST = """
import asyncio, sys
from pathlib import Path
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings

def tell(text):
    if "the first time" in text:
        print("at work", flush=True)
        sys.stdin.readline()

source, out, venv = map(Path, sys.argv[1:])
asyncio.run(
    make_plan(source, SynthesisFolder(out), settings=PlanSettings(environment=venv), tell=tell)
)
"""
HOLDS = """
import sys
from pathlib import Path
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger

with Ledger(Path(sys.argv[1]), Candidate, key=lambda each: each.id):
    print("at work", flush=True)
    sys.stdin.readline()
"""


def started(program: str, *words: Path) -> subprocess.Popen[str]:
    """A process that is at work, until it gets a line or is at its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    return process


async def test_the_second_is_told_who_the_first_is_and_harms_nothing_of_it(
    tmp_path: Path, project: Callable[[dict[str, str]], Path], bare_environment: Path
) -> None:
    """It removed the clean files under the first one's tests."""
    source, out = project(FILES), tmp_path / "out"
    first = started(FIRST, source, out, bare_environment)
    second = PlanSettings(environment=bare_environment)
    with pytest.raises(UsageError, match=rf"Another process \({first.pid}\) is making a plan in"):
        await make_plan(source, SynthesisFolder(out), settings=second)
    assert (out / "source" / "shapes.py").is_file()
    first.communicate("go on\n", timeout=120)
    assert first.returncode == 0
    made = await make_plan(source, SynthesisFolder(out), settings=second)
    assert made.suite.passing == ["test_shapes.py::test_area"], "what the first one made"


def test_who_writes_a_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "candidates.jsonl"
    with (
        started(HOLDS, path) as other,
        pytest.raises(JournalError, match=rf"another process \({other.pid}\)"),
    ):
        Ledger(path, Candidate, key=lambda each: each.id)
