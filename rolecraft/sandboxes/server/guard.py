"""Who may ask, and how much may be sent: before anything of a request is looked at.

Invariant: without a token of the server's no path but the two of health does anything, and how long
the check takes says nothing about a token. Of a body no more is read than its path allows, and of
all bodies that are being read no more is held than the server allows.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import IO

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rolecraft._listening import BearerKeys, names_this_machine
from rolecraft.sandboxes._remote_wire import AnyBody, decoded, in_words
from rolecraft.sandboxes.server.answers import NotServed, answer_to
from rolecraft.sandboxes.server.replies import respond
from rolecraft.sandboxes.server.settings import ServerSettings

OPEN_PATHS = frozenset({"/health", "/ready"})
_IN_THREAD = 64 * 1024
"""Bytes of JSON from which on they are parsed apart from the event loop."""


class Guard:
    """ASGI middleware that lets in who has a token."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._tokens = BearerKeys(settings.tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = dict(scope["headers"])
            try:
                self._check(headers.get(b"authorization", b""), headers.get(b"host", b""))
            except NotServed as refusal:
                await respond(answer_to(refusal))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, authorization: bytes, host: bytes) -> None:
        if not self._tokens:
            called = host.decode("latin-1")
            if not names_this_machine(called):
                raise NotServed(
                    f"This server has no token and answers on this machine only, not as "
                    f"{called!r}.",
                    status=403,
                    code="token",
                )
        elif not self._tokens.accepts(authorization.decode("utf-8", "surrogateescape")):
            raise NotServed(
                "The sandbox server does not know this token."
                if authorization
                else "The sandbox server wants a token: the header `Authorization: Bearer TOKEN`.",
                status=401,
                code="token",
            )


class Bodies:
    """Reads bodies, within what the server allows."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._held = 0
        """Bytes of bodies in memory."""

    @asynccontextmanager
    async def in_memory(self, request: Request) -> AsyncGenerator[bytearray, None]:
        """The bytes of a body, counted until the block ends."""
        data = bytearray()
        try:
            async for piece in self._pieces(request, self._settings.max_body):
                if self._held + len(piece) > self._settings.max_reading:
                    raise NotServed(
                        f"The server reads requests of {self._held} bytes already. Try again in a "
                        f"moment.",
                        status=503,
                        code="overloaded",
                        retry_after=1,
                    )
                data += piece
                self._held += len(piece)
            yield data
        finally:
            self._held -= len(data)

    async def on_disk(self, request: Request, file: IO[bytes]) -> bytes:
        """Write the body to a file, and go back to its begin. Returns its SHA-256."""
        digest = hashlib.sha256()
        async for piece in self._pieces(request, self._settings.max_upload):
            digest.update(piece)
            await asyncio.to_thread(file.write, piece)
        file.seek(0)
        return digest.digest()

    async def _pieces(self, request: Request, most: int) -> AsyncGenerator[bytes, None]:
        declared = request.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > most:
            raise _too_large(most)
        taken = 0
        pieces = request.stream()
        while True:
            try:
                async with asyncio.timeout(self._settings.read_seconds):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise NotServed(
                    f"The next piece of the request did not come within "
                    f"{self._settings.read_seconds:g} seconds.",
                    status=408,
                ) from None
            if piece is None:
                return
            taken += len(piece)
            if taken > most:
                raise _too_large(most)
            yield piece


def _too_large(most: int) -> NotServed:
    return NotServed(
        f"The request is larger than the {most} bytes that this server takes. Send less, or start "
        f"it with a larger `--max-body` or `--max-upload`.",
        status=413,
    )


async def parsed(kind: type[AnyBody], data: bytes | bytearray) -> AnyBody:
    """The body. Raises `NotServed` with the fields that are wrong."""

    def parse() -> AnyBody:
        try:
            return decoded(kind, data or b"{}")
        except ValueError as error:
            raise NotServed(f"The request is wrong: {in_words(error)}.", status=422) from None

    return await asyncio.to_thread(parse) if len(data) > _IN_THREAD else parse()
