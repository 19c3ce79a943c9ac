"""`ModelServer`: a model and its role adapters on an address, until it is stopped."""

from __future__ import annotations

import socket

from rolecraft._listening import LOOPBACK, bound
from rolecraft._listening.server import WebServer
from rolecraft.errors import UsageError
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.app import make_app
from rolecraft.serving.desk import Settings


class ModelServer(WebServer):
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
        self.model = model
        app = make_app(model, settings)
        super().__init__(app, listening or bound(host, port), host=host, grace=grace)

    @property
    def url(self) -> str:
        """The address for clients (`base_url`)."""
        return f"{super().url}/v1"

    async def serve(self) -> None:
        """Answer until `stop`; then let what is under way finish, and release the model."""
        try:
            await self.model.prepare()
            await super().serve()
        finally:
            self._socket.close()
            await self.model.aclose()
