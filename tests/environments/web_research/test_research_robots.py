"""robots.txt by RFC 9309, and pages of a real server that has one."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.tool_context_web import HttpPages, PageError
from rolecraft.environments.web_research.fetching import PolitePages
from rolecraft.environments.web_research.robots import read_robots
from rolecraft.errors import UsageError

RULES = """\
# for everybody
User-agent: *
Disallow: /private/   # not this
Allow: /private/open
Disallow: /*.pdf$
Disallow: /a*b*c

User-agent: GoodBot
User-agent: rolecraft
Disallow: /slow
Disallow:
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", True),
        ("", True),
        ("/private/x", False),
        ("/private", True),
        ("/private/open/x", True),
        ("/papers/x.pdf", False),
        ("/papers/x.pdf?page=2", True),
        ("/axxbxxcxx", False),
        ("/axxcxxb", True),
        ("/%70rivate/x", False),
        ("/slow", True),
    ],
)
def test_the_longest_rule_decides(path: str, allowed: bool) -> None:
    assert read_robots(RULES, agent="another/2.0").allows(f"https://h.example{path}") is allowed


def test_rules_for_our_own_agent_take_the_place_of_those_for_all() -> None:
    ours = read_robots(RULES, agent="Rolecraft/0.1")
    assert not ours.allows("https://h.example/slow/x")
    assert ours.allows("https://h.example/private/x")


def test_of_two_rules_of_one_length_the_one_that_allows_decides() -> None:
    for lines in ("Allow: /x\nDisallow: /x", "Disallow: /x\nAllow: /x"):
        assert read_robots(f"User-agent: *\n{lines}", agent="a").allows("https://h.example/x")


@settings(deadline=None)
@given(
    st.text(st.sampled_from("Uu-serAgnt:*Disalow/$# \n%2fäx"), max_size=200), st.text(max_size=40)
)
def test_no_robots_txt_and_no_path_make_it_raise(text: str, path: str) -> None:
    read_robots(f"User-agent: *\nDisallow: {text}", agent="a").allows(f"https://h.example/{path}")


def test_a_pattern_of_many_stars_costs_no_more_than_its_length() -> None:
    """Backtracking would take longer than anybody waits."""
    robots = read_robots(f"User-agent: *\nDisallow: /{'a*' * 2000}b$", agent="x")
    assert robots.allows(f"https://h.example/{'a' * 20_000}")


class Host:
    """A server with a robots.txt, and what was asked of it."""

    def __init__(self, robots: tuple[int, bytes]) -> None:
        self.robots = robots
        self.asked: Counter[str] = Counter()
        self.moved_to = ""
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked[self.path] += 1
                status, body, more = 200, f"page {self.path}".encode(), {}
                if self.path == "/robots.txt":
                    status, body = host.robots
                elif self.path == "/moved":
                    status, more = 302, {"Location": host.moved_to}
                elif self.path == "/gone":
                    status = 404
                with suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Content-Type", "text/plain")
                    self.send_header("Content-Length", str(len(body)))
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://localhost:{self.server.server_port}"


@contextmanager
def serving(status: int = 200, robots: bytes = b"") -> Iterator[Host]:
    host = Host((status, robots))
    thread = threading.Thread(target=host.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.server.shutdown()
        host.server.server_close()
        thread.join()


def pages() -> PolitePages:
    return PolitePages(HttpPages(private=True))


async def test_a_page_that_robots_txt_forbids_is_never_asked_for() -> None:
    with serving(robots=b"User-agent: *\nDisallow: /private") as host:
        reader = pages()
        assert (await reader.read(f"{host.url}/open")).text == "page /open"
        with pytest.raises(PageError, match=r"robots\.txt"):
            await reader.read(f"{host.url}/private/x")
        assert host.asked == {"/robots.txt": 1, "/open": 1}


async def test_a_redirect_leads_to_no_page_that_its_host_forbids() -> None:
    with serving() as first, serving(robots=b"User-agent: *\nDisallow: /") as second:
        first.moved_to = f"{second.url}/secret"
        with pytest.raises(PageError, match=r"robots\.txt"):
            await pages().read(f"{first.url}/moved")
        assert second.asked == {"/robots.txt": 1}


@pytest.mark.parametrize(
    ("status", "fetched"), [(404, True), (403, True), (500, False), (429, False)]
)
async def test_a_robots_txt_that_is_not_there_allows_and_one_that_cannot_be_had_forbids(
    status: int, fetched: bool
) -> None:
    with serving(status, b"User-agent: *\nDisallow: /nothing") as host:
        if fetched:
            assert (await pages().read(f"{host.url}/x")).text == "page /x"
        else:
            with pytest.raises(PageError, match="cannot be had"):
                await pages().read(f"{host.url}/x")
            assert "/x" not in host.asked


async def test_the_parts_of_a_page_are_of_one_fetch_and_an_error_is_asked_for_again() -> None:
    with serving() as host:
        reader = pages()
        for _ in range(3):
            await reader.read(f"{host.url}/x")
            assert (await reader.read(f"{host.url}/gone")).status == 404
        assert host.asked["/x"] == 1
        assert host.asked["/gone"] == 3


async def test_private_addresses_stay_out_of_reach_also_for_robots_txt() -> None:
    with serving() as host:
        with pytest.raises(PageError, match="no public address"):
            await PolitePages().read(f"{host.url}/x")
        assert not host.asked


async def test_a_reader_goes_to_another_process_with_its_settings() -> None:
    with serving(robots=b"User-agent: *\nDisallow: /private") as host:
        reader = pages()
        await reader.read(f"{host.url}/x")
        copy = pickle.loads(pickle.dumps(reader))
        assert (await copy.read(f"{host.url}/x")).text == "page /x"
        with pytest.raises(PageError, match=r"robots\.txt"):
            await copy.read(f"{host.url}/private")
        assert host.asked["/robots.txt"] == host.asked["/x"] == 2


def test_pages_that_have_a_check_of_their_own_are_refused() -> None:
    async def check(url: str) -> None:
        pass

    with pytest.raises(UsageError, match="without a `before`"):
        PolitePages(HttpPages(before=check))
