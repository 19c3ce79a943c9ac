"""Registrable domains: what somebody has registered, of a host or an address.

`en.wikipedia.org` and `de.wikipedia.org` are both `wikipedia.org`, and `www.w3.org` is `w3.org`.
Which endings are public is told by a list of a few rules in place of the whole Public Suffix List
(publicsuffix.org), which has thousands: enough to count sources, and not to set cookies by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

_SECOND_LEVEL = frozenset(
    {"ac", "co", "com", "edu", "gob", "gouv", "gov", "gv", "ltd", "me", "mil", "ne", "net", "nhs"}
    | {"nom", "or", "org", "plc", "police", "sch", "go", "ed", "lg", "id", "gen", "govt", "geek"}
    | {"school", "iwi", "maori", "kiwi", "asn", "csiro", "res", "nic", "firm", "ind", "web", "mod"}
)
"""Below a country's ending (`uk`), these are public as well: `co.uk`."""
_HOSTS = frozenset(
    {"appspot.com", "azurewebsites.net", "blogspot.com", "fly.dev", "github.io", "gitlab.io"}
    | {"herokuapp.com", "netlify.app", "pages.dev", "readthedocs.io", "s3.amazonaws.com"}
    | {"tumblr.com", "vercel.app", "web.app", "weebly.com", "wixsite.com", "wordpress.com"}
)
"""Where everybody has a name of their own below."""


def registrable_domain(address: str) -> str:
    """The registrable domain of a host or an `http(s)` address; empty if it has none.

    IP addresses and names without a dot stand for themselves.
    """
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""
    host = host.rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = [label for label in host.split(".") if label]
    if len(labels) < 3:
        return ".".join(labels)
    kept = 2
    if ".".join(labels[-3:]) in _HOSTS:
        kept = 4
    elif ".".join(labels[-2:]) in _HOSTS or (len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL):
        kept = 3
    return ".".join(labels[-kept:])


def sources_of(addresses: Iterable[str]) -> list[str]:
    """The distinct sources of pages, in order: registrable domains of web addresses, and of a
    document that has none, such as a file, its own address.
    """
    return [name for name in dict.fromkeys(map(_source, addresses)) if name]


def _source(address: str) -> str:
    web = address.startswith(("http://", "https://"))
    return registrable_domain(address) if web else address.strip()
