"""Who may ask: API keys, and what protects a server that has none.

Invariant: how long a check takes says nothing about a key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from rolecraft.serving.refusals import Refusal

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Keys:
    """Some keys, any of which is accepted. Empty: no key is asked for."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, authorization: str | None) -> None:
        """Raise `Refusal` unless the header `Authorization` has one of the keys."""
        if not self._digests:
            return
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest(given.strip())
        # All are compared, so that neither which nor how many shows in the time.
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        if scheme.lower() != "bearer" or not any(found):
            raise Refusal(
                "Incorrect API key provided. Send the header `Authorization: Bearer KEY`."
                if authorization
                else "You didn't provide an API key. Send the header `Authorization: Bearer KEY`.",
                status=401,
                code="invalid_api_key",
            )


def check_host(host: str | None) -> None:
    """Raise `Refusal` unless a request to a server without keys was meant for this machine.

    A page in a browser can give its own name this machine's address (DNS rebinding) and ask; its
    name then stands in the header `Host`.
    """
    try:
        name = urlsplit(f"//{host or ''}").hostname
    except ValueError:
        name = None
    if name not in LOOPBACK:
        raise Refusal(
            f"This server has no API key and answers on this machine only, not as {host!r}. "
            f"Start it with a key to use it from elsewhere.",
            status=403,
            code="host_not_allowed",
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
