"""Our sandboxes do what every sandbox must, and those with walls hold them."""

from __future__ import annotations

import pytest

from rolecraft.sandboxes import Bubblewrap, LocalProcess, Sandbox
from rolecraft.sandboxes.conformance import IsolatedSandboxConformance, SandboxConformance


class TestBubblewrap(IsolatedSandboxConformance):
    @pytest.fixture(autouse=True)
    def _bwrap(self, needs_program) -> None:
        needs_program("bwrap", package="bubblewrap")

    def make(self) -> Sandbox:
        return Bubblewrap()


class TestLocalProcess(SandboxConformance):
    def make(self) -> Sandbox:
        return LocalProcess()
