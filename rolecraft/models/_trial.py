"""Whether a chat template may be shown a conversation's outline instead of all of it: by trial.

Nothing but the template says what it looks at, and few can be read (see `_locality`). So made-up
conversations of many shapes are rendered whole and in outline, once per template. Where both always
go on alike, outlines are shown; sessions still compare them with the whole now and then.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rolecraft.messages import Message, ToolCall
from rolecraft.models._continuing import Continuation
from rolecraft.models._outline import Outline
from rolecraft.models._talk import Talk
from rolecraft.models._turns import Answer
from rolecraft.models.chat_template import TRIED_TOOLS, ChatTemplate, TemplateRefuses

_TALKS = 16
_PLACES = 4
"""So many places of each conversation are compared."""
_ENOUGH = 8
"""So many must have been, for a verdict."""


class Verdict(NamedTuple):
    """Where the outline may be shown."""

    after_results: bool = False
    """Where nothing but results of tools follow the last answer."""
    after_questions: bool = False
    """Where anything else does."""


def verdict(template: ChatTemplate, ends: Collection[str]) -> Verdict:
    """Raises nothing: a template that refuses all there is to try is shown everything."""
    return _verdict(_Tried(template.source, template.settings, frozenset(ends), template))


def alike(one: Continuation, other: Continuation) -> bool:
    """Whether both go on in the same way. Why one does not may be said in other words."""
    return one.rest == other.rest and bool(one.rewrite) == bool(other.rewrite)


@dataclass(frozen=True, slots=True)
class _Tried:
    source: str
    settings: str
    ends: frozenset[str]
    template: ChatTemplate = field(compare=False)


@lru_cache(64)
def _verdict(tried: _Tried) -> Verdict:
    draw = random.Random(0)
    compared = {True: 0, False: 0}
    differs = set()
    for number in range(_TALKS):
        talk = _made_up(tried, draw, number)
        for asks, same in _comparisons(talk, draw, TRIED_TOOLS if number % 3 else ""):
            compared[asks] += 1
            if not same:
                differs.add(asks)
        if False in differs:
            return Verdict()
    return Verdict(
        after_results=compared[False] >= _ENOUGH,
        after_questions=compared[True] >= _ENOUGH and True not in differs,
    )


def _comparisons(talk: Talk, draw: random.Random, tools: str) -> Iterator[tuple[bool, bool]]:
    """At some answers of `talk`: whether a question follows, and whether both go on alike."""
    outline = Outline()
    messages = talk.messages
    places = []
    answers = [*talk.answers.values()]
    for last, then in zip(answers, [*answers[1:], None], strict=True):
        count = len(messages) if then is None else then.at
        outline.follow(messages, last.at + 1, talk.answers)
        part = outline.part(count)
        if part is not None:
            asks = any(message.role == "user" for message in messages[last.at + 1 : count])
            places.append((last, count, part, asks))
    for last, count, part, asks in draw.sample(places, min(_PLACES, len(places))):
        try:
            whole, _ = talk.goes_on(last, range(count), tools)
        except TemplateRefuses:
            continue
        try:
            yield asks, alike(talk.goes_on(last, part, tools)[0], whole)
        except TemplateRefuses:
            continue  # then the whole is rendered


def _made_up(tried: _Tried, draw: random.Random, number: int) -> Talk:
    """A conversation of one to six turns, one of them a long loop of calls."""
    messages: list[Message] = [Message("s", role="system")] if number % 2 else []
    answers: dict[int, Answer] = {}
    ends = [*sorted(tried.ends), ""]
    thinking, talking, twice = (
        draw.choice([0, 0.4, 1]),
        draw.choice([0, 0.4]),
        draw.choice([0, 0.3]),
    )
    turns = 1 + number % 6
    long = draw.randrange(turns)

    def answer(text: str, calls: Sequence[ToolCall]) -> None:
        at = len(messages)
        answers[at] = Answer(
            at=at,
            text=text,
            reasoning="r" if draw.random() < thinking else "",
            calls=calls,
            end=draw.choice(ends),
            written=text,
        )
        metadata = {"tool_calls": [*calls]} if calls else None
        messages.append(Message(text, role="assistant", metadata=metadata))

    for turn in range(turns):
        messages.append(Message(f"q{turn}"))
        for _ in range(draw.randint(6, 12) if turn == long else draw.randint(0, 2)):
            ids = [f"call{len(messages):05d}", f"call{len(messages):04d}b"]
            calls = [ToolCall("lookatit", {"x": 1}, i) for i in ids[: 1 + (draw.random() < twice)]]
            answer("t" if draw.random() < talking else "", calls)
            messages += [Message("o", "tool", metadata={"tool_call_id": c.id}) for c in calls]
        if turn + 1 < turns or draw.random() < 0.3:
            answer("a", [])
    messages.append(Message("q"))
    return Talk(template=tried.template, ends=tried.ends, messages=messages, answers=answers)
