"""The paths of the server, and what each does: OpenAI's API over FastAPI.

Invariant: whatever a request says, the answer is what OpenAI's API answers or its error object;
what goes wrong with one request touches no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from rolecraft._log import log
from rolecraft.errors import RolecraftError
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.answering import Answered, answer_all, answer_in_pieces, numbered
from rolecraft.serving.fields import (
    ChatBody,
    CompletionBody,
    LoadAdapterBody,
    UnloadAdapterBody,
    read_body,
)
from rolecraft.serving.keys import Keys, check_host
from rolecraft.serving.orders import Order, chat_order, completion_orders
from rolecraft.serving.refusals import Refusal, refusal_of
from rolecraft.serving.wire import Writer, encode

Out = TypeVar("Out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server serves.

    - `name`: what clients call the base model.
    - `keys`: the API keys that are accepted; none: nobody needs one, and only this machine is
      answered unless `any_host`.
    - `admin_keys`: those that may load and unload adapters; none: nobody may.
    - `max_tokens`: of a chat answer whose request sets no limit.
    - `max_answers`: how many answers may be under way or waiting at once; more
      are refused with 503.
    - `max_body`: bytes of a request that are read at most.
    """

    name: str
    keys: Sequence[str] = ()
    admin_keys: Sequence[str] = ()
    any_host: bool = False
    max_tokens: int = 1024
    max_answers: int = 512
    max_body: int = 32 * 1024 * 1024


class Desk:
    """What the paths share: the model, who may ask, and how much is under way."""

    def __init__(self, model: TokenModel, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.keys = Keys(settings.keys)
        self.admins = Keys(settings.admin_keys)
        self.created = int(time.time())
        self.under_way = 0
        """Answers that are being written or wait."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prompts")

    @property
    def roles(self) -> list[str]:
        """The roles that have an adapter: models of their own for clients."""
        adapters = getattr(self.model, "adapters", None)
        return [] if adapters is None else list(adapters.roles)

    def role_of(self, called: str) -> str:
        """The role that a client means by a model's name; '' for the base model."""
        if called == self.settings.name:
            return ""
        if called in self.roles:
            return called
        known = ", ".join(f"`{name}`" for name in (self.settings.name, *self.roles))
        raise Refusal(
            f"The model {called[:200]!r} does not exist. This server has {known}.",
            status=404,
            param="model",
            code="model_not_found",
        )

    def check_key(self, request: Request) -> None:
        if not self.keys and not self.settings.any_host:
            check_host(request.headers.get("host"))
        self.keys.check(request.headers.get("authorization"))

    def check_admin(self, request: Request) -> None:
        if not self.admins:
            raise Refusal(
                "Adapters of this server cannot be changed from outside. Start it with "
                "`--admin-key-file FILE` to allow it to whoever has that key.",
                status=403,
                code="admin_disabled",
            )
        self.admins.check(request.headers.get("authorization"))

    def check_room(self) -> None:
        """Raise `Refusal` if not a single answer is admitted: before a body is read."""
        self.admit(1)
        self.leave(1)

    def admit(self, answers: int) -> None:
        """Count in `answers` new ones. Raises `Refusal` if that is too many at once."""
        most = self.settings.max_answers
        if answers > most:
            raise Refusal(
                f"The request asks for {answers} answers, and this server writes {most} at once "
                f"at most. Ask for fewer.",
                param="n",
            )
        if self.under_way + answers > most:
            raise Refusal(
                f"The server is overloaded: {self.under_way} answers are under way or wait, and it "
                f"admits {most}. Try again in a moment.",
                status=503,
                code="overloaded",
                retry_after=1,
            )
        self.under_way += answers

    async def prompts(self, work: Callable[[], Out]) -> Out:
        """Render and tokenise apart from the event loop, where a long conversation would keep the
        others waiting; one after the other, because tokenizers have settings that a call changes.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def leave(self, answers: int) -> None:
        self.under_way -= answers

    async def body(self, request: Request) -> bytes:
        """The bytes of a request. Raises `Refusal` if it is too large or not declared as JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # Also what keeps a page in a browser from asking: JSON needs the server's consent.
            raise Refusal(
                f"The content type is {kind or None!r}: send JSON, with the header "
                f"`Content-Type: application/json`.",
                status=415,
                code="unsupported_media_type",
            )
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > self.settings.max_body:
                raise Refusal(
                    f"The request is larger than the {self.settings.max_body} bytes that this "
                    f"server reads.",
                    status=413,
                    code="request_too_large",
                )
        return bytes(data)


def make_app(model: TokenModel, settings: Settings) -> FastAPI:
    """The ASGI application that serves `model`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, title="Rolecraft")
    desk = Desk(model, settings)
    app.state.desk = desk

    async def answer(request: Request, orders: list[Order], writer: Writer, body: Any) -> Response:
        if body.stream:
            wants_usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(desk, orders, writer, usage=wants_usage)
        count = len(numbered(orders))
        desk.admit(count)
        try:
            return _json(writer.whole(await _unless_gone(request, answer_all(model, orders))))
        finally:
            desk.leave(count)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        desk.check_key(request)
        desk.check_room()
        body = read_body(ChatBody, await desk.body(request))
        role = desk.role_of(body.model)
        longest = settings.max_tokens
        order = await desk.prompts(lambda: chat_order(model, body, role, max_tokens=longest))
        writer = Writer(model, body.model, chat=True, token_ids=bool(body.return_token_ids))
        return await answer(request, [order], writer, body)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        desk.check_key(request)
        desk.check_room()
        body = read_body(CompletionBody, await desk.body(request))
        role = desk.role_of(body.model)
        orders = await desk.prompts(lambda: completion_orders(model, body, role))
        writer = Writer(model, body.model, chat=False, token_ids=bool(body.return_token_ids))
        return await answer(request, orders, writer, body)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        desk.check_key(request)
        names = [settings.name, *desk.roles]
        return _json({"object": "list", "data": [_model(desk, name) for name in names]})

    @app.get("/v1/models/{name:path}")
    async def one_model(request: Request, name: str) -> Response:
        desk.check_key(request)
        desk.role_of(name)
        return _json(_model(desk, name))

    @app.get("/health")
    async def health() -> Response:
        return _json({"status": "ok", "under_way": desk.under_way})

    @app.post("/v1/load_lora_adapter")
    async def load(request: Request) -> Response:
        desk.check_admin(request)
        body = read_body(LoadAdapterBody, await desk.body(request))
        if body.lora_name == settings.name:
            raise Refusal(
                f"{body.lora_name!r} is the base model's name; give the adapter another.",
                param="lora_name",
            )
        try:
            version = await _adapting(model).load_adapter(body.lora_name, body.lora_path)
        except RolecraftError as error:
            raise Refusal(str(error), param="lora_path", code="adapter_refused") from error
        return _json({"name": version.role, "version": version.version, "served": version.name})

    @app.post("/v1/unload_lora_adapter")
    async def unload(request: Request) -> Response:
        desk.check_admin(request)
        body = read_body(UnloadAdapterBody, await desk.body(request))
        if desk.role_of(body.lora_name) == "":
            raise Refusal("The base model stays.", param="lora_name")
        await _adapting(model).unload_adapter(body.lora_name)
        return _json({"name": body.lora_name})

    @app.exception_handler(RolecraftError)
    async def refuse(request: Request, error: RolecraftError) -> Response:
        return _refused(error)

    @app.exception_handler(HTTPException)
    async def no_such_path(request: Request, error: HTTPException) -> Response:
        asked = f"{request.method} {request.url.path}"
        return _refused(
            Refusal(f"Invalid URL ({asked}): {error.detail}.", status=error.status_code)
        )

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # as nginx counts it; nobody reads it

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return _refused(error)

    return app


class EventStream(Response):
    """Answers as server-sent events. Ends the sampling when the client has gone.

    Nothing is sent before the first piece, so that what fails until then has its own status.
    """

    media_type = "text/event-stream"

    def __init__(self, desk: Desk, orders: list[Order], writer: Writer, *, usage: bool) -> None:
        super().__init__()
        self._desk, self._orders, self._writer = desk, orders, writer
        self._usage = usage
        self._count = len(numbered(orders))
        desk.admit(self._count)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = Request(scope, receive)
            with suppress(ClientDisconnect):
                await _unless_gone(request, self._send(send))
        finally:
            self._desk.leave(self._count)

    async def _send(self, send: Send) -> None:
        begun = False
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    if not begun:
                        begun = True
                        await send(self._start())
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        except Exception as error:
            if not begun:
                await _refused(error)({"type": "http"}, _nothing, send)
                return
            _note(error)
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


async def _unless_gone(request: Request, work: Awaitable[Out]) -> Out:
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


def _adapting(model: TokenModel) -> Any:
    if not hasattr(model, "load_adapter"):
        raise Refusal(f"`{model.name}` takes no adapters.", status=403)
    return model


def _model(desk: Desk, name: str) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": name,
        "object": "model",
        "created": desk.created,
        "owned_by": "rolecraft",
        "max_model_len": desk.model.context,
    }
    if name != desk.settings.name:
        version = desk.model.adapters.current(name)  # type: ignore[attr-defined]
        about |= {"parent": desk.settings.name, "served": version.name, "digest": version.digest}
    return about


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + encode(chunk) + b"\n\n"


def _json(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(encode(body), status, headers, media_type="application/json")


def _refused(error: BaseException) -> Response:
    _note(error)
    refusal = refusal_of(error)
    return _json(refusal.body(), refusal.status, refusal.headers())


def _note(error: BaseException) -> None:
    """What went wrong on this side goes into the log; what a client did wrong does not."""
    if refusal_of(error).status >= 500 and not isinstance(error, Refusal):
        if isinstance(error, RolecraftError):
            log.error(f"A request failed: {error}")
        else:
            log.opt(exception=error).error(f"A request failed: {type(error).__name__}")


async def _nothing() -> Any:
    raise AssertionError("a plain response reads nothing")
