"""`SandboxServer`: a provider's sandboxes on an address, until it is stopped.

Invariant: at the end every sandbox is closed, whether its client asked for it or not.
"""

from __future__ import annotations

from rolecraft._listening import LOOPBACK, bound
from rolecraft._listening.server import WebServer
from rolecraft.errors import UsageError
from rolecraft.sandboxes.live import SandboxProvider
from rolecraft.sandboxes.server.app import make_app
from rolecraft.sandboxes.server.settings import ServerSettings


class SandboxServer(WebServer):
    """Serves a provider's sandboxes on one address. `port` 0 takes a free one; `grace` are the
    seconds that requests under way may still take after `stop`.

    Raises `UsageError` for an address that others can reach without a token, `AddressTaken`.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        settings: ServerSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 8100,
        grace: float = 10,
    ) -> None:
        if settings.no_token and host not in LOOPBACK:
            raise UsageError(
                f"On {host!r} the server can be reached from other machines, and it would run what "
                f"anybody there sends. Give it a token; without one it listens on 127.0.0.1 only."
            )
        listening = bound(host, port)
        super().__init__(make_app(provider, settings), listening, host=host, grace=grace)

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more requests and end; `at_once` gives up those under way. From any thread."""
        self.app.state.desk.ready = False
        super().stop(at_once=at_once)
