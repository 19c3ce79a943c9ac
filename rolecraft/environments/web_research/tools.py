"""The tools of a researcher: `search`, `read_page` and `submit_answer`.

They use the `web` of the environment that their role is in, so that they can stand in a role's
class. What they return is typed and recorded: grading reads from the record which pages were
really read, and what they said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rolecraft.actions.action import running
from rolecraft.actions.method_tool import MethodTool
from rolecraft.actions.tool import ToolResult
from rolecraft.environments.tool_context_web import Page, PageError, WebHit
from rolecraft.environments.web_research.web import Web, WebUnavailable
from rolecraft.errors import RolecraftError, ToolError, UsageError
from rolecraft.trajectories.events import Event

LONGEST_QUERY = 500
"""In characters."""
LONGEST_ANSWER = 500
LONGEST_CLAIM = 500
MOST_STEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(ToolResult):
    """What `Search` found, the best first."""

    query: str
    hits: tuple[WebHit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead(ToolResult):
    """A page, or a part of one, as it was read: `text` from `begins` on is the page's own."""

    url: str
    """Where it was found in the end."""
    asked: str
    """The address that was asked for."""
    title: str
    begins: int
    part: int
    parts: int
    truncated: bool
    """The page went on where its provider cut it off."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step from the question to the answer.

    Attributes:
        claim: one fact, or one conclusion, in a sentence.
        source: the address of the page that says so; empty for a conclusion from earlier steps.
    """

    claim: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(ToolResult):
    """The answer that a role commits itself to, and how it came there."""

    answer: str
    steps: tuple[Step, ...]


class WebTool(MethodTool):
    """A tool that uses the `web` of its role's environment."""

    _hooks = MethodTool._hooks | {"_web", "_counted"}
    _number = 0
    """Which call of this tool it is, in the piece of work, from 1."""

    @property
    def _web(self) -> Web:
        web = getattr(self.role.rc.env, "web", None)
        if not isinstance(web, Web):
            raise UsageError(
                f"Tool `{self.name}` has no web: let the role's environment have an attribute "
                f"`web`, a `Web(search=..., pages=...)`. `WebResearchEnvironment` has one."
            )
        return web

    def _counted(self, most: int, what: str) -> None:
        """Raise `ToolError` if the piece of work has used up its `most` calls."""
        if self._number > most:
            raise ToolError(
                f"The {most} {what} are used up. Go on with what you have, and submit an answer."
            )

    def _start_event(self, arguments: dict[str, Any]) -> Event:
        # Also of a call that is served from the record: so the count is the same when resumed.
        around = running.get()
        env = self.role.rc.env
        calls = getattr(env, "web_calls", None)
        if calls is not None:
            key = (self.role.name, around.path if around is not None else "", self.name)
            self.__dict__["_number"] = calls[key] = calls.get(key, 0) + 1
        return super()._start_event(arguments)


class Search(WebTool):
    """Searches the web, or the corpus in its place."""

    name: str = "search"
    parallel: bool = True

    async def use(self, query: str) -> SearchResult:
        """Search for pages. The results have addresses, which `read_page` reads.

        Args:
            query: a few words that a page about it would have.
        """
        web = self._web
        self._counted(web.searches, "searches")
        if not query.strip() or len(query) > LONGEST_QUERY:
            raise ToolError(f"A query has 1 to {LONGEST_QUERY} characters.")
        try:
            hits = tuple(await web.search.search(query, limit=web.results))[: web.results]
        except RolecraftError:
            raise
        except Exception as error:  # of a provider that is not ours: it is down, whatever it says
            raise WebUnavailable(
                type(web.search).__name__, f"{type(error).__name__}: {error}"
            ) from error
        told = [
            f"{number}. {_one_line(hit.title) or 'untitled'}\n   {hit.url}\n   "
            f"{_one_line(hit.snippet)}"
            for number, hit in enumerate(hits, 1)
        ]
        return SearchResult(
            text="\n".join(told) or "Nothing was found. Try other words.", query=query, hits=hits
        )


class ReadPage(WebTool):
    """Reads pages as text."""

    name: str = "read_page"
    parallel: bool = True

    async def use(self, address: str, part: int = 1) -> PageRead:
        """Read a page, or a document, as text.

        Args:
            address: as `search` gave it, or a link.
            part: which part of a long page, from 1.
        """
        web = self._web
        self._counted(web.reads, "pages that may be read")
        page = await self._page(web, address)
        size = web.characters
        parts = max(1, -(-len(page.text) // size))
        if not 1 <= part <= parts:
            raise ToolError(f"`{address}` has {parts} parts; {part} is none of them.")
        body = page.text[(part - 1) * size : part * size]
        of = f" (part {part} of {parts})" if parts > 1 else ""
        head = f"{_one_line(page.title) or 'untitled'}\n{_one_line(page.url)}{of}\n\n"
        return PageRead(
            text=head + body,
            url=page.url,
            asked=address,
            title=page.title,
            begins=len(head),
            part=part,
            parts=parts,
            truncated=page.truncated,
        )

    async def _page(self, web: Web, address: str) -> Page:
        try:
            page = await web.pages.read(address)
        except PageError as error:
            raise ToolError(str(error)) from error
        except RolecraftError:
            raise
        except Exception as error:
            raise WebUnavailable(
                type(web.pages).__name__, f"{type(error).__name__}: {error}"
            ) from error
        if page.status >= 400:
            raise ToolError(f"`{address}` answered with the HTTP status {page.status}.")
        return page


class SubmitAnswer(WebTool):
    """Ends the work with an answer and the steps to it."""

    name: str = "submit_answer"
    ends: bool = True

    async def use(self, answer: str, steps: list[Step]) -> Submitted:
        """Give the final answer. Nothing can be done after that.

        Args:
            answer: the answer alone, as short as it can be: a name, a number with its unit, a date.
            steps: how you came to it, in order, up to twelve. Each is one fact with the address of
                the page that you have read it on, or a conclusion from earlier steps, without one.
                The last one states the answer.
        """
        for what, text, most in (
            ("`answer`", answer, LONGEST_ANSWER),
            *((f"The claim of step {n}", s.claim, LONGEST_CLAIM) for n, s in enumerate(steps, 1)),
        ):
            if not text.strip() or len(text) > most:
                raise ToolError(f"{what} must have 1 to {most} characters, and has {len(text)}.")
        if len(steps) > MOST_STEPS:
            raise ToolError(f"There may be {MOST_STEPS} steps, and these are {len(steps)}.")
        return Submitted(text=answer, answer=answer, steps=tuple(steps))


def _one_line(text: str) -> str:
    return " ".join(text.split())
