"""A sandbox for each test: of plain processes, and of bubblewrap."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rolecraft.sandboxes import Bubblewrap, LocalProcess, SandboxSpec
from rolecraft.sandboxes.live import LiveSandbox, SandboxProvider


@pytest.fixture(params=["LocalProcess", "Bubblewrap"])
async def sandbox(request: pytest.FixtureRequest, needs_program: Any) -> AsyncIterator[LiveSandbox]:
    provider: SandboxProvider = LocalProcess()
    if request.param == "Bubblewrap":
        needs_program("bwrap", package="bubblewrap")
        provider = Bubblewrap()
    async with await provider.create(SandboxSpec()) as made:
        yield made
