"""How a sandbox server serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.sandboxes.base import MIB, SandboxLimits

MOST = SandboxLimits(
    seconds=4 * 3600,
    cpu_seconds=4 * 3600,
    memory_bytes=8 * 1024 * MIB,
    processes=4096,
    file_bytes=4 * 1024 * MIB,
    disk_bytes=16 * 1024 * MIB,
    output_bytes=64 * MIB,
)
"""What a test suite of a large repository needs, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a sandbox server serves. Raises `UsageError` for what cannot be.

    Without `tokens` everybody who reaches the server may run what they like with it, so that must
    be said: `no_token=True`, and then it listens on this machine alone.
    """

    tokens: Sequence[str] = ()
    """Bearer tokens, any of which is accepted."""
    no_token: bool = False
    most: SandboxLimits = MOST
    """The most that a client may ask for, limit by limit. What asks for more is refused, and not
    cut down: a suite that fails for want of memory would look like a wrong patch."""
    allow_network: bool = False
    """Clients may ask for a network: hosts by name, or "full"."""
    max_sandboxes: int = 64
    """Sandboxes and snapshots at the same time, of all clients; more are answered with 429."""
    max_commands: int = 64
    """Commands, lines of shells and transfers of files that are under way; more: 429."""
    lease_seconds: float = 120.0
    """After so long without a sign of life, all that a client has is closed."""
    max_body: int = 64 * MIB
    """Bytes of a request in JSON, and of a file that is read or written; more: 413."""
    max_upload: int = 1024 * MIB
    """Bytes of an archive, and of a folder that is unpacked of one; more: 413."""
    max_answer: int = 64 * MIB
    """Bytes of an answer in JSON, in which some characters of output take six; more is an error.
    Also of what is told of one command while it runs."""
    max_reading: int = 512 * MIB
    """Bytes of requests that are held in memory at the same time; more: 503."""
    max_bases: int = 8 * 1024 * MIB
    """Bytes of uploaded folders, unpacked, that are kept for sandboxes to come."""
    read_seconds: float = 60.0
    """In which each piece of a request's body is to come, and one of an archive to be taken."""
    heartbeat_seconds: float = 5.0
    """Between two signs of life to a client that waits for an answer."""
    remembered_requests: int = 4_000
    """Of each client: ids of requests that are known when they come again."""
    remembered_bytes: int = 16 * MIB
    """Of each client: answers that are kept in case they must be sent again; the last one always,
    if there is room for it among those of all clients."""
    remembered_total: int = 256 * MIB
    """Of all clients together: answers that are kept. The oldest are forgotten first."""
    max_leases: int = 256
    """Clients at the same time; more: 503."""
    readable: Sequence[str | Path] = ()
    """Folders of the server that a client may name in `SandboxSpec.readable`, and those below."""
    roots: Sequence[str | Path] = ()
    """Folders of the server that a client may name as `SandboxSpec.root`, and those below."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and not value > 0:
                raise UsageError(f"`ServerSettings({field.name}={value!r})` must be above 0.")
        if isinstance(self.tokens, str) or not all(self.tokens):
            raise UsageError("`ServerSettings(tokens=...)` takes a list of tokens, none empty.")
        if self.tokens and self.no_token:
            raise UsageError("`tokens` and `no_token=True` exclude each other. Leave one out.")
        if not self.tokens and not self.no_token:
            raise UsageError(
                "A sandbox server runs what it is told: give it `tokens`, or, for this machine "
                "alone, say `no_token=True`."
            )
        if self.max_reading < self.max_body:
            raise UsageError(
                f"`max_reading={self.max_reading!r}` is less than `max_body={self.max_body!r}`: "
                f"the largest request could never be read."
            )
