"""Crashes, floods and bombs: each is a typed result of the patch, and the next one is graded."""

from __future__ import annotations

import pytest

from rolecraft.environments.software_engineering import Grader
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.sandboxes import SandboxLimits

pytestmark = pytest.mark.slow

SEGFAULT = "import ctypes\ndef mean(numbers): ctypes.string_at(0)\n"
FLOOD = (
    "import sys\n"
    "def mean(numbers):\n"
    "    for _ in range(1024): sys.__stderr__.write('x' * 2**20)\n"
    "    return 0\n"
)
MEMORY = "def mean(numbers):\n    return [bytes([65]) * 2**26 for _ in range(64)]\n"


async def test_a_crash_of_the_interpreter_is_a_result(attempt, broken) -> None:
    grade = await attempt({"sums/core.py": broken + SEGFAULT})
    assert (grade.problem, grade.resolved) == ("crashed", False)
    assert "signal 11" in grade.why


async def test_a_gigabyte_of_output_is_cut_off(instance, bases, broken) -> None:
    limits = SandboxLimits(seconds=30, cpu_seconds=30, output_bytes=2**20, file_bytes=2**22)
    grader = Grader(bases=bases, limits=limits)
    change = Change("sums/core.py", "file", (broken + FLOOD).encode())
    grade = await grader.grade(instance, [change])
    assert not grade.resolved
    assert not grade.infrastructure
    assert len(grade.output) <= 20_000


async def test_too_much_memory_is_a_result(instance, bases, broken) -> None:
    grader = Grader(bases=bases, limits=SandboxLimits(seconds=60, memory_bytes=256 * 2**20))
    change = Change("sums/core.py", "file", (broken + MEMORY).encode())
    grade = await grader.grade(instance, [change])
    assert not grade.resolved
    assert not grade.infrastructure


@pytest.mark.parametrize("text", ["def mean(:\n", "\0", "raise ImportError\n", "import nowhere\n"])
async def test_code_that_cannot_be_imported_is_a_result(attempt, broken, text) -> None:
    grade = await attempt({"sums/core.py": broken + text})
    assert not grade.resolved
    assert not grade.fail_to_pass.passed
