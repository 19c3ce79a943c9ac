"""How answers are sent: at once where they are there soon, else in lines with signs of life.

Invariant: a client that waits hears something every `heartbeat_seconds`, so silence means that the
server is gone. That a client goes ends nothing but the sending: it may come again for the answer.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from rolecraft.sandboxes._remote_wire import NDJSON
from rolecraft.sandboxes.server.answers import Answer
from rolecraft.sandboxes.server.jobs import Job
from rolecraft.sandboxes.server.leases import Lease

_ALIVE = b"{}\n"


def respond(answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), media_type=answer.media_type)


class JobResponse(Response):
    """The answer to a request that is worked on. `in_lines`: the client takes lines of JSON;
    `after`: it wants to hear what is said of it, beyond so many pieces.
    """

    def __init__(
        self,
        job: Job,
        lease: Lease,
        *,
        heartbeat_seconds: float,
        in_lines: bool,
        after: int | None,
    ) -> None:
        super().__init__()
        self._job, self._lease, self._heartbeat = job, lease, heartbeat_seconds
        self._in_lines, self._follows, self._sent = in_lines, after is not None, after or 0
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._lease.held():
            gone = asyncio.create_task(_gone(receive))
            try:
                while self._job.answer is None:
                    await self._say(send)
                    news = self._job.news()
                    if self._job.answer is not None:
                        break
                    done, _ = await asyncio.wait(
                        {news, gone}, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED
                    )
                    if gone in done:
                        return
                    if not done and self._in_lines:
                        await self._line(send, _ALIVE)
                await self._say(send)
                await self._end(scope, receive, send, self._job.answer)
            finally:
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone

    async def _say(self, send: Send) -> None:
        while self._follows and self._sent < len(self._job.pieces):
            piece = self._job.pieces[self._sent]
            self._sent += 1
            await self._line(send, piece)

    async def _end(self, scope: Scope, receive: Receive, send: Send, answer: Answer) -> None:
        if not self._begun:
            await respond(answer)(scope, receive, send)
            return
        # What follows `"status":200,` is the answer's own JSON, so that it is not parsed again.
        ok = answer.status == 200
        body = b'"answer":' + answer.body if ok else answer.body[1:-1]
        await self._line(send, b'{"status":%d,%s}\n' % (answer.status, body))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _line(self, send: Send, line: bytes) -> None:
        if not self._begun:
            self._begun = True
            headers = [(b"content-type", NDJSON.encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": line, "more_body": True})


class ArchiveResponse(StreamingResponse):
    """An archive, made piece by piece. At the end, however it ends, `folder` is deleted and `ended`
    is called. A client that takes no piece for `send_seconds` is left.
    """

    def __init__(
        self,
        folder: Path,
        pieces: Iterator[bytes],
        lease: Lease,
        *,
        send_seconds: float,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(_bundles(pieces), media_type="application/x-tar")
        self._folder, self._lease = folder, lease
        self._send_seconds, self._ended = send_seconds, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._send_seconds):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        try:
            with self._lease.held(), suppress(ClientDisconnect):
                await super().__call__(scope, receive, in_time)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True))
            self._ended()


async def _bundles(pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    while bundle := await asyncio.to_thread(lambda: b"".join(islice(pieces, 16))):
        yield bundle


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
