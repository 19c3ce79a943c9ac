"""A server that runs: its socket, its signals, its end.

Invariant: the socket is bound before anything is promised, so the address is known; a stop lets the
requests under way finish, and what the application has to close at the end is closed in any case.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI


class WebServer:
    """Serves an application on the socket `listening`, which is closed at the end. `host` is how
    clients call it; `grace` are the seconds that requests under way may still take after `stop`.
    """

    def __init__(self, app: FastAPI, listening: socket.socket, *, host: str, grace: float) -> None:
        self.app, self.host = app, host
        self._socket = listening
        self.port: int = listening.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace)),
            )
        )

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def serve(self) -> None:
        """Answer until `stop`; then let what is under way finish."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Also in a hurry, what the application has open is closed."""
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()
