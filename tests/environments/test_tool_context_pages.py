"""`HttpPages`: pages of a real server as text, and addresses that are not fetched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.environments.tool_context_web import HttpPages, PageError, html_text

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/": (
        200,
        {"Content-Type": "text/html; charset=latin-1"},
        "<title>Caf\xe9 &amp; Bar</title><style>p{}</style><body><h1>Men\xfc</h1><p>One <b>two</b>"
        "<script>document.write('no')</script></p><ul><li>a<li>b</ul>".encode("latin-1"),
    ),
    "/data": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
    "/moved": (302, {"Location": "/?from=moved"}, b""),
    "/circle": (302, {"Location": "/circle"}, b""),
    "/away": (302, {"Location": "file:///etc/passwd"}, b""),
    "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/missing": (404, {"Content-Type": "text/plain"}, b"nothing here"),
    "/long": (200, {"Content-Type": "text/plain"}, b"x" * 100_000),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/slow":
            threading.Event().wait(2)
        status, headers, body = PAGES.get(self.path.partition("?")[0], PAGES["/missing"])
        with suppress(ConnectionError):  # a reader that has enough hangs up
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


PRIVATE = HttpPages(private=True)


async def test_a_page_becomes_its_title_and_its_text(address: str) -> None:
    page = await PRIVATE.read(f"{address}/moved")
    assert (page.url, page.status) == (f"{address}/?from=moved", 200)
    assert (page.title, page.text) == ("Café & Bar", "Menü\n\nOne two\n\na\nb")


async def test_text_of_other_kinds_and_errors_come_as_they_are(address: str) -> None:
    assert (await PRIVATE.read(f"{address}/data")).text == '{"a": 1}'
    page = await PRIVATE.read(f"{address}/missing")
    assert (page.status, page.text) == (404, "nothing here")


async def test_a_long_page_is_cut_off_and_says_so(address: str) -> None:
    page = await HttpPages(private=True, max_bytes=1000).read(f"{address}/long")
    assert (len(page.text), page.truncated) == (1000, True)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/circle", "redirects more than 5 times"),
        ("/away", "no `http://`"),
        ("/image", "image/png, not text"),
    ],
)
async def test_what_is_no_page_of_text_is_an_error(address: str, path: str, reason: str) -> None:
    with pytest.raises(PageError, match=reason):
        await PRIVATE.read(f"{address}{path}")


async def test_a_server_that_does_not_answer_is_given_up(address: str) -> None:
    with pytest.raises(PageError, match=r"longer than 0\.2 seconds"):
        await HttpPages(private=True, seconds=0.2).read(f"{address}/slow")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "http://[::1]:1/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0x7f000001/",
        "http://[::ffff:127.0.0.1]/",
        "file:///etc/passwd",
        "ftp://example.org/",
        "no address",
        "http://",
    ],
)
async def test_hosts_that_are_not_public_are_not_fetched(url: str) -> None:
    with pytest.raises(PageError):
        async with asyncio.timeout(60):
            await HttpPages().read(url)


@given(st.text(st.sampled_from("<>/&;!-ab \n'\"=") | st.characters(), max_size=200))
def test_no_text_makes_the_reader_of_pages_raise(html: str) -> None:
    html_text(html)


def test_what_a_page_does_not_show_is_not_read() -> None:
    html = (
        "<head><title>T</title><meta x><p>shown<style>no</style><template>no</template>"
        "<noscript>no</noscript><svg><title>no</title></svg><table><tr><td>a<td>b</table>"
    )
    assert html_text(html) == ("T", "shown\n\na b")
