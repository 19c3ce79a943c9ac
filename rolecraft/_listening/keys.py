"""Who may ask a server of ours, and what protects one that has no keys.

Invariant: how long a check takes says nothing about a key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from rolecraft._listening.sockets import LOOPBACK


class BearerKeys:
    """Some keys, any of which is accepted. Empty: no key is asked for."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, authorization: str) -> bool:
        """Whether the header `Authorization` has one of the keys; empty keys accept everybody."""
        if not self._digests:
            return True
        scheme, _, given = authorization.partition(" ")
        digest = _digest(given.strip())
        # All are compared, so that neither which nor how many shows in the time.
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(found)


def names_this_machine(host: str) -> bool:
    """Whether a request with this header `Host` was meant for this machine.

    A page in a browser can give its own name this machine's address (DNS rebinding) and ask; its
    name then stands in the header.
    """
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
