"""Programs that several processes run together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

import pytest


class InProcesses(Protocol):
    def __call__(
        self, program: str, arguments: Sequence[Sequence[object]], env: Mapping[str, str] = ...
    ) -> list[str]: ...


@pytest.fixture(scope="session")
def in_processes() -> InProcesses:
    """`in_processes(PROGRAM, [(0, folder), (1, folder)])`: two of them, and what each printed."""

    def run(
        program: str, arguments: Sequence[Sequence[object]], env: Mapping[str, str] = {}
    ) -> list[str]:
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", program, *map(str, given)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **env},
            )
            for given in arguments
        ]
        told = []
        try:
            for process in started:
                printed, errors = process.communicate(timeout=300)
                assert process.returncode == 0, errors
                told.append(printed)
        finally:
            for process in started:
                process.kill()
        return told

    return run
