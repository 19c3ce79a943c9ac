"""Over HTTP every sandbox does what it does here: the whole kit, through a server's process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from rolecraft.sandboxes import Remote
from rolecraft.sandboxes.conformance import IsolatedSandboxConformance, SandboxConformance
from rolecraft.sandboxes.conformance_live import LiveSandboxConformance


class OverHttp:
    provider: ClassVar[str]

    @pytest.fixture(autouse=True)
    async def _remote(self, sandbox_servers: Any) -> AsyncIterator[None]:
        server = sandbox_servers(self.provider)
        async with Remote(server.url, token=server.token) as self.remote:
            yield

    def make(self) -> Remote:
        return self.remote


@pytest.mark.slow
class TestRemoteRuns(OverHttp, SandboxConformance):
    provider = "local"


class TestRemoteLocalProcess(OverHttp, LiveSandboxConformance):
    provider = "local"


@pytest.mark.slow
class TestRemoteBubblewrap(OverHttp, LiveSandboxConformance):
    provider = "bubblewrap"

    @pytest.fixture(autouse=True)
    def _bwrap(self, needs_program: Any) -> None:
        needs_program("bwrap", package="bubblewrap")


@pytest.mark.slow
class TestRemoteRunsInBubblewrap(OverHttp, IsolatedSandboxConformance):
    provider = "bubblewrap"

    @pytest.fixture(autouse=True)
    def _bwrap(self, needs_program: Any) -> None:
        needs_program("bwrap", package="bubblewrap")
