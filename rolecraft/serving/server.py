"""A server that runs: its socket, its signals, its end.

Invariant: the socket is bound before anything is promised, so the address is known; a stop lets the
requests under way finish.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.app import make_app
from rolecraft.serving.desk import Settings
from rolecraft.serving.keys import LOOPBACK


class AddressTaken(RolecraftError):
    """The server cannot listen there. Attributes: `host`, `port`."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host, self.port = host, port
        super().__init__(
            f"The server cannot listen on {host!r}, port {port}: {reason}. Choose another port; 0 "
            f"takes a free one."
        )


class ModelServer:
    """Serves a model on one address. `port` 0 takes a free one; `grace` are the seconds that
    requests under way may still take after `stop`. `listening` is the socket, where one is bound
    already (`bound`): a program that loads a model for minutes learns before that it may listen.

    Raises `UsageError` for an address that others can reach with nothing to protect it, and
    `AddressTaken`.
    """

    def __init__(
        self,
        model: TokenModel,
        settings: Settings,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        grace: float = 60,
        listening: socket.socket | None = None,
    ) -> None:
        if host not in LOOPBACK and not settings.keys and not settings.any_host:
            raise UsageError(
                f"On {host!r} the server can be reached from other machines, and it has no API "
                f"key. Give it one, or say that everybody may use it (`any_host=True`)."
            )
        self.model, self.host = model, host
        self.app = make_app(model, settings)
        self._socket = bound(host, port) if listening is None else listening
        self.port: int = self._socket.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                self.app,
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace)),
            )
        )

    @property
    def url(self) -> str:
        """The address for clients (`base_url`)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    async def serve(self) -> None:
        """Answer until `stop`; then let what is under way finish, and release the model."""
        try:
            await self.model.prepare()
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()
            await self.model.aclose()

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more requests and end; `at_once` gives up those under way. From any thread."""
        self._server.should_exit = True
        if at_once:
            self._server.force_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of the program that serves."""
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `AddressTaken`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise AddressTaken(host, port, error.strerror or str(error)) from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise AddressTaken(host, port, error.strerror or str(error)) from error
    return listening
