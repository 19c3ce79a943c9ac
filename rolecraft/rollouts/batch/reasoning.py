"""Whether an answer has reasoning, and which: one function, for every place where it may stand.

A model's session has taken most of it out already: it is in a `thought` event. What is left in the
text, because the model's name says nothing of its format, is found here by its markers; and what a
provider kept back (an encrypted item, a signature) is reasoning without a text, as is a field of an
answer that is one JSON object.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rolecraft.models.reasoning import FORMATS, native_reasoning, split_reasoning
from rolecraft.trajectories.events import Event


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its two parts."""

    content: str
    reasoning: str = ""
    thought: bool = False
    """Whether there was reasoning, with or without a text."""


def reasoning_of(event: Event, thought: str = "") -> Answer:
    """The answer that a `model_call` records; `thought` is what its session took out."""
    kept = native_reasoning(event.data.get("provider_fields") or {})
    if thought.strip():
        return Answer(event.content, thought.strip(), True)
    found = in_text(event.content, str(event.data.get("model", "")))
    if found.reasoning:
        return found
    return Answer(event.content, kept.text.strip(), bool(kept))


def in_text(text: str, model: str = "") -> Answer:
    """The parts of a text, in whichever known format its reasoning is; as it is if in none."""
    tried: list[tuple[str | None, bool | None]] = []
    if any(mark in text for mark in _marks()):
        tried += [(None, None)] if model else []
        tried += [("auto", None)]
        # A template may have opened the reasoning, so that only its end stands in the text.
        tried += [(name, True) for close, name in _closes() if close in text]
    if text.lstrip().startswith("{"):
        tried.append(("json", None))
    for form, inside in tried:
        split = split_reasoning(
            text, form, model=model if form is None else "", starts_in_reasoning=inside
        )
        if split.reasoning.strip() and form == "json":
            return Answer(text, "", True)  # the object is what was sampled: it stays as it is
        if split.reasoning.strip() and not (inside and _is_open(split.reasoning)):
            return Answer(split.content.strip(), split.reasoning.strip(), True)
    return Answer(text)


def _is_open(reasoning: str) -> bool:
    """Whether the mark that was found is a quoted one, and ended nothing."""
    return any(close in reasoning for close, _ in _closes())


@cache
def _closes() -> tuple[tuple[str, str], ...]:
    """What ends reasoning, and a format in which it does; sentences of prose are none."""
    found: dict[str, str] = {}
    for name, form in FORMATS.items():
        if form.opens_again:
            for close in form.closes:
                found.setdefault(close.strip(), name)
    return tuple((close, name) for close, name in found.items() if close)


@cache
def _marks() -> tuple[str, ...]:
    """Everything that shows reasoning in a text."""
    marks = [mark.strip() for form in FORMATS.values() for mark in (*form.opens, *form.closes)]
    return tuple(dict.fromkeys(mark for mark in marks if mark))
