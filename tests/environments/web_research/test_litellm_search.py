"""Search through LiteLLM, at a real server that speaks SearXNG's protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from rolecraft.environments.web_research import LiteLLMSearch, WebUnavailable
from rolecraft.errors import ToolError, UsageError

pytestmark = pytest.mark.slow  # LiteLLM is imported


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query).get("q", [""])[0]
        if query == "wait":
            threading.Event().wait(5)
        status = int(query) if query.isdigit() else 200
        results = [
            {"title": f"{query} {n}", "url": f"https://h.example/{n}", "content": "a snippet"}
            for n in range(9)
        ]
        body = json.dumps({"query": query, "results": results}).encode()
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
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
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_results_come_typed_and_no_more_than_were_asked_for(address: str) -> None:
    search = LiteLLMSearch("searxng", base_url=address)
    try:
        hits = await search.search("green door", limit=3)
        assert [(hit.url, hit.title, hit.snippet) for hit in hits] == [
            (f"https://h.example/{n}", f"green door {n}", "a snippet") for n in range(3)
        ]
    finally:
        await search.aclose()
        await search.aclose()


async def test_a_service_that_fails_is_unavailable_and_a_query_it_refuses_is_not(
    address: str,
) -> None:
    search = LiteLLMSearch("searxng", base_url=address)
    try:
        for status in ("500", "429", "401"):
            with pytest.raises(WebUnavailable, match="searxng"):
                await search.search(status, limit=1)
        with pytest.raises(ToolError, match="refused") as caught:
            await search.search("400", limit=1)
        assert not isinstance(caught.value, WebUnavailable)
    finally:
        await search.aclose()


async def test_who_does_not_answer_or_is_not_there_is_unavailable(address: str) -> None:
    slow = LiteLLMSearch("searxng", base_url=address, seconds=0.5)
    absent = LiteLLMSearch("searxng", base_url="http://127.0.0.1:1")
    unknown = LiteLLMSearch("no-such-provider", base_url=address)
    try:
        with pytest.raises(WebUnavailable, match=r"nothing within 0\.5 s"):
            await slow.search("wait", limit=1)
        for search in (absent, unknown):
            with pytest.raises(WebUnavailable):
                await search.search("x", limit=1)
    finally:
        for search in (slow, absent, unknown):
            await search.aclose()


def test_a_provider_has_a_name() -> None:
    with pytest.raises(UsageError, match="provider's name"):
        LiteLLMSearch("")
