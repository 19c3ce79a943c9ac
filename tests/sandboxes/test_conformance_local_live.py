"""`LocalProcess.create` does what every live sandbox must, and declares no wall."""

from __future__ import annotations

from rolecraft.sandboxes import LocalProcess
from rolecraft.sandboxes.conformance_live import LiveSandboxConformance


class TestLocalProcess(LiveSandboxConformance):
    def make(self) -> LocalProcess:
        return LocalProcess()
