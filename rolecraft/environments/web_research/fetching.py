"""Pages over HTTP, of hosts that let programs fetch them."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from rolecraft.environments.tool_context_web import HttpPages, Page, PageError
from rolecraft.environments.web_research.robots import LONGEST, Robots, read_robots
from rolecraft.errors import UsageError

RULES_KEPT = 24 * 3600.0
"""Seconds for which a host's robots.txt is believed, as RFC 9309 has it."""
PAGES_KEPT = 64
_NO_RULES = Robots()
_NOTHING = Robots((("/", False),))


class PolitePages:
    """A `PageReader`: `HttpPages` that asks each host's robots.txt first, of redirects too.

    `pages` has the limits (seconds, bytes, private addresses); its `user_agent` is the name that
    robots.txt may know. Where robots.txt cannot be had the host is not fetched from, except where
    it says that there is none (HTTP 4xx). The last pages are kept for `seconds_kept`, so that the
    parts of a long one are of the same page.
    """

    def __init__(self, pages: HttpPages | None = None, *, seconds_kept: float = 600.0) -> None:
        pages = pages if pages is not None else HttpPages()
        if pages.before is not None:
            raise UsageError("`PolitePages(pages)` wants `HttpPages` without a `before`.")
        self.pages = replace(pages, before=self._check)
        self.seconds_kept = seconds_kept
        self._for_rules = replace(pages, max_bytes=min(LONGEST, pages.max_bytes))
        self._rules: dict[str, tuple[float, Robots]] = {}
        self._kept: OrderedDict[str, tuple[float, Page]] = OrderedDict()

    async def read(self, url: str) -> Page:
        """See `PageReader`. Raises `PageError` also for what robots.txt forbids."""
        known = self._kept.get(url)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        page = await self.pages.read(url)
        if page.status >= 400:
            return page
        self._kept[url] = (time.monotonic() + self.seconds_kept, page)
        self._kept.move_to_end(url)
        while len(self._kept) > PAGES_KEPT:
            self._kept.popitem(last=False)
        return page

    def __getstate__(self) -> dict[str, Any]:
        """For another process, whose clock is another: without what is kept."""
        return {**self.__dict__, "_rules": {}, "_kept": OrderedDict()}

    async def _check(self, url: str) -> None:
        parts = urlsplit(url)
        rules = await self._rules_of(f"{parts.scheme}://{parts.netloc}")
        if not rules.allows(url):
            raise PageError(url, "its host's robots.txt does not allow it, or cannot be had")

    async def _rules_of(self, host: str) -> Robots:
        known = self._rules.get(host)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        rules = await self._asked(host)
        # What could not be had is asked again sooner.
        kept = RULES_KEPT if rules is not _NOTHING else self.seconds_kept
        self._rules[host] = (time.monotonic() + kept, rules)
        return rules

    async def _asked(self, host: str) -> Robots:
        try:
            page = await self._for_rules.read(f"{host}/robots.txt")
        except PageError:
            return _NOTHING
        if page.status >= 500 or page.status == 429:
            return _NOTHING
        if page.status >= 400:
            return _NO_RULES
        return read_robots(page.text, agent=self.pages.user_agent)
