"""Tests that never end, or end everything, cost themselves; a plan that was killed is made anew."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan

Planned = Callable[..., Awaitable[Plan]]
Project = Callable[[dict[str, str]], Path]

CODE = "def area(side):\n    return side * side\n"
TEST = "from shapes import area\n\n\ndef test_area():\n    assert area(2) == 4\n"
BAD = """\
import os
import threading

from shapes import area


def test_before():
    assert area(1) == 1


def test_that_waits():
    threading.Event().wait()


def test_that_works_for_ever():
    while True:
        pass


def test_that_ends_everything():
    os._exit(0)


def test_after():
    assert area(3) == 9
"""


@pytest.mark.slow
async def test_tests_that_do_not_end_are_set_aside_by_name(planned: Planned) -> None:
    files = {
        "shapes.py": CODE,
        "tests/test_area.py": TEST,
        "tests/test_bad.py": BAD,
        "tests/test_import.py": "while True:\n    pass\n",
    }
    plan = await planned(files, test_seconds=20.0)
    assert plan.suite.passing == [
        "tests/test_area.py::test_area",
        "tests/test_bad.py::test_before",
        "tests/test_bad.py::test_after",
    ]
    why = {name: why.partition(":")[0] for name, why in plan.suite.set_aside.items()}
    assert why == {
        "tests/test_bad.py::test_that_waits": "never ends",
        "tests/test_bad.py::test_that_works_for_ever": "never ends",
        "tests/test_bad.py::test_that_ends_everything": "ends the run",
        "tests/test_import.py": "never ends",
    }
    # Grading runs whole files, so it is told what to leave out.
    assert set(plan.project.test_command) == {
        "--ignore=tests/test_import.py",
        "--deselect=tests/test_bad.py::test_that_waits",
        "--deselect=tests/test_bad.py::test_that_works_for_ever",
        "--deselect=tests/test_bad.py::test_that_ends_everything",
    }


async def test_a_test_that_ends_the_interpreter_costs_itself(planned: Planned) -> None:
    bad = "import os\n\n\ndef test_bad():\n    os._exit(0)\n"
    files = {"shapes.py": CODE, "tests/test_area.py": TEST, "tests/test_a_bad.py": bad}
    plan = await planned(files)
    assert plan.suite.passing == ["tests/test_area.py::test_area"]
    assert plan.suite.set_aside["tests/test_a_bad.py::test_bad"] == "ends the run: exit code 0"


async def test_a_suite_that_takes_too_long(planned: Planned) -> None:
    test = "import time\n\n\ndef test_a():\n    time.sleep(60)\n"
    with pytest.raises(UsageError, match=r"did not end within 1 s.*--suite-seconds"):
        await planned({"shapes.py": CODE, "tests/test_a.py": test}, suite_seconds=1.0)


KILLED = """
import asyncio, sys
from pathlib import Path
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings

source, out, environment = map(Path, sys.argv[1:])
settings = PlanSettings(environment=environment)

def tell(text):
    print(text, flush=True)

asyncio.run(make_plan(source, SynthesisFolder(out), settings=settings, tell=tell))
"""


def kill_at(phase: str, source: Path, out: Path, environment: Path) -> None:
    """Make a plan in a process, and kill it when it says that this phase begins."""
    command = [sys.executable, "-c", KILLED, str(source), str(out), str(environment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any(line.startswith(phase) for line in killed.stdout)
        killed.kill()
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "phase",
    ["The source", pytest.param("The clean tests, the second", marks=pytest.mark.slow)],
)
async def test_a_plan_that_was_killed_is_made_anew(
    project: Project, planned: Planned, tmp_path: Path, bare_environment: Path, phase: str
) -> None:
    files = {"shapes.py": CODE, "tests/test_area.py": TEST}
    source, out = project(files), tmp_path / "out"
    kill_at(phase, source, out, bare_environment)
    assert not SynthesisFolder(out).plan.exists()
    plan = await planned(files)
    assert plan.suite.passing == ["tests/test_area.py::test_area"]
    assert sorted(path.name for path in out.iterdir()) == ["plan.json", "source"]
