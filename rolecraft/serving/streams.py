"""Answers while they are written: server-sent events, and clients that leave meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from rolecraft._log import log
from rolecraft.serving.answering import Answered, answer_in_pieces
from rolecraft.serving.desk import Desk, Place
from rolecraft.serving.orders import Order
from rolecraft.serving.refusals import refusal_of
from rolecraft.serving.replies import note, refuse
from rolecraft.serving.wire import Writer, encode

Out = TypeVar("Out")


class EventStream(Response):
    """Answers as server-sent events. Ends the sampling when the client has gone, or reads nothing
    for `Settings.write_seconds`; `place` is then free again.

    Nothing is sent before the first piece, so that what fails until then has its own status.
    """

    media_type = "text/event-stream"

    def __init__(
        self, desk: Desk, place: Place, orders: list[Order], writer: Writer, *, usage: bool
    ) -> None:
        super().__init__()
        self._desk, self._place, self._orders, self._writer = desk, place, orders, writer
        self._usage = usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = Request(scope, receive)
            with suppress(ClientDisconnect):
                await unless_gone(request, self._send(self._in_time(send)))
        finally:
            self._place.leave()

    def _in_time(self, send: Send) -> Send:
        """`send` that takes a client which does not read for one that has gone."""
        seconds = self._desk.settings.write_seconds

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(seconds):
                    await send(message)
            except TimeoutError:
                log.info(f"A client read nothing of its stream for {seconds:g} seconds.")
                raise ClientDisconnect from None

        return send_in_time

    async def _send(self, send: Send) -> None:
        begun = False
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    if not begun:
                        begun = True
                        await send(self._start())
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        except ClientDisconnect:
            raise
        except Exception as error:
            if not begun:
                await refuse(error)({"type": "http"}, _nothing, send)
                return
            note(error)
            event = b"data: " + encode(refusal_of(error).body()) + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncGenerator[bytes, None]:
        writer = self._writer
        answers: dict[int, Answered] = {}
        begun: set[int] = set()
        async with aclosing(answer_in_pieces(self._desk.model, self._orders)) as pieces:
            async for piece in pieces:
                if writer.chat and piece.index not in begun:
                    begun.add(piece.index)
                    yield _event(writer.begin(piece.index))
                yield _event(writer.piece(piece))
                if piece.whole is not None:
                    answers[piece.index] = piece.whole
        if self._usage:
            yield _event(writer.used([answers[index] for index in sorted(answers)]))
        yield b"data: [DONE]\n\n"

    def _start(self) -> dict[str, Any]:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
        ]
        return {"type": "http.response.start", "status": 200, "headers": headers}


async def unless_gone(request: Request, work: Awaitable[Out]) -> Out:
    """What `work` gives; cancels it and raises `ClientDisconnect` when the client has gone."""
    task = asyncio.ensure_future(work)

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        task.cancel("the client has gone")

    watching = asyncio.create_task(watch())
    try:
        return await task
    except asyncio.CancelledError:
        if watching.done() and not watching.cancelled() and task.cancelled():
            raise ClientDisconnect from None
        task.cancel()
        raise
    finally:
        watching.cancel()


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + encode(chunk) + b"\n\n"


async def _nothing() -> Any:
    raise AssertionError("a plain response reads nothing")
