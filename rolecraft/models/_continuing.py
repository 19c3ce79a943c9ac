"""What a longer rendering of a conversation adds to its token sequence.

Invariant: nothing here looks at what was sampled. The rendering has marks in the place of the parts
of sampled answers (see `_turns`), so whether it continues the sequence does not depend on how a
template spells an answer, only on whether it still writes each part, and everything else as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from rolecraft.models._plain_text import PART_CLOSE, PART_OPEN
from rolecraft.models._turns import Answer


@dataclass(slots=True, kw_only=True)
class Continuation:
    """How a rendering goes on after the last answer."""

    rest: str | None
    """What follows the answer's last sampled token; None if the answer's place can't be found."""
    rewrite: str
    """What the template does with earlier turns, in a few words; empty if it keeps them all."""


def continuation(
    rendered: str,
    *,
    before: str,
    closed: str,
    answer: Answer,
    ends: Collection[str],
    special_at: Callable[[str, int], str],
) -> Continuation:
    """How `rendered` goes on after `answer`, which was sampled after the rendering `before`.

    `closed` is the conversation up to the answer, rendered without the beginning of another one;
    empty if the template refuses that. `ends` are the texts of end tokens, `special_at` tells the
    special token at a place.
    """
    dropped = [part for part in answer.parts if part not in rendered]
    rewrite = ""
    if not rendered.startswith(before):
        rewrite = _what_changed(before, rendered)
    elif dropped:
        rewrite = f"{_kind(dropped[0])} of an answer dropped"
    elif rendered.find(answer.parts[0]) < len(before):
        rewrite = "an earlier turn changed"
    last = next((part for part in reversed(answer.parts) if part not in dropped), None)
    if last is None:
        return Continuation(rest=None, rewrite=rewrite)
    tail = _after(rendered, last)
    tail_closed = _after(closed, last) if last in closed else ""
    return Continuation(
        rest=_rest(
            tail,
            tail_closed,
            end=answer.end,
            ends=ends,
            in_call=not last.endswith(f"text{PART_CLOSE}"),
            special_at=special_at,
        ),
        rewrite=rewrite,
    )


def _rest(
    tail: str,
    closed: str,
    *,
    end: str,
    ends: Collection[str],
    in_call: bool,
    special_at: Callable[[str, int], str],
) -> str:
    """`tail` without what was sampled: the answer's own closing markers and its end token.

    `closed` is what the template writes after the answer when nothing follows: the closing markers
    (`in_call`: there are some), then the end of the turn.
    """
    if not tail.startswith(closed):
        # The end of the last turn differs from that of an earlier one, as in Harmony: `<|return|>`
        # becomes `<|end|>`. The sampled one stays, and the other is not written beside it.
        closing = _up_to(closed, [end] if end and end in closed else ends)
        tail = tail[_same(closing, tail) :]
        other = special_at(tail, 0) if end and end in closed else ""
        return tail[len(other) :]
    at = closed.find(end) if end else -1
    if at >= 0:
        return tail[at + len(end) :]
    # No end was sampled, or another one than the template writes: that of the template stays too.
    known = any(text in closed for text in ends)
    if in_call:
        tail = tail[len(_up_to(closed, ends)) if known else len(closed) :]
    elif known:
        tail = tail[len(closed[: len(_up_to(closed, ends))].rstrip()) :]
    stripped = tail.lstrip()
    if end and stripped.startswith(end):  # the next turn begins with the token that ended this one
        return stripped[len(end) :]
    return tail


def _up_to(text: str, ends: Collection[str]) -> str:
    """`text` up to the first of `ends` in it; all of it if there is none."""
    found = [at for end in ends if (at := text.find(end)) >= 0]
    return text[: min(found)] if found else text


def _after(text: str, part: str) -> str:
    return text[text.rindex(part) + len(part) :]


def _kind(part: str) -> str:
    return part[len(PART_OPEN) : -len(PART_CLOSE)].partition(" ")[2].partition(" ")[0]


def _what_changed(before: str, rendered: str) -> str:
    """In a few words, why `rendered` does not begin with `before`."""
    at = 0
    while (at := before.find(PART_OPEN, at)) >= 0:
        close = before.index(PART_CLOSE, at) + 1
        part = before[at:close]
        if part not in rendered:
            return f"{_kind(part)} of an answer dropped"
        at = close
    same = _same(before, rendered)
    last = before.rfind(PART_OPEN)
    if same > last and rendered.find(PART_OPEN, same) >= 0 and len(before) - same < 200:
        return "an answer opened otherwise"
    return "an earlier turn changed"


def _same(one: str, other: str) -> int:
    """How many characters the two have in common at the beginning, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
