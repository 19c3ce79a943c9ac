"""Who may ask, and what protects a server that has no API keys."""

from __future__ import annotations

from rolecraft._listening import BearerKeys, names_this_machine
from rolecraft.serving.refusals import Refusal


class Keys(BearerKeys):
    """API keys."""

    def check(self, authorization: str | None) -> None:
        """Raise `Refusal` unless the header `Authorization` has one of the keys."""
        if not self.accepts(authorization or ""):
            raise Refusal(
                "Incorrect API key provided. Send the header `Authorization: Bearer KEY`."
                if authorization
                else "You didn't provide an API key. Send the header `Authorization: Bearer KEY`.",
                status=401,
                code="invalid_api_key",
            )


def check_host(host: str | None) -> None:
    """Raise `Refusal` unless a request to a server without keys was meant for this machine."""
    if not names_this_machine(host or ""):
        raise Refusal(
            f"This server has no API key and answers on this machine only, not as {host!r}. "
            f"Start it with a key to use it from elsewhere.",
            status=403,
            code="host_not_allowed",
        )
