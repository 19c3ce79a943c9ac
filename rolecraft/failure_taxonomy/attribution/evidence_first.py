"""Our own way: what is proved first, then one question about it.

Detectors and the judge have found failures whose evidence was checked. These are the candidates;
one more call chooses among them, or names another step with a quote, which is checked in the same
way. It is the candidates that a model is asked to weigh, not the needle that it is asked to find,
and of a long trace it is shown what the candidates are about, with the beginnings of the rest.

Without an answer that can be used, the earliest candidate stands: it is evidence, not a guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rolecraft.failure_taxonomy.attribution.case import Case, reason_of
from rolecraft.failure_taxonomy.attribution.earliest import unrecovered
from rolecraft.failure_taxonomy.attribution.result import Attribution
from rolecraft.failure_taxonomy.evidence import find_quote
from rolecraft.failure_taxonomy.judging.answers import NoAnswer
from rolecraft.failure_taxonomy.windows import Piece, head_of, whole
from rolecraft.models.defused import restore
from rolecraft.trajectories.events import Event, FailureFinding

SHOWN = 60_000
"""Characters of a record that are shown; a shorter one is shown whole."""
MOST_CANDIDATES = 20
AROUND = 3
"""So many events before and after a candidate's are shown in more than their first words."""
CLOSE, NEAR, LEAST = 4000, 800, 40
"""Characters shown of a candidate's event and of one near it, and the fewest of any other."""

BESIDE = 100
"""Characters of a marker, of what says that an event is cut, and of what says that some are left
out before it, more or less."""


async def evidence_first(
    case: Case, found: Attribution, findings: Sequence[FailureFinding]
) -> None:
    """One call: choose among the findings from which the run did not recover, or name another."""
    candidates = _candidates(findings, case)
    pieces = await asyncio.to_thread(extract, case, candidates)
    shown = {piece.event.seq: piece for piece in pieces if piece.event is not None}
    listed = [
        Piece(f"candidate {number}", _told(finding), None)
        for number, finding in enumerate(candidates, start=1)
    ]
    try:
        answer = await case.ask(
            _QUESTION if candidates else _NO_CANDIDATES,
            _FORM,
            [*listed, *pieces],
            key="candidate",
        )
        _read(answer, case, candidates, shown, found)
    except NoAnswer as error:
        if not candidates:
            raise
        found.problems.append(f"the earliest finding stands, because {error}")
        _take(candidates[0], found)


_QUESTION = """\
The fence holds candidates first: mistakes for which there is evidence in the record, earliest
first, found by programs that may have missed the decisive one. Then the record; of a long one, the
candidates' events and the beginnings of others. Is one of the candidates the decisive failure?
Choose the one whose own mistake made the team fail, which need not be the first. Only if none of
them is, name another event of the record, its role, and words copied exactly from that event."""

_NO_CANDIDATES = """\
No program has found a mistake in this record; there are no candidates. Name the event of the
decisive failure, its role, and words copied exactly from that event."""

_FORM = """\
- "candidate": the number of the candidate, or null if it is none of them. With a number, the three
  keys that follow are null.
- "step": the number of the event.
- "role": the role that made the event, as the record writes it.
- "quote": words copied exactly from that event as it is shown. No ellipsis, no correction.
- "reason": one sentence."""


def _read(
    answer: dict[str, Any],
    case: Case,
    candidates: Sequence[FailureFinding],
    shown: dict[int, Piece],
    found: Attribution,
) -> None:
    number = answer["candidate"]
    if number is not None:
        if type(number) is not int or not 1 <= number <= len(candidates):
            raise NoAnswer(f"the answer chooses the candidate {number!r}")
        _take(candidates[number - 1], found)
        found.reason = reason_of(answer) or found.reason
        return
    step = case.step(answer.get("step"))
    role = case.role(answer.get("role"))
    if step.role != role:
        raise NoAnswer(f"the answer names the role {role!r}, but {step.role!r} made the event")
    piece = shown.get(step.seq)
    said = answer.get("quote")
    quote = None
    if piece is not None and isinstance(said, str):
        quote = find_quote(said, piece.text) or find_quote(restore(said), piece.text)
    if quote is None:
        raise NoAnswer(f"the answer quotes what event {step.seq} does not say")
    found.role, found.step, found.quote = role, step.seq, quote
    found.reason = reason_of(answer)


def _candidates(findings: Sequence[FailureFinding], case: Case) -> list[FailureFinding]:
    """Findings whose step can be blamed, each with that step first."""
    steps = {step.seq for step in case.steps}
    distinct: dict[tuple[int, str, str], FailureFinding] = {}
    for finding in unrecovered(findings, case.view):
        events = sorted(finding.events, key=lambda seq: seq not in steps)  # a stable sort
        if events[0] in steps:
            finding = replace(finding, events=tuple(events))
            distinct.setdefault((events[0], finding.role, finding.mode), finding)
    return list(distinct.values())[:MOST_CANDIDATES]


def _told(finding: FailureFinding) -> str:
    lines = [f"event {finding.events[0]}, {finding.role or 'nobody'}: {finding.mode}"]
    if finding.quote:
        lines.append(f"quote: {finding.quote[:600]}")
    if finding.reason:
        lines.append(f"why: {finding.reason[:600]}")
    return "\n".join(lines)


def _take(finding: FailureFinding, found: Attribution) -> None:
    found.role, found.step = finding.role, finding.events[0]
    found.mode, found.quote, found.reason = finding.mode, finding.quote, finding.reason


def extract(case: Case, candidates: Sequence[FailureFinding]) -> list[Piece]:
    """What is shown of the record: all of a short one, else about `SHOWN` characters.

    Where a window has less room, less is shown. Every event is there with its head and first words,
    in its place; where even these would be too many, a line says which are not.
    """
    wholes = [whole(event) for event in case.events]
    room = min(SHOWN, max(case.window - sum(piece.size for piece in case.preamble), LEAST))
    if sum(piece.size for piece in wholes) <= room:
        return wholes
    lengths = _lengths(case.events, candidates)
    if (close := sum(lengths.values())) > case.window // 2:  # many candidates, or a small window
        lengths = {at: max(n * case.window // 2 // close, LEAST) for at, n in lengths.items()}
    spent = sum(lengths.values()) + sum(_head(case.events[at]) for at in lengths)
    rest = [at for at in range(len(case.events)) if at not in lengths]
    heads = sum(_head(case.events[at]) for at in rest)
    each = max(room - spent - heads, 0) // max(len(rest), 1)
    if each >= LEAST:
        lengths |= dict.fromkeys(rest, each)
    else:  # evenly spread over the run, as many as fit
        fit = max(room - spent, 0) // (LEAST + heads // max(len(rest), 1))
        stride = max(-(-len(rest) // fit), 1) if fit else len(rest) + 1
        lengths |= dict.fromkeys(rest[::stride] if fit else (), LEAST)
    return _pieces(case.events, wholes, lengths)


def _head(event: Event) -> int:
    """Characters that it takes to show anything of an event, beside its text."""
    return len(head_of(event)) + BESIDE


def _lengths(events: Sequence[Event], candidates: Sequence[FailureFinding]) -> dict[int, int]:
    """By position, how much is shown of the events that candidates are about, and of their like."""
    position = {event.seq: at for at, event in enumerate(events)}
    lengths: dict[int, int] = {}
    for finding in candidates:
        for seq in finding.events[:3]:
            at = position.get(seq)
            if at is None:
                continue
            for near in range(max(at - AROUND, 0), min(at + AROUND + 1, len(events))):
                lengths[near] = max(lengths.get(near, 0), CLOSE if near == at else NEAR)
    return lengths


def _pieces(
    events: Sequence[Event], wholes: Sequence[Piece], lengths: dict[int, int]
) -> list[Piece]:
    pieces: list[Piece] = []
    left_out: list[int] = []
    for at, event in enumerate(events):
        if at not in lengths:
            left_out.append(event.seq)
            continue
        if left_out:
            pieces.append(_gap(left_out))
            left_out = []
        piece, length = wholes[at], lengths[at]
        if len(piece.text) > length:
            head = f"{piece.head} (the first {length} of {len(piece.text)} characters)"
            piece = Piece(head, piece.text[:length], event)
        pieces.append(piece)
    return [*pieces, _gap(left_out)] if left_out else pieces


def _gap(left_out: Sequence[int]) -> Piece:
    count = len(left_out)
    return Piece(f"not shown: {count} events, {left_out[0]} to {left_out[-1]}", "")
