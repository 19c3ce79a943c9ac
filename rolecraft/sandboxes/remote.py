"""`Remote`: sandboxes on a server, that of `rolecraft sandbox-server`.

    async with Remote("http://sandboxes.internal:8100", token=token) as provider:
        async with await provider.create(SandboxSpec(base="repository/")) as sandbox:
            done = await sandbox.run(["python3", "-m", "pytest", "-q"])

While it has a sandbox open it says every few seconds that it lives; a client that is killed leaves
nothing behind for longer than the server's lease.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from rolecraft._log import log
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.sandboxes._remote_base import Bases
from rolecraft.sandboxes._remote_client import Client, Refused
from rolecraft.sandboxes._remote_sandbox import Owner, RemoteSandbox, run_body
from rolecraft.sandboxes._remote_wire import Done, Made, SpecBody
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits
from rolecraft.sandboxes.live import SandboxSpec, Wall


class Remote:
    """Sandboxes of the server at `url`. One object serves any number, of one event loop.

    - `token`: one of the server's. White space around it, as in a line of a file, is dropped.
    - `wait_seconds`: how long to wait, and ask again, where the server is full.
    - `reconnect_seconds`: how long to try again after the connection was lost; then the sandboxes
      are lost (`SandboxLost`). No command is run twice by that.
    - `verify`: for https, as httpx takes it; an `ssl.SSLContext` for a certificate of one's own.

    `root` and `readable` of a spec name folders of the server, and its operator must have allowed
    them; `base` is a folder of this machine: the server gets a copy, once for each content.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        wait_seconds: float = 600.0,
        reconnect_seconds: float = 30.0,
        verify: SSLContext | bool = True,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"`Remote({url!r})` wants the address of a sandbox server, such as "
                f"'http://127.0.0.1:8100'."
            )
        for name, value in (
            ("wait_seconds", wait_seconds),
            ("reconnect_seconds", reconnect_seconds),
        ):
            if not value >= 0:
                raise UsageError(f"`Remote({name}={value!r})` wants a number from 0.")
        if token is not None:
            token = token.strip()
            if not token or not token.isascii() or not token.isprintable():
                raise UsageError(  # without the token, which must not get into logs
                    "`Remote(token=...)` wants one of the server's tokens, on one line: ASCII, no "
                    "control character in it."
                )
        self._arguments: dict[str, Any] = {
            "token": token,
            "wait_seconds": wait_seconds,
            "reconnect_seconds": reconnect_seconds,
            "verify": verify,
        }
        self._url = url
        self._client = Client(
            url,
            token,
            verify=verify,
            wait_seconds=wait_seconds,
            reconnect_seconds=reconnect_seconds,
        )
        self._bases = Bases()
        self._open: set[object] = set()
        self._living: asyncio.Task[None] | None = None
        self._owner = Owner(self._client, self._opened, self._closed)

    @property
    def walls(self) -> frozenset[Wall]:
        """What the server says that its provider holds. Asks it, and waits for the answer, unless
        a sandbox was made before. Raises `SandboxError` if it does not answer.
        """
        return frozenset((self._client.about or self._client.ask_now()).walls)

    async def create(self, spec: SandboxSpec | None = None) -> RemoteSandbox:
        """See `SandboxProvider.create`. Waits for a place while the server is full."""
        spec = spec or SandboxSpec()
        if spec.base is None:
            return await self._create(spec, None)
        with tempfile.TemporaryFile() as archive:
            digest = await self._bases.digest(Path(spec.base), archive)
            for last in (False, False, True):
                try:
                    return await self._create(spec, digest)
                except Refused as refused:
                    if refused.body.code != "unknown_base" or last:
                        raise refused.error from None
                await self._bases.send(self._client, digest, Path(spec.base), archive)
        raise AssertionError("the last attempt returns or raises")

    async def _create(self, spec: SandboxSpec, digest: str | None) -> RemoteSandbox:
        body = SpecBody.of(spec, digest)
        make = self._client.do(Made, "POST", "/v1/sandboxes", body)
        return await self._owner.sandbox(make, spec)

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """One command in a fresh folder: see `Sandbox.run`."""
        body = run_body(command, files, stdin, limits)
        return (await self._client.do(Done, "POST", "/v1/run", body)).execution

    def _opened(self, made: object) -> None:
        self._open.add(made)
        if self._living is None or self._living.done():
            self._living = asyncio.create_task(self._live())

    def _closed(self, made: object) -> None:
        self._open.discard(made)
        if not self._open and self._living is not None:
            self._living.cancel()
            self._living = None

    async def _live(self) -> None:
        """Renew the lease, as long as there is something to keep."""
        about = await self._client.learn()
        while True:
            await asyncio.sleep(about.lease_seconds / 4)
            try:
                await self._client.renew()
            except RolecraftError as error:  # the next call says it to whoever makes it
                log.warning(f"The lease at {self._url} could not be renewed: {error}")

    async def aclose(self) -> None:
        """Close all its sandboxes, and the connections, for good: `create` raises `SandboxLost`.

        A second time it does nothing.
        """
        self._client.ending = True
        if self._living is not None:
            self._living.cancel()
            self._living = None
        try:
            if self._open:
                self._open.clear()
                await self._client.ask("DELETE", "/v1/lease")
        finally:
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in a worker process say, is a client of its own."""
        return (_remote, (self._url, self._arguments))

    def __repr__(self) -> str:
        return f"Remote({self._url!r})"  # and no token, which reprs carry into logs


def _remote(url: str, arguments: dict[str, Any]) -> Remote:
    return Remote(url, **arguments)
