"""Serving the labelling page, on this machine only.

The socket is bound to the loopback address before anything else, so the port is known and nobody
else can be reached by it.
"""

from __future__ import annotations

import html
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.errors import MissingExtra, RolecraftError
from rolecraft.viewer.labelling.desk import Desk

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"


class PortTaken(RolecraftError):
    """The page cannot be served at the port. Attributes: `port`."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        super().__init__(f"Port {port} cannot be used: {reason}. Leave `port` out for a free one.")


class LabellingServer:
    """The page of one desk. `address` is for the browser and holds the key: keep it to yourself."""

    def __init__(self, desk: Desk, *, port: int = 0, token: str | None = None) -> None:
        """`port` 0 takes a free one. Raises `PortTaken`, and `MissingExtra` without `viewer`."""
        try:
            import uvicorn

            from rolecraft.viewer.labelling.app import make_app
            from rolecraft.viewer.labelling.guard import new_token
        except ImportError as error:
            name = error.name or "starlette"
            raise MissingExtra(name, "viewer", "The labelling page") from error
        self.token = token or new_token()
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            make_app(desk, token=self.token, port=self.port),
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        self._server: uvicorn.Server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def write_opener(self, folder: Path) -> Path:
        """A file for the browser that leads to the page; nobody else can read it.

        A browser is told what to open on its command line, which every user of the machine sees:
        the key must not stand there.
        """
        path = folder / "open.html"
        folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(
                '<!doctype html><meta http-equiv="refresh" content="0; url='
                f'{html.escape(self.address)}"><title>Labelling</title>\n'
            )
        return path

    async def serve(self) -> None:
        """Answer until `stop` is called or the process is interrupted."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Ask the server to end; safe from another thread."""
        self._server.should_exit = True


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(100)  # who connects before `serve` waits, and nobody else gets the port
    except OSError as error:
        listening.close()
        raise PortTaken(port, error.strerror or str(error)) from error
    return listening
