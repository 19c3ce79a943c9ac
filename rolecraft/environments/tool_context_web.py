"""What a `ToolContext` asks of the web, and pages fetched over HTTP.

The protocols are for providers of yours (a search service, a browser). `HttpPages` is ours: it
fetches a page and gives its text. Addresses may come from a model, so it goes to public hosts only,
each redirect anew, and connects to the very address that it has checked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Protocol

from rolecraft.actions._threads import in_thread
from rolecraft.errors import RolecraftError

if TYPE_CHECKING:
    import httpx

_REDIRECTS = 5
_REDIRECTED = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class WebHit:
    """One result of a search."""

    url: str
    title: str = ""
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as text."""

    url: str
    """Where it was found in the end."""
    title: str
    text: str
    status: int = 200
    """The HTTP status."""
    truncated: bool = False
    """The page goes on."""


class PageError(RolecraftError):
    """A page cannot be had: `url` and `reason` say which and why."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"The page {url!r} cannot be had: {reason}.")


class WebSearch(Protocol):
    """Searches the web."""

    async def search(self, query: str, *, limit: int) -> Sequence[WebHit]:
        """At most `limit` results, the best first."""
        ...


class PageReader(Protocol):
    """Gives pages as text."""

    async def read(self, url: str) -> Page:
        """The page. Raises `PageError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPages:
    """Pages as they are fetched, without running their scripts.

    `private=True` lets it go to addresses of this machine and of its network too.
    """

    seconds: float = 20.0
    """For all of it, redirects included."""
    max_bytes: int = 2 * 2**20
    private: bool = False
    user_agent: str = "rolecraft"
    before: Callable[[str], Awaitable[None]] | None = None
    """Awaited with each address that is about to be fetched, redirects included: it raises
    `PageError` for one that must not be."""

    async def read(self, url: str) -> Page:
        """See `PageReader`. A page with an HTTP error is a page, with its status."""
        import httpx

        try:
            async with (
                asyncio.timeout(self.seconds),
                httpx.AsyncClient(trust_env=False, timeout=self.seconds) as client,
            ):
                asked = httpx.URL(url)
                for _ in range(_REDIRECTS + 1):
                    answer, body, cut = await self._fetch(client, asked)
                    if answer.status_code not in _REDIRECTED or "location" not in answer.headers:
                        return await self._page(asked, answer, body, cut)
                    asked = asked.join(answer.headers["location"])
            raise PageError(url, f"it redirects more than {_REDIRECTS} times")
        except TimeoutError as error:
            raise PageError(url, f"it took longer than {self.seconds:g} seconds") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
            raise PageError(url, f"{type(error).__name__}: {error}") from error

    async def _fetch(
        self, client: httpx.AsyncClient, url: httpx.URL
    ) -> tuple[httpx.Response, bytes, bool]:
        address = await self._checked(url)
        if self.before is not None:
            await self.before(str(url))
        headers = {"Host": url.netloc.decode("ascii"), "User-Agent": self.user_agent}
        request = client.build_request(
            "GET",
            url.copy_with(host=address),
            headers=headers,
            extensions={"sni_hostname": url.host},  # the certificate is still the host's
        )
        answer = await client.send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > self.max_bytes:
                    return answer, bytes(body[: self.max_bytes]), True
            return answer, bytes(body), False
        finally:
            await answer.aclose()

    async def _checked(self, url: httpx.URL) -> str:
        """The address to connect to. Raises `PageError` for one that is not to be fetched."""
        if url.scheme not in ("http", "https") or not url.host:
            raise PageError(str(url), "it is no `http://` or `https://` address")
        port = url.port or (443 if url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        addresses = [str(info[4][0]).partition("%")[0] for info in found]
        if not self.private:
            for address in addresses:
                if not ipaddress.ip_address(address).is_global:
                    raise PageError(str(url), f"{address} is no public address")
        return addresses[0]

    async def _page(
        self, url: httpx.URL, answer: httpx.Response, body: bytes, truncated: bool
    ) -> Page:
        kind = answer.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        if not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
            raise PageError(str(url), f"it is {kind}, not text")
        try:
            text = body.decode(answer.charset_encoding or "utf-8", "replace")
        except LookupError:
            text = body.decode("utf-8", "replace")
        title = ""
        if "html" in kind:
            title, text = await in_thread(html_text, html=text)
        return Page(str(url), title, text, answer.status_code, truncated)


def html_text(html: str) -> tuple[str, str]:
    """The title and the text of a page, paragraphs apart, without scripts and styles."""
    reader = _TextReader()
    reader.feed(html)
    reader.close()
    text = re.sub(r"[ \t\r\f\v\xa0]+", " ", "".join(reader.parts))
    text = re.sub(r" ?\n ?", "\n", text)
    return " ".join("".join(reader.title).split()), re.sub(r"\n{3,}", "\n\n", text).strip()


_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "head", "iframe"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset"}
    | {"figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li"}
    | {"main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"}
)


class _TextReader(HTMLParser):
    """Collects what a page shows."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self._unseen: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "body" or (tag in _BLOCKS and self._unseen == ["head"]):
            self._unseen.clear()  # a head need not be closed
        if tag in _UNSEEN:
            self._unseen.append(tag)
        self._in_title = tag == "title" and "svg" not in self._unseen
        self._break(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in self._unseen:
            while self._unseen.pop() != tag:
                pass
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.parts.append(re.sub(r"\s+", " ", data))

    def _break(self, tag: str) -> None:
        if tag in _BLOCKS and not self._unseen:
            self.parts.append("\n\n" if tag == "p" else "\n")
        elif tag in ("td", "th"):
            self.parts.append(" ")
