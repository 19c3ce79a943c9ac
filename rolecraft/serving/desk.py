"""What all paths of the server share: the model, who may ask, and how much is let in.

Invariant: a request holds a place from before its body is read until its answer is given up or
sent, and at most `Settings.max_reading` bytes of bodies are held at once. What takes long with a
body (parsing, checking, tokenising) happens in threads, so that one request stops no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel

from rolecraft.errors import UsageError
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.fields import read_body
from rolecraft.serving.keys import Keys, check_host
from rolecraft.serving.orders import longest_token
from rolecraft.serving.refusals import Refusal

Out = TypeVar("Out")
AnyBody = TypeVar("AnyBody", bound=BaseModel)


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
    - `max_reading`: bytes of all requests that are being read and checked; more are refused with
      503.
    - `read_seconds`: in which a request's body is to come.
    - `write_seconds`: in which a client is to take each piece of a stream; one that does not read
      loses its answer.
    """

    name: str
    keys: Sequence[str] = ()
    admin_keys: Sequence[str] = ()
    any_host: bool = False
    max_tokens: int = 1024
    max_answers: int = 512
    max_body: int = 8 * 1024 * 1024
    max_reading: int = 64 * 1024 * 1024
    read_seconds: float = 60
    write_seconds: float = 60

    def __post_init__(self) -> None:
        if self.max_reading < self.max_body:
            raise UsageError(
                f"`max_reading={self.max_reading!r}` is less than `max_body={self.max_body!r}`: "
                f"the largest request could never be read. Raise the one or lower the other."
            )


class Place:
    """The place of one request among those under way."""

    def __init__(self, desk: Desk, answers: int = 0) -> None:
        self._desk = desk
        self._answers = answers

    def widen(self, answers: int) -> None:
        """It asks for so many answers in all. Raises `Refusal` if that is too many at once."""
        self._desk.admit(answers, held=self._answers)
        self._answers = answers

    def handed_on(self) -> Place:
        """The same place for whoever goes on with the request, and leaves it at its end."""
        answers, self._answers = self._answers, 0
        return Place(self._desk, answers)

    def leave(self) -> None:
        """Harmless when called twice."""
        self._desk.under_way -= self._answers
        self._answers = 0


class Desk:
    """What the paths share: the model, who may ask, and how much is under way."""

    def __init__(self, model: TokenModel, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.keys = Keys(settings.keys)
        self.admins = Keys(settings.admin_keys)
        self.created = int(time.time())
        self.under_way = 0
        """Answers that are being written or wait."""
        self.reading = 0
        """Bytes of bodies that are being read and checked."""
        self._prompts = ThreadPoolExecutor(1, thread_name_prefix="prompts")
        self._bodies = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    @property
    def roles(self) -> list[str]:
        """The roles that have an adapter: models of their own for clients."""
        adapters = getattr(self.model, "adapters", None)
        return [] if adapters is None else list(adapters.roles)

    @cached_property
    def longest(self) -> int:
        """Characters of the longest token."""
        return longest_token(self.model)

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
        try:
            self.admins.check(request.headers.get("authorization"))
        except Refusal as error:
            text = f"{error} This needs a key of `--admin-key-file`; a user's is not enough."
            raise Refusal(text, status=error.status, code=error.code) from None

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A place for a request, given up at the end. Raises `Refusal` if there is none."""
        place = Place(self)
        place.widen(1)
        try:
            yield place
        finally:
            place.leave()

    def admit(self, answers: int, *, held: int = 0) -> None:
        """Count in `answers`, of which `held` are counted already. Raises `Refusal` if that is too
        many at once.
        """
        most = self.settings.max_answers
        if answers > most:
            raise Refusal(
                f"The request asks for {answers} answers, and this server writes {most} at once "
                f"at most. Ask for fewer.",
                param="n",
            )
        if self.under_way + answers - held > most:
            raise Refusal(
                f"The server is overloaded: {self.under_way} answers are under way or wait, and it "
                f"admits {most}. Try again in a moment.",
                status=503,
                code="overloaded",
                retry_after=1,
            )
        self.under_way += answers - held

    async def prompts(self, work: Callable[[], Out]) -> Out:
        """Render and tokenise apart from the event loop, where a long conversation would keep the
        others waiting; one after the other, because tokenizers have settings that a call changes.
        """
        return await asyncio.get_running_loop().run_in_executor(self._prompts, work)

    async def body(self, kind: type[AnyBody], request: Request) -> AnyBody:
        """The body of a request, read and checked. Raises `Refusal` for what is wrong with it."""
        declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if declared != "application/json":
            # Also what keeps a page in a browser from asking: JSON needs the server's consent.
            raise Refusal(
                f"The content type is {declared or None!r}: send JSON, with the header "
                f"`Content-Type: application/json`.",
                status=415,
                code="unsupported_media_type",
            )
        async with self._bytes(request) as data:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._bodies, read_body, kind, data)

    @asynccontextmanager
    async def _bytes(self, request: Request) -> AsyncGenerator[bytearray, None]:
        """The bytes of a body, counted until the block ends."""
        data = bytearray()
        try:
            await self._read(request, data)
            yield data
        finally:
            self.reading -= len(data)

    async def _read(self, request: Request, data: bytearray) -> None:
        try:
            async with asyncio.timeout(self.settings.read_seconds):
                async for chunk in request.stream():
                    self._check_size(len(data) + len(chunk), len(chunk))
                    data += chunk
                    self.reading += len(chunk)
        except TimeoutError:
            raise Refusal(
                f"The body did not come within {self.settings.read_seconds:g} seconds.",
                status=408,
                code="request_timeout",
            ) from None

    def _check_size(self, size: int, more: int) -> None:
        if size > self.settings.max_body:
            raise Refusal(
                f"The request is larger than the {self.settings.max_body} bytes that this "
                f"server reads.",
                status=413,
                code="request_too_large",
            )
        if self.reading + more > self.settings.max_reading:
            raise Refusal(
                f"The server is overloaded: it reads requests of {self.reading} bytes already. Try "
                f"again in a moment.",
                status=503,
                code="overloaded",
                retry_after=1,
            )
