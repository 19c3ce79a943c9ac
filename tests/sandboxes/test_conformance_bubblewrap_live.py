"""Bubblewrap's sandboxes that live on do what each must, and hold every wall."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rolecraft.sandboxes import Bubblewrap, SandboxProvider
from rolecraft.sandboxes.conformance_live import LiveSandboxConformance


class TestBubblewrapLive(LiveSandboxConformance):
    @pytest.fixture(autouse=True)
    def _bwrap(self, needs_program: Callable[..., None]) -> None:
        needs_program("bwrap", package="bubblewrap")

    def make(self) -> SandboxProvider:
        return Bubblewrap()
