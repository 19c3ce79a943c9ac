"""Cheat, or accident: never end. What does not end in time is not resolved, and says so."""

from __future__ import annotations

import pytest

from rolecraft.environments.software_engineering import Grader
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.sandboxes import SandboxLimits

pytestmark = pytest.mark.slow

HANGS = {
    "asleep at import": "import time; time.sleep(1000)\n",
    "asleep in the function": "import time\ndef mean(numbers): time.sleep(1000)\n",
    "busy": "def mean(numbers):\n    while True: pass\n",
    "deaf to signals": (
        "import signal, time\n"
        "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "time.sleep(1000)\n"
    ),
    "a thread that does not end": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    ),
}


@pytest.mark.parametrize("code", HANGS.values(), ids=HANGS)
async def test_what_does_not_end_is_a_timeout(instance, bases, broken, code) -> None:
    grader = Grader(bases=bases, limits=SandboxLimits(seconds=3, cpu_seconds=3))
    change = Change("sums/core.py", "file", (broken + code).encode())
    grade = await grader.grade(instance, [change])
    assert grade.problem == "timeout"
    assert grade.why == "the tests did not end within 3 seconds"
    assert not grade.resolved
    assert not grade.infrastructure
