"""The paths of the server, and what each does.

Invariant: whatever a request says, the answer is an object of JSON, an archive, or a file's bytes,
with a status; what goes wrong with one request touches no other.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rolecraft.errors import RolecraftError
from rolecraft.sandboxes._remote_wire import (
    FOLLOW,
    INSTANCE,
    LEASE,
    NDJSON,
    REQUEST,
    About,
    AnyBody,
    Body,
    LineBody,
    Nothing,
    RunBody,
    ShellBody,
    SpecBody,
)
from rolecraft.sandboxes.live import SandboxProvider
from rolecraft.sandboxes.server.answers import Answer, NotServed, answer, answer_to
from rolecraft.sandboxes.server.guard import Bodies, Guard, parsed
from rolecraft.sandboxes.server.jobs import Job, Work
from rolecraft.sandboxes.server.leases import Lease, Leases
from rolecraft.sandboxes.server.replies import ArchiveResponse, JobResponse, respond
from rolecraft.sandboxes.server.settings import ServerSettings
from rolecraft.sandboxes.server.work import Workshop

_WORD = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
Size = Annotated[int, Query(gt=0, lt=2**63)]
"""Bytes, in a query."""


class Desk:
    """What all paths share."""

    def __init__(self, provider: SandboxProvider, settings: ServerSettings) -> None:
        self.settings = settings
        self.instance = uuid.uuid4().hex
        self.leases, self.bodies = Leases(settings), Bodies(settings)
        self.shop = Workshop(provider, settings)
        self.ready = False

    def about(self) -> About:
        provider = self.shop.provider
        return About(
            provider=type(provider).__name__,
            walls=sorted(provider.walls),
            instance=self.instance,
            lease_seconds=self.settings.lease_seconds,
            max_body=self.settings.max_body,
            max_upload=self.settings.max_upload,
        )

    def lease(self, request: Request) -> Lease:
        """The client's lease. Raises `NotServed` if it has none or means another server."""
        meant = request.headers.get(INSTANCE, self.instance)
        if meant != self.instance:
            raise NotServed(
                "The sandbox server was started anew: what it had before is gone.",
                status=410,
                code="other_instance",
            )
        name = self._word(request, LEASE)
        if name is None:
            raise NotServed(
                f"The header `{LEASE}` is missing: a word of the client's own, under which all is "
                f"kept that is made for it."
            )
        return self.leases.of(name)

    async def work(
        self,
        request: Request,
        kind: type[AnyBody],
        do: Callable[[Lease, AnyBody, Job], Awaitable[Body | Answer]],
        *,
        counted: bool = True,
    ) -> Response:
        """Read a body in JSON, and have it done."""
        lease = self.lease(request)
        async with self.bodies.in_memory(request) as data:
            fingerprint = _fingerprint(request, data)
            body = await parsed(kind, data)
        return self.start(request, lease, fingerprint, lambda job: do(lease, body, job), counted)

    def start(
        self,
        request: Request,
        lease: Lease,
        fingerprint: bytes,
        work: Work,
        counted: bool = True,
        ended: Callable[[], None] = lambda: None,
    ) -> Response:
        """Begin the work, unless the request came before; answer when it is done.

        `ended` is called once, whatever happens.
        """
        with ExitStack() as at_end:
            at_end.callback(ended)
            key = self._word(request, REQUEST) or secrets.token_hex(16)
            job = lease.jobs.find(key, fingerprint)
            if job is None:
                if counted:
                    at_end.callback(self.shop.commands.take())
                # From here on it is the job whose end counts, not this request's.
                later = at_end.pop_all()
                job = lease.jobs.start(key, fingerprint, work, ended=later.close)
                job.followed = _after(request) is not None
        return JobResponse(
            job,
            lease,
            heartbeat_seconds=self.settings.heartbeat_seconds,
            in_lines=NDJSON in request.headers.get("accept", ""),
            after=_after(request),
        )

    @staticmethod
    def _word(request: Request, header: str) -> str | None:
        value = request.headers.get(header)
        if value is not None and not _WORD.fullmatch(value):
            raise NotServed(f"The header `{header}` is to be of 1 to 80 letters, digits, `_.-`.")
        return value


def make_app(provider: SandboxProvider, settings: ServerSettings) -> FastAPI:
    """The ASGI application that serves `provider`. Its lifespan closes what is left at the end."""
    desk = Desk(provider, settings)
    shop = desk.shop

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        shop.bases.open()
        try:
            async with desk.leases:
                desk.ready = True
                yield
                desk.ready = False
        finally:
            await shop.bases.close()

    app = FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, title="Rolecraft", lifespan=lifespan
    )
    app.state.desk = desk
    app.add_middleware(Guard, settings=settings)

    @app.get("/health")
    async def health() -> Response:
        return respond(Answer(200, b'{"status":"ok"}'))

    @app.get("/ready")
    async def ready() -> Response:
        if desk.ready:
            return respond(Answer(200, b'{"status":"ready"}'))
        return respond(Answer(503, b'{"status":"ending"}', headers={"retry-after": "5"}))

    @app.get("/v1/about")
    async def about(request: Request) -> Response:
        return respond(answer(desk.about()))

    @app.post("/v1/lease")
    async def renew(request: Request) -> Response:
        desk.lease(request)
        return respond(answer(desk.about()))

    @app.delete("/v1/lease")
    async def leave(request: Request) -> Response:
        desk.lease(request)
        await desk.leases.end_one(request.headers[LEASE])
        return respond(answer(Nothing()))

    @app.delete("/v1/requests/{key}")
    async def take_back(request: Request, key: str) -> Response:
        if not _WORD.fullmatch(key):
            raise NotServed("The id of a request is of 1 to 80 letters, digits, `_.-`.")
        await desk.lease(request).jobs.take_back(key)
        return respond(answer(Nothing()))

    @app.put("/v1/bases/{digest}")
    async def put_base(request: Request, digest: str) -> Response:
        desk.lease(request)
        if not _DIGEST.fullmatch(digest):
            raise NotServed("A folder's name is the SHA-256 of its archive, in hexadecimal.")
        give_back = shop.commands.take()
        try:
            with shop.bases.scratch_file() as file:
                await desk.bodies.on_disk(request, file)
                await shop.bases.put(digest, file)
        finally:
            give_back()
        return respond(answer(Nothing()))

    @app.post("/v1/run")
    async def run_alone(request: Request) -> Response:
        return await desk.work(request, RunBody, lambda lease, body, job: shop.run_alone(body))

    @app.post("/v1/sandboxes")
    async def create(request: Request) -> Response:
        return await desk.work(request, SpecBody, shop.create)

    @app.delete("/v1/sandboxes/{name}")
    @app.delete("/v1/snapshots/{name}")
    async def close(request: Request, name: str) -> Response:
        await desk.lease(request).close_one(name)
        return respond(answer(Nothing()))

    @app.post("/v1/sandboxes/{name}/run")
    async def run(request: Request, name: str) -> Response:
        return await desk.work(
            request, RunBody, lambda lease, body, job: shop.run(lease, name, body, job)
        )

    @app.post("/v1/sandboxes/{name}/fork")
    async def fork(request: Request, name: str) -> Response:
        return await desk.work(request, Nothing, lambda lease, _, job: shop.fork(lease, name, job))

    @app.post("/v1/sandboxes/{name}/snapshot")
    async def snapshot(request: Request, name: str) -> Response:
        return await desk.work(
            request, Nothing, lambda lease, _, job: shop.snapshot(lease, name, job)
        )

    @app.post("/v1/snapshots/{name}/create")
    async def create_from(request: Request, name: str) -> Response:
        return await desk.work(
            request, Nothing, lambda lease, _, job: shop.create_from(lease, name, job)
        )

    @app.post("/v1/sandboxes/{name}/shells")
    async def open_shell(request: Request, name: str) -> Response:
        return await desk.work(
            request, ShellBody, lambda lease, body, job: shop.open_shell(lease, name, body, job)
        )

    @app.post("/v1/sandboxes/{name}/shells/{number}/run")
    async def run_line(request: Request, name: str, number: str) -> Response:
        return await desk.work(
            request,
            LineBody,
            lambda lease, body, job: shop.run_line(lease, name, number, body, job),
        )

    # What ends something is not counted: where the server is full, that is what helps.
    @app.post("/v1/sandboxes/{name}/shells/{number}/interrupt")
    async def interrupt(request: Request, name: str, number: str) -> Response:
        return await desk.work(
            request,
            Nothing,
            lambda lease, _, job: shop.interrupt(lease, name, number),
            counted=False,
        )

    @app.delete("/v1/sandboxes/{name}/shells/{number}")
    async def close_shell(request: Request, name: str, number: str) -> Response:
        await shop.close_shell(desk.lease(request), name, number)
        return respond(answer(Nothing()))

    @app.get("/v1/sandboxes/{name}/file")
    async def read(request: Request, name: str, path: str, max_bytes: Size) -> Response:
        lease, give_back = desk.lease(request), shop.commands.take()
        try:
            content = await shop.read(lease, name, path, max_bytes)
        finally:
            give_back()
        return respond(Answer(200, content, "application/octet-stream"))

    @app.put("/v1/sandboxes/{name}/file")
    async def write(request: Request, name: str, path: str, executable: bool = False) -> Response:
        lease = desk.lease(request)
        async with desk.bodies.in_memory(request) as data:
            fingerprint, content = _fingerprint(request, data), bytes(data)
        return desk.start(
            request,
            lease,
            fingerprint,
            lambda job: shop.write(lease, name, path, content, executable),
        )

    @app.put("/v1/sandboxes/{name}/archive")
    async def upload(request: Request, name: str, path: str) -> Response:
        lease = desk.lease(request)
        lease.sandbox(name)  # before all of it is read
        file = shop.bases.scratch_file()
        try:
            digest = await desk.bodies.on_disk(request, file)
        except BaseException:
            file.close()
            raise
        return desk.start(
            request,
            lease,
            _fingerprint(request, digest),
            lambda job: shop.upload(lease, name, path, file),
            ended=file.close,
        )

    @app.get("/v1/sandboxes/{name}/archive")
    async def download(
        request: Request, name: str, path: str, max_bytes: Size | None = None
    ) -> Response:
        lease, give_back = desk.lease(request), shop.commands.take()
        try:
            folder, pieces = await shop.download(lease, name, path, max_bytes)
        except BaseException:
            give_back()
            raise
        # Its place is taken until all of it is sent.
        return ArchiveResponse(
            folder, pieces, lease, send_seconds=settings.read_seconds, ended=give_back
        )

    @app.get("/v1/sandboxes/{name}/ports/{port}")
    async def endpoint(request: Request, name: str, port: int) -> Response:
        return respond(answer(await shop.endpoint(desk.lease(request), name, port)))

    @app.exception_handler(RolecraftError)
    async def own_error(request: Request, error: RolecraftError) -> Response:
        return respond(answer_to(error))

    @app.exception_handler(RequestValidationError)
    async def bad_query(request: Request, error: RequestValidationError) -> Response:
        told = "; ".join(f"`{each['loc'][-1]}`: {each['msg']}" for each in error.errors()[:3])
        return respond(answer_to(NotServed(f"The request is wrong: {told}.", status=422)))

    @app.exception_handler(HTTPException)
    async def no_such_path(request: Request, error: HTTPException) -> Response:
        text = f"{request.method} {request.url.path}: {error.detail}."
        return respond(answer_to(NotServed(text, status=error.status_code)))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return respond(answer_to(error))

    return app


def _after(request: Request) -> int | None:
    """How many pieces of output a client has that wants to hear it; None if it does not."""
    value = request.headers.get(FOLLOW)
    if value is not None and not (value.isascii() and value.isdigit() and len(value) < 10):
        raise NotServed(f"The header `{FOLLOW}` is to be a number of pieces, from 0.")
    return None if value is None else int(value)


def _fingerprint(request: Request, data: bytes | bytearray) -> bytes:
    """What tells two requests apart that have the same id."""
    head = f"{request.method} {request.url.path}?{request.url.query}\n"
    return hashlib.sha256(head.encode() + data).digest()
