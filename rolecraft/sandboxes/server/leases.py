"""Who has what: clients by their leases, and each one's sandboxes, shells and snapshots.

Invariant: whatever was made for a client is closed when the client closes it, when its lease ends
without a sign of life, or when the server ends; and a client finds nothing but its own.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rolecraft._log import log
from rolecraft.sandboxes.live import LiveSandbox, SandboxLost, Shell, Snapshot
from rolecraft.sandboxes.server.answers import NotServed
from rolecraft.sandboxes.server.jobs import Jobs, Remembered
from rolecraft.sandboxes.server.settings import ServerSettings


class Places:
    """How many of something there may be at once."""

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most, self.taken = what, most, 0

    def take(self) -> Callable[[], None]:
        """Take one; what is returned gives it back, once. Raises `NotServed` if there is none."""
        if self.taken >= self.most:
            raise NotServed(
                f"The server is full: it admits {self.most} {self.what} at once. Try again in a "
                f"moment.",
                status=429,
                code="overloaded",
                retry_after=1,
            )
        self.taken += 1
        back = False

        def give_back() -> None:
            nonlocal back
            self.taken -= not back
            back = True

        return give_back


@dataclass(eq=False)
class Held:
    """A sandbox or a snapshot of a client, and what is given back when it is closed."""

    made: LiveSandbox | Snapshot
    given_back: list[Callable[[], None]]
    base: str | None = None
    ttl_seconds: float | None = None
    shells: dict[str, Shell] = field(default_factory=dict)
    used_at: float = field(default_factory=time.monotonic)
    busy: int = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self.used_at = time.monotonic()

    def is_stale(self, now: float) -> bool:
        """Its time without a call is over."""
        if self.ttl_seconds is None or self.busy:
            return False
        return now - self.used_at > self.ttl_seconds

    async def close(self) -> None:
        try:
            await self.made.close()
        finally:
            for give_back in self.given_back:
                give_back()
            self.given_back = []


class Lease:
    """One client: its requests, and what was made for it."""

    def __init__(self, settings: ServerSettings, remembered: Remembered) -> None:
        self._seconds = settings.lease_seconds
        self.jobs = Jobs(
            most=settings.remembered_requests,
            most_bytes=settings.remembered_bytes,
            remembered=remembered,
        )
        self.sandboxes: dict[str, Held] = {}
        self.snapshots: dict[str, Held] = {}
        self.ended = False
        self._open = 0
        self._until = 0.0
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + self._seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """While a connection of the client waits, the lease goes on."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self.renew()

    def is_over(self, now: float) -> bool:
        return self._open == 0 and now > self._until

    def keep(self, held: Held, where: dict[str, Held]) -> str:
        """Enter what was made; returns the id, which nobody can guess."""
        if self.ended:  # while it was made, so nobody else will close it
            raise SandboxLost("The client's lease ended while it was made.")
        name = secrets.token_urlsafe(18)
        where[name] = held
        return name

    def sandbox(self, name: str) -> tuple[Held, LiveSandbox]:
        """Raises `SandboxLost` for one that is not, or no longer, this client's."""
        held = self.sandboxes.get(name)
        if held is None:
            raise SandboxLost(
                "The server has no such sandbox of this client: it was closed, or its lease ended, "
                "or the server was started anew."
            )
        return held, held.made  # type: ignore[return-value]

    def shell(self, sandbox: str, name: str) -> tuple[Held, Shell]:
        """Raises `SandboxLost`."""
        held, _ = self.sandbox(sandbox)
        shell = held.shells.get(name)
        if shell is None:
            raise SandboxLost("The sandbox has no such shell: it was closed.")
        return held, shell

    async def close_one(self, name: str) -> None:
        """Close a sandbox or a snapshot; nothing if there is none."""
        held = self.sandboxes.pop(name, None) or self.snapshots.pop(name, None)
        if held is not None:
            await held.close()

    async def end(self) -> None:
        """End its work and close all that it has."""
        self.ended = True
        await self.jobs.end()
        names = [*self.sandboxes, *self.snapshots]
        await _each(self.close_one(name) for name in names)


class Leases:
    """All clients. An async context: what is left at its end is closed."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self._remembered = settings, Remembered(settings.remembered_total)
        self._leases: dict[str, Lease] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def of(self, name: str) -> Lease:
        """The client's lease, renewed; a new one for a client that has none."""
        lease = self._leases.get(name)
        if lease is None:
            if len(self._leases) >= self._settings.max_leases:
                raise NotServed(
                    f"The server has {len(self._leases)} clients already. Try again in a moment.",
                    status=503,
                    code="overloaded",
                    retry_after=5,
                )
            lease = self._leases[name] = Lease(self._settings, self._remembered)
        lease.renew()
        return lease

    @property
    def sandboxes(self) -> int:
        return sum(len(lease.sandboxes) for lease in self._leases.values())

    async def end_one(self, name: str) -> None:
        lease = self._leases.pop(name, None)
        if lease is not None:
            await lease.end()

    async def __aenter__(self) -> Leases:
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        await _each(self.end_one(name) for name in list(self._leases))
        if self._ending:
            await asyncio.wait(self._ending)

    async def _sweep(self) -> None:
        """End leases that are over, and sandboxes that were not used for their time to live."""
        pause = min(1.0, self._settings.lease_seconds / 10)
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            for name, lease in list(self._leases.items()):
                if lease.is_over(now):
                    if lease.sandboxes:
                        log.info(f"A lease is over: closing {len(lease.sandboxes)} sandboxes.")
                    self._later(self.end_one(name))
                    continue
                for sandbox, held in list(lease.sandboxes.items()):
                    if held.is_stale(now):
                        self._later(lease.close_one(sandbox))

    def _later(self, work: Awaitable[None]) -> None:
        """Beside the sweep, so that one sandbox that is slow to close keeps no other one alive."""
        task = asyncio.ensure_future(_each([work]))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _each(works: Iterable[Awaitable[None]]) -> None:
    """All of them, whatever becomes of one; what goes wrong is logged."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, Exception):
            log.opt(exception=result).error(f"A sandbox could not be closed: {result}")
