"""The door of the labelling page: who may ask it for anything.

Invariant: a request is answered only if it names this machine as `Host`, comes from this page or
from no page at all, and carries the token that was made when the server started. So neither a web
site that is open beside it, nor a name that is made to point at this machine (DNS rebinding), nor
another user of the machine gets at traces and labels. Every answer forbids the browser to run or
load anything but the page's own files.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # the browser itself refuses `innerHTML`
        "trusted-types 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LARGEST = 1_000_000
"""Bytes of the largest request."""

HTTP = 80
"""The port that `http://` means where none is named."""

_NO_TOKEN = "Open the address that `rolecraft label` printed: it ends with the key to this page.\n"

_COME_IN = """<!doctype html>
<meta http-equiv="refresh" content="0; url=/"><title>Labelling</title><a href="/">Labelling</a>
"""


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """ASGI middleware around the page."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        # Cookies do not tell ports apart; two servers must not overwrite each other's.
        self._cookie = f"rolecraft_label_{port}"
        names = ("127.0.0.1", "localhost")
        self._hosts = frozenset(f"{name}:{port}" for name in names)
        if port == HTTP:  # a browser leaves the port of the scheme out
            self._hosts |= frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return _no(421, f"This server does not answer for the host {host!r}.\n")
        token = QueryParams(scope["query_string"]).get("token")
        if scope["path"] == "/" and token is not None:
            return self._let_in(token)
        origin = headers.get("origin")
        reads = scope["method"] in ("GET", "HEAD")
        own = reads if origin is None else origin == f"http://{host}"
        if not own or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _no(403, "This server answers its own page only.\n")
        if not self._is_token(self._cookie_of(headers)):
            return _no(403, _NO_TOKEN)
        if scope["method"] == "POST":
            length = headers.get("content-length", "")
            if not length.isdecimal() or int(length) > LARGEST:
                return _no(413, f"A request has a length, of at most {LARGEST:,} bytes.\n")
            if headers.get("content-type", "").partition(";")[0] != "application/json":
                return _no(415, "A request is JSON.\n")
        return None

    def _let_in(self, token: str) -> Response:
        if not self._is_token(token):
            return _no(403, _NO_TOKEN)
        # Not a redirect: after a link of another site (a terminal in a browser, say), the browser
        # would leave the cookie out of it. This page's own step to `/` has it.
        answer = HTMLResponse(_COME_IN)
        answer.set_cookie(self._cookie, token, httponly=True, samesite="strict", path="/")
        return answer

    def _is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _cookie_of(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value


def _no(status: int, why: str) -> Response:
    return PlainTextResponse(why, status_code=status)
