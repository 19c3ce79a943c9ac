"""A trajectory as text for a judge, in one window or in several that overlap.

Invariant: every event a judge may see is in at least one window, whole or in numbered pieces;
nothing is cut off. What it may not see is decided here: measured signals, what the environment
verified, and every field of header and events that is not on a list of allowed ones. Whoever asks
for outcomes gets them in one piece of the preamble, apart from the events, never with labels of
failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.evidence import encode, quotable
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView
from rolecraft.trajectories.events import Event

_OUTCOMES = frozenset(
    (
        *("answer", "correct", "correct_answer", "expected_answer", "final_score"),
        *("ground_truth", "groundtruth", "is_correct", "is_corrected", "outcome", "passed"),
        *("resolved", "reward", "score", "solved", "status", "success", "task_completed"),
    )
)
"""What of `about["labels"]` says how a run ended. All else there says who failed, and how."""

_OF_A_ROLE = ("profile", "goal", "constraints", "desc", "system", "actions")
"""What of a role's description a judge sees."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An event, a part of a long one, or (without an event) something of the header."""

    head: str
    text: str
    event: Event | None = None

    @property
    def size(self) -> int:
        return len(self.head) + len(self.text)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a trajectory. `covers` counts the characters that no earlier window has."""

    pieces: tuple[Piece, ...]
    covers: int

    @property
    def events(self) -> dict[int, Event]:
        """The events in this window, by seq."""
        return {piece.event.seq: piece.event for piece in self.pieces if piece.event is not None}

    @property
    def shown(self) -> dict[int, list[str]]:
        """What of each event stands in this window: its whole text, or parts of it, by seq."""
        shown: dict[int, list[str]] = {}
        for piece in self.pieces:
            if piece.event is not None:
                shown.setdefault(piece.event.seq, []).append(piece.text)
        return shown

    def text(self, marker: str) -> str:
        """The window as text, with `marker` before the head of every piece."""
        return "\n\n".join(f"{marker} {piece.head}\n{piece.text}" for piece in self.pieces)


def windows(view: TraceView, *, size: int, overlap: int, outcome: bool = False) -> list[Window]:
    """Split what a judge may see into windows of about `size` characters.

    Each begins at least `overlap` characters before the end of the one before it. Task, roles and
    constraints open every window; where they fill more than a quarter of one, the first only.
    `outcome` adds to them what was measured of the run's success.
    """
    if size < 1000 or not 0 <= overlap <= size // 2:
        raise UsageError(
            f"A window wants at least 1000 characters and an overlap of at most half of that, "
            f"got `window={size!r}`, `overlap={overlap!r}`."
        )
    preamble = tuple(_split(preamble_of(view, outcome=outcome), size, overlap))
    pieces = list(_split(map(whole, visible(view)), size, overlap))
    if 4 * sum(piece.size for piece in preamble) > size:
        pieces, preamble = [*preamble, *pieces], ()
    made: list[Window] = []
    start = covered = 0
    while start < len(pieces) or not made:
        end, length = start, 0
        while end < len(pieces) and (end == start or length + pieces[end].size <= size):
            length += pieces[end].size
            end += 1
        fresh = sum(piece.size for piece in pieces[max(start, covered) : end])
        made.append(Window((*preamble, *pieces[start:end]), fresh))
        covered = end
        if end == len(pieces):
            break
        start = _step_back(pieces, start, end, overlap)
    return made


def _step_back(pieces: list[Piece], start: int, end: int, overlap: int) -> int:
    """The first piece of the next window: `overlap` characters back, but always ahead."""
    back, length = end, 0
    while back - 1 > start and length < overlap:
        back -= 1
        length += pieces[back].size
    return back


def visible(view: TraceView) -> Iterator[Event]:
    """The events that a judge sees."""
    said = {
        (event.role, text)
        for event, text in zip(view.events, view.texts, strict=True)
        if event.kind == "message"
    }
    for at, event in enumerate(view.events):
        if event.kind == "signal" or (event.kind == "verify" and event.role in OUTSIDE):
            continue  # outcomes, measured for grading
        if event.kind == "model_call" and (event.role, view.texts[at]) in said:
            continue  # the message says it again
        if quotable(event).strip() or event.kind in ("message", "reset", "truncate", "tool_result"):
            yield event


def head_of(event: Event) -> str:
    """The line that begins an event: number, kind, who, to whom."""
    head = f"event {event.seq}: {event.kind}, {event.role or 'nobody'}"
    if event.to:
        head += f" to {', '.join(event.to)}"
    return " ".join(head.split())


def whole(event: Event) -> Piece:
    """An event in one piece."""
    return Piece(head_of(event), quotable(event), event)


def _split(pieces: Iterable[Piece], size: int, overlap: int) -> Iterator[Piece]:
    """The pieces; one with more than `size` characters of text in numbered parts that overlap."""
    for piece in pieces:
        if len(piece.text) <= size:
            yield piece
            continue
        starts = range(0, len(piece.text) - overlap, size - overlap)
        for number, at in enumerate(starts, start=1):
            head = f"{piece.head} (part {number} of {len(starts)})"
            yield Piece(head, piece.text[at : at + size], piece.event)


def preamble_of(view: TraceView, *, outcome: bool = False) -> Iterator[Piece]:
    """Task, roles and constraints, from the header's fields that are known to hold no label."""
    task = view.about.get("task")
    prompt = task.get("prompt") if isinstance(task, dict) else task
    if isinstance(prompt, str) and prompt:
        yield Piece("task", prompt)
    for role in view.described:
        described = [f"{key}: {role[key]}" for key in _OF_A_ROLE if role.get(key)]
        yield Piece(" ".join(f"role {role.get('name')}".split()), "\n".join(described))
    for text in _constraints(view.about.get("constraints")):
        yield Piece("constraint", text)
    if outcome and (measured := list(_outcome(view))):
        yield Piece("outcome, as it was measured", "\n".join(measured))


def _outcome(view: TraceView) -> Iterator[str]:
    labels = view.about.get("labels")
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if str(key).lower() in _OUTCOMES:
            yield f"{key}: {encode(value)}"
    for event in view.events:
        data = event.data
        if event.kind == "signal":
            unit = data.get("unit") or ""
            yield f"{data.get('name')}: {encode(data.get('value'))} {unit}".strip()
        elif event.kind == "verify" and event.role in OUTSIDE:
            said = [f"{data.get('target') or 'check'}: passed {encode(data.get('passed'))}"]
            yield "; ".join([*said, *([event.content] if event.content else [])])


def _constraints(listed: Any) -> Iterator[str]:
    for constraint in listed if isinstance(listed, (list, tuple)) else ():
        text = constraint.get("text") if isinstance(constraint, dict) else constraint
        if isinstance(text, str) and text:
            yield text
