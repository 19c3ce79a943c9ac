"""How `Remote` asks its server: connections, request ids, waiting and asking again.

Invariant: what is asked for is done at most once, however often it is asked. Every request that
does something has an id of its own, under which the server does it once; a server that was started
anew meanwhile, and so cannot know whether it was done, does nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import IO, TYPE_CHECKING

from rolecraft._log import log
from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.sandboxes._remote_address import wrong_address
from rolecraft.sandboxes._remote_wire import (
    FOLLOW,
    INSTANCE,
    LEASE,
    NDJSON,
    REQUEST,
    About,
    AnyBody,
    Body,
    ErrorBody,
    decoded,
    encoded,
    error_of,
    in_words,
)
from rolecraft.sandboxes.live import SandboxLost

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

Content = bytes | Callable[[], AsyncIterator[bytes]] | None

SILENCE = 60.0
"""Seconds without a sign of life from the server, after which a connection counts as lost."""
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_TAKE_BACK_SECONDS = 10.0


class _Again(Exception):
    """It was not answered, and may be asked again after `seconds`, if the server said.

    `arrived`: the server may have seen it, and done it.
    """

    def __init__(
        self, error: SandboxError, *, lost: bool, arrived: bool = True, seconds: float = 0.0
    ) -> None:
        self.error, self.lost, self.seconds = error, lost, seconds
        self.arrived = lost and arrived
        super().__init__(str(error))


class Refused(Exception):
    """The server refused with a code that somebody here knows what to do about."""

    def __init__(self, body: ErrorBody, error: RolecraftError) -> None:
        self.body, self.error = body, error
        super().__init__(str(error))


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


class Into:
    """A file that takes the body of an answer, and no more of it than `most` bytes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most

    def write(self, piece: bytes) -> None:
        """Raises `SandboxError` for too much."""
        if self._file.tell() + len(piece) > self._most:
            raise SandboxError(f"The sandbox server sends more than {self._most} bytes.")
        self._file.write(piece)

    def again(self) -> None:
        """Take it from the beginning."""
        self._file.seek(0)
        self._file.truncate()


class Client:
    """One client of one server: a lease, and a pool of connections.

    Asks again for `reconnect_seconds` after a lost connection, for `wait_seconds` where the server
    is full.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        verify: SSLContext | bool,
        wait_seconds: float,
        reconnect_seconds: float,
    ) -> None:
        self.url, self._token = url.rstrip("/"), token
        # Without https no certificates are needed, and to read them takes 50 ms.
        self._verify = verify if url.startswith("https:") else False
        self._wait_seconds, self._reconnect_seconds = wait_seconds, reconnect_seconds
        self.lease = uuid.uuid4().hex
        self.about: About | None = None
        self._pool: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self.ending = False
        """Nothing more is begun; what is under way is on its way out."""
        self._closed = False

    def headers(self) -> dict[str, str]:
        headers = {LEASE: self.lease}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        return headers

    def ask_now(self) -> About:
        """What the server is, asked without an event loop. Raises `SandboxError`."""
        import httpx

        try:
            with httpx.Client(trust_env=False, verify=self._verify, timeout=10) as client:
                got = client.get(f"{self.url}/v1/about", headers=self.headers())
        except httpx.HTTPError as error:
            raise wrong_address(self.url, error) or self._unreachable(error) from error
        return self._learn(self._read(About, self._taken(Reply(got.status_code, got.content))))

    async def learn(self) -> About:
        """What the server is; asked once, and again after it was started anew."""
        if self.about is None:
            self._learn(self._read(About, await self.ask("GET", "/v1/about")))
        assert self.about is not None
        return self.about

    async def renew(self) -> None:
        """Say that this client lives."""
        self._read(About, await self.ask("POST", "/v1/lease"))

    async def do(
        self,
        answer: type[AnyBody],
        method: str,
        path: str,
        body: Body | Content = None,
        *,
        params: Mapping[str, str | int] | None = None,
        hear: Callable[[bytes], None] | None = None,
    ) -> AnyBody:
        """Have something done, once, and read the answer.

        Raises what the server raised; `SandboxLost` if it cannot be reached any more, or this
        client was closed; `Refused` for a code that is not an error of sandboxes. Cancelled, it
        takes the request back.
        """
        if self.ending:
            raise self._was_closed()
        await self.learn()
        content = encoded(body) if isinstance(body, Body) else body
        key = uuid.uuid4().hex
        try:
            follow = None if hear is None else _Follow(hear)
            reply = await self._once(method, path, content, params, key, follow)
        except asyncio.CancelledError:
            await asyncio.shield(self._take_back(key))
            raise
        return self._read(answer, reply)

    async def _once(
        self,
        method: str,
        path: str,
        content: Content,
        params: Mapping[str, str | int] | None,
        key: str,
        follow: _Follow | None,
    ) -> bytes:
        assert self.about is not None
        tried = _Tried()
        for _ in range(3):
            meant = {REQUEST: key, INSTANCE: self.about.instance}
            try:
                return await self.ask(
                    method, path, content, params=params, headers=meant, tried=tried, follow=follow
                )
            except Refused as refused:
                if refused.body.code != "other_instance":
                    raise
                self.about = None
                if tried.arrived:
                    raise SandboxLost(
                        "The sandbox server was started anew while it was asked for something, "
                        "and nobody knows whether it was done. Begin with a new sandbox."
                    ) from refused
                # It was refused by the first server that saw it, so nothing was done.
                self.about = await self.learn()
        raise SandboxLost(f"The sandbox server at {self.url} is started anew again and again.")

    async def _take_back(self, key: str) -> None:
        try:
            async with asyncio.timeout(_TAKE_BACK_SECONDS):
                await self.ask("DELETE", f"/v1/requests/{key}")
        except (TimeoutError, RolecraftError, Refused) as error:
            log.warning(f"A cancelled request could not be taken back: {error}")

    async def ask(
        self,
        method: str,
        path: str,
        content: Content = None,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        tried: _Tried | None = None,
        follow: _Follow | None = None,
        into: Into | None = None,
    ) -> bytes:
        """One request, again and again until it is answered; the answer's body.

        `into` takes the body instead. Raises as `do`.
        """
        import tenacity

        if self._closed and method == "DELETE":
            return b"{}"  # it went with the lease
        tried = _Tried() if tried is None else tried
        started = time.monotonic()

        def stop(state: RetryCallState) -> bool:
            again = _again(state)
            tried.arrived |= again.arrived
            if again.lost:
                if tried.lost_at is None:
                    tried.lost_at = time.monotonic()
                    log.warning(f"{again} Trying again for {self._patience():g} seconds.")
                return time.monotonic() - tried.lost_at >= self._patience()
            tried.lost_at = None
            return time.monotonic() - started + again.seconds > self._wait_seconds

        def wait(state: RetryCallState) -> float:
            again = _again(state)
            backoff = min(_FIRST_WAIT * 2.0 ** min(state.attempt_number - 1, 10), _LONGEST_WAIT)
            # Up to half is added at random: clients refused together must not come back together.
            return (again.seconds or backoff) * random.uniform(1.0, 1.5)

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Again), stop=stop, wait=wait, reraise=True
        )
        try:
            async for attempt in retrying:
                with attempt:
                    return self._taken(
                        await self._send(method, path, content, params, headers, follow, into)
                    )
        except _Again as again:
            raise again.error from again.__cause__
        raise AssertionError("tenacity returns or raises")

    def _patience(self) -> float:
        """How long to try for a connection. No longer than the lease: when it is over, the server
        may have forgotten what it did.
        """
        if self.about is None:
            return self._reconnect_seconds
        return min(self._reconnect_seconds, 0.8 * self.about.lease_seconds)

    async def _send(
        self,
        method: str,
        path: str,
        content: Content,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str] | None,
        follow: _Follow | None,
        into: Into | None,
    ) -> Reply:
        import httpx

        headers = {"accept": f"application/json, {NDJSON}", **(headers or {})}
        if follow is not None:
            headers[FOLLOW] = str(follow.heard)
        data = content() if callable(content) else content
        try:
            async with self._connected().stream(
                method, path, content=data, params=params, headers=headers
            ) as got:
                if got.headers.get("content-type", "").startswith(NDJSON):
                    reply = await self._in_lines(got, follow)
                elif into is not None and got.status_code == 200:
                    async for piece in got.aiter_bytes():
                        await asyncio.to_thread(into.write, piece)
                    reply = Reply(200, b"")
                else:
                    reply = Reply(got.status_code, await got.aread())
        except UnicodeEncodeError as error:
            raise UsageError(f"{params!r} has characters that no path can have.") from error
        except httpx.TransportError as error:
            if (never := wrong_address(self.url, error)) is not None:
                raise never from error
            if into is not None:
                into.again()
            arrived = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            raise _Again(self._unreachable(error), lost=True, arrived=arrived) from error
        if reply.status in (429, 503):
            busy = SandboxError(
                f"The sandbox server at {self.url} is busy, and was for {self._wait_seconds:g} "
                f"seconds: {_message(reply)} `Remote(wait_seconds=...)` waits longer."
            )
            raise _Again(busy, lost=False, seconds=_seconds(got.headers.get("retry-after")))
        if reply.status in (502, 504):  # of a proxy on the way
            raise _Again(self._unreachable(f"HTTP {reply.status}"), lost=True)
        return reply

    async def _in_lines(self, got: httpx.Response, follow: _Follow | None) -> Reply:
        """The last line is the answer; a connection that ends before is lost."""
        import httpx

        async for line in got.aiter_lines():
            found = json.loads(line)
            if "status" in found:
                body = found.get("answer", {"error": found.get("error")})
                return Reply(found["status"], json.dumps(body).encode())
            if follow is not None and "output" in found:
                follow.heard += 1
                follow.hear(base64.b64decode(found["output"]))
        raise httpx.RemoteProtocolError("The answer ended in the middle.")

    def _taken(self, reply: Reply) -> bytes:
        """The body of an answer that is none of the errors. Raises the error."""
        if reply.status == 200:
            return reply.body
        try:
            body = ErrorBody.model_validate(json.loads(reply.body)["error"])
        except (ValueError, KeyError, TypeError):
            raise SandboxError(
                f"{self.url} answered {reply.status}, and not as a sandbox server does. Is this "
                f"the address that `rolecraft sandbox-server` said?"
            ) from None
        error = error_of(body)
        if body.code == "token":
            raise SandboxError(
                f"{error} Give `Remote({self.url!r}, token=...)` a token of the server's."
            )
        if body.code in ("unknown_base", "other_instance"):
            raise Refused(body, error)
        raise error

    def _read(self, kind: type[AnyBody], data: bytes) -> AnyBody:
        try:
            return decoded(kind, data)
        except ValueError as error:
            raise SandboxError(
                f"The sandbox server at {self.url} is of another version: {in_words(error)}."
            ) from error

    def _learn(self, about: About) -> About:
        self.about = about
        return about

    def _unreachable(self, why: Exception | str) -> SandboxLost:
        what = why if isinstance(why, str) else f"{type(why).__name__}: {why}".rstrip(": ")
        return SandboxLost(f"The sandbox server at {self.url} cannot be reached ({what}).")

    def _was_closed(self) -> SandboxLost:
        return SandboxLost(
            f"`Remote({self.url!r})` was closed, and its sandboxes with it: make a new one."
        )

    def _connected(self) -> httpx.AsyncClient:
        """The pool of the event loop that runs."""
        import httpx

        if self._closed:
            raise self._was_closed()
        loop = asyncio.get_running_loop()
        if self._pool is None or self._pool[0] is not loop:
            client = httpx.AsyncClient(
                base_url=self.url,
                headers=self.headers(),
                trust_env=False,
                verify=self._verify,
                timeout=httpx.Timeout(SILENCE, connect=10, pool=None),
                # The server says how much may be under way.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            )
            self._pool = (loop, client)
        return self._pool[1]

    async def close(self) -> None:
        """Close the connections, for good."""
        self.ending = self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None and pool[0] is asyncio.get_running_loop():
            await pool[1].aclose()


@dataclass(slots=True)
class _Follow:
    """Who hears what a command prints, and how many pieces that were."""

    hear: Callable[[bytes], None]
    heard: int = 0


@dataclass(slots=True)
class _Tried:
    """What is known of the attempts of one request."""

    lost_at: float | None = None
    """When the connection was lost, if it is."""
    arrived: bool = False
    """The server may have seen one of them."""


def _again(state: RetryCallState) -> _Again:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, _Again)
    return error


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0


def _message(reply: Reply) -> str:
    try:
        return str(json.loads(reply.body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {reply.status}."
