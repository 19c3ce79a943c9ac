"""What the record of a run says of its research: pages that were read, and the answer.

Grading believes nothing else. A page counts as read if the tool `read_page` gave its text, and not
because somebody names its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rolecraft.actions.tool import ToolResult
from rolecraft.environments.web_research.tools import PageRead, SearchResult, Step, Submitted
from rolecraft.environments.web_research.web import WebUnavailable
from rolecraft.roles.ready.answers import final_answer
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.values import decode_value, type_address

ResultT = TypeVar("ResultT", bound=ToolResult)


@dataclass(frozen=True, slots=True)
class SeenPage:
    """A page, or the parts of it, that a role has read."""

    url: str
    asked: tuple[str, ...]
    """The addresses under which it was asked for."""
    title: str
    text: str
    steps: tuple[int, ...]
    """The events (seq) in which it was read."""

    def is_at(self, address: str) -> bool:
        """Whether this is the page that `address` means."""
        return address.strip() in (self.url, *self.asked)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a role answered. Without `submit_answer` there are no steps."""

    text: str
    steps: tuple[Step, ...]
    step: int
    """The event (seq) in which it was given."""


def pages_read(events: Iterable[Event]) -> list[SeenPage]:
    """The pages that were read, in the order in which they were first read; parts in theirs."""
    parts: dict[str, dict[int, tuple[int, PageRead, str]]] = {}
    for event, read in _results(events, PageRead):
        of_page = parts.setdefault(read.url, {})
        of_page.setdefault(read.part, (event.seq, read, event.content[read.begins :]))
    pages = []
    for url, of_page in parts.items():
        known = [of_page[part] for part in sorted(of_page)]
        pages.append(
            SeenPage(
                url,
                tuple(dict.fromkeys(read.asked for _, read, _ in known)),
                known[0][1].title,
                _joined(of_page),
                tuple(sorted(seq for seq, _, _ in known)),
            )
        )
    return pages


def _joined(parts: dict[int, tuple[int, PageRead, str]]) -> str:
    """The text of the parts; a line ends where one is missing."""
    return "".join(
        parts[part][2] + ("" if part + 1 in parts else "\n") for part in sorted(parts)
    ).rstrip("\n")


def searches(events: Iterable[Event]) -> int:
    """How many searches were answered."""
    return sum(1 for _ in _results(events, SearchResult))


def answer_of(events: Iterable[Event], role: str) -> Answer | None:
    """The last answer of a role: submitted, or else said in its last message."""
    said: Answer | None = None
    submitted: Answer | None = None
    for event in events:
        if event.role != role:
            continue
        if (result := _as(event, Submitted)) is not None:
            submitted = Answer(result.answer, result.steps, event.seq)
        elif event.kind == "message" and event.content.strip() and not _broken_off(event):
            text = event.content.strip()
            said = Answer(final_answer(text) or text, (), event.seq)
    return submitted or said


def _broken_off(event: Event) -> bool:
    """Whether a message says that the work was ended, and no answer."""
    return (event.data.get("metadata") or {}).get("ended") in ("stuck", "max_steps")


def unavailable(events: Iterable[Event]) -> str:
    """Why there was no web: the last word of a provider that did not come back. Empty if it did."""
    last: dict[str, str] = {}
    calls: dict[int, str] = {}
    for event in events:
        if event.kind == "tool_call":
            calls[event.seq] = str(event.data.get("tool", ""))
        elif event.kind == "tool_result" and event.cause in calls:
            down = event.data.get("type") == WebUnavailable.__name__
            if down or event.data.get("ok"):
                last[calls[event.cause]] = event.content if down else ""
    return "; ".join(dict.fromkeys(reason for reason in last.values() if reason))


def _results(events: Iterable[Event], kind: type[ResultT]) -> Iterator[tuple[Event, ResultT]]:
    for event in events:
        if (found := _as(event, kind)) is not None:
            yield event, found


def _as(event: Event, kind: type[ResultT]) -> ResultT | None:
    """The typed result of a tool, if it is of this kind."""
    recorded = event.data.get("result") if event.kind == "tool_result" else None
    if not isinstance(recorded, dict) or recorded.get("type") != type_address(kind):
        return None
    value = decode_value(recorded)
    return value if isinstance(value, kind) else None
