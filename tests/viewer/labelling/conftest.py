"""Traces to label, a desk with them, the page served in a thread, and a browser to look at it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from rolecraft.trajectories import Event, Trajectory
from rolecraft.viewer.labelling import Desk, OpenTrace, open_traces
from rolecraft.viewer.labelling.serving import LabellingServer

EVENTS = (
    Event("message", role="user", content="Write parser.py and test it.", to=("coder",)),
    Event("tool_call", role="coder", data={"tool": "list_files", "arguments": {"folder": "src"}}),
    Event("tool_result", role="coder", content="parser.py", data={"ok": True}, cause=1),
    Event("tool_call", role="coder", data={"tool": "list_files", "arguments": {"folder": "src"}}),
    Event("message", role="coder", content="The parser is done.\nNobody need test it.", to=("pm",)),
    Event("stop", data={"reason": "idle"}),
)

SaveTrace = Callable[..., Path]


@pytest.fixture
def save_trace(tmp_path: Path) -> SaveTrace:
    """`save_trace(name, events, **about)`: a journal in a folder of the test; its path."""

    def save(name: str, events: Sequence[Event] = EVENTS, **about: Any) -> Path:
        copied = [
            Event(e.kind, e.role, e.content, e.to, dict(e.data), e.cause, seq=seq)
            for seq, e in enumerate(events)
        ]
        about.setdefault("roles", [{"name": "coder"}, {"name": "pm", "profile": "project manager"}])
        path = tmp_path / "runs" / f"{name}.jsonl"
        return Trajectory(name, about, copied).save(path)

    return save


@pytest.fixture
def trace(save_trace: SaveTrace) -> OpenTrace:
    (opened,) = open_traces([save_trace("parser")])
    return opened


@pytest.fixture
def desk(trace: OpenTrace, tmp_path: Path) -> Desk:
    return Desk([trace], tmp_path / "labels")


@contextlib.contextmanager
def _served(desk: Desk, *, port: int = 0, token: str | None = None) -> Iterator[LabellingServer]:
    """The page of a desk, answering in a thread until the block ends."""
    server = LabellingServer(desk, port=port, token=token)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.fixture(scope="session")
def served() -> Callable[..., contextlib.AbstractContextManager[LabellingServer]]:
    """`with served(desk) as server:`: the page of a desk, until the block ends."""
    return _served


@pytest.fixture
def server(desk: Desk) -> Iterator[LabellingServer]:
    with _served(desk) as running:
        yield running


@pytest.fixture
def client(server: LabellingServer) -> Iterator[httpx.Client]:
    """A client that has been let in, as the page's own script is."""
    base = f"http://127.0.0.1:{server.port}"
    with httpx.Client(base_url=base, headers={"Origin": base}) as let_in:
        assert let_in.get("/", params={"token": server.token}).status_code == 200
        yield let_in


# --- a real browser -----------------------------------------------------------------------------

expect.set_options(timeout=120_000)  # a bound for a slow machine; nothing waits for it


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser(needs_program: Any) -> AsyncIterator[Browser]:
    path = needs_program("chromium", "chromium-browser", "google-chrome", package="chromium")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=str(path))
        yield started
        await started.close()


class Visit:
    """One person at the page, in a browser profile of their own."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    async def open(self, trace: str) -> None:
        await self.page.get_by_role("link", name=trace, exact=True).click()
        await expect(self.page.locator(".event").first).to_be_visible()

    async def saved(self) -> None:
        await expect(self.page.locator(".status")).to_have_text("All saved")

    def card(self, mode: str) -> Any:
        return self.page.locator(f'.card[data-mode="{mode}"]')

    async def verdict(self, mode: str, verdict: str) -> None:
        button = self.card(mode).get_by_role("button", name=verdict, exact=True)
        await button.click()
        await expect(button).to_have_attribute("aria-pressed", "true")

    async def select(self, seq: int) -> None:
        """Select the first line of an event's text, with the mouse, as a person does."""
        text = self.page.locator(f'.event[data-seq="{seq}"] .text')
        await text.scroll_into_view_if_needed()
        await text.click(click_count=3, position={"x": 20, "y": 8})

    async def finish(self) -> None:
        await self.page.locator(".rest-absent").click()
        await self.saved()
        await self.page.locator(".finish").click()
        await expect(self.page.get_by_text("Round 1 is finished.")).to_be_visible()


class Visiting:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.visits: list[Visit] = []

    async def __call__(self, server: LabellingServer, annotator: str = "", **options: Any) -> Visit:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = await self._browser.new_context(**options)
        context.set_default_timeout(120_000)
        self._contexts.append(context)
        return await self.tab(context, server, annotator)

    async def tab(self, context: BrowserContext, server: LabellingServer, annotator: str) -> Visit:
        visit = Visit(await context.new_page())
        self.visits.append(visit)
        await visit.page.goto(server.address)
        await expect(visit.page.get_by_text("Who are you?")).to_be_visible()
        if annotator:
            await visit.page.get_by_label("Your name").fill(annotator)
            await visit.page.get_by_role("button", name="Begin").click()
            await expect(visit.page.get_by_text(f"Traces of {annotator}")).to_be_visible()
        return visit

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser) -> AsyncIterator[Callable[..., Awaitable[Visit]]]:
    """`await visit(server, "Ann")`: somebody opens the page. No script may fail meanwhile."""
    visiting = Visiting(browser)
    yield visiting
    await visiting.close()
    assert [error for one in visiting.visits for error in one.errors] == []
