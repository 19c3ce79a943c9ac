"""Refusals that do not come of asking too much: a share that a server refuses whatever it is asked.

Invariant: what is pardoned was found by comparison, never assumed. To a server that takes so many
requests and no more, a third of the load is refused a third as often for each answer, or less, and
is answered as often a second: refusals are what is too much. So where `FEWER` times less load
leaves the odds of a refusal (refusals for each answer) about what they were, and brings fewer
answers a second, refusals say nothing of load. Both are counts of few, so chance can delay that or
make it wrong for a while.

Loads are compared as a limit falls. `FEWER` times below loads of which the odds are known it falls
no further, if that costs answers, before `ENOUGH` refusals have shown which it is. Odds that were
found are pardoned: `MARGIN` times as many refusals as they foretell. What comes beyond them is load
again. They are forgotten after a while and found out anew, as a server may change.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

FEWER = 3.0
"""Times less load that must have been tried."""
SAME = 0.6
"""From this part of it on, less is the same: of odds, and of answers a second."""
ENOUGH = 6
"""Refusals that odds are counted from."""
MARGIN = 1.5
"""Times the odds that are pardoned."""
_HIGHEST = 1.0
"""Odds; who refuses more than it answers is not asked more because of that."""
_ROUNDS, _REFUSALS = 50, 200
"""After so many rounds, and answers to foretell so many refusals, odds are forgotten."""
_MEMORY = 64
"""Spans."""


@dataclass(slots=True)
class _Span:
    """The requests that began between two congestions."""

    after: int
    """The last request before them."""
    since: float
    seconds: float = 0.0
    load: float = 0.0
    begun: int = 0
    """0 while it goes on."""
    ended: int = 0
    answers: int = 0
    refusals: int = 0


class Background:
    """What the limiter of one server knows of refusals that are not about load.

    Requests have numbers, in the order in which they begin.
    """

    def __init__(self, now: float) -> None:
        self.odds = 0.0
        """Refusals for each answer that are not about load, as far as is known."""
        self._spans = deque([_Span(0, now)], maxlen=_MEMORY)
        self._forget_at = 0
        self._credit, self._credited = 0.0, 0

    def ended(self, number: int, *, answered: bool = False, refused: bool = False) -> None:
        """A request has ended."""
        for span in reversed(self._spans):  # one of the last two or three
            if number > span.after:
                span.ended += 1
                span.answers += answered
                span.refusals += refused
                return

    def pardons(self, answers: int, limit: float) -> bool:
        """Whether a refusal is one of those that were to be expected after so many answers."""
        if answers >= self._forget_at:
            self.odds = 0.0
        if not self.odds:
            return False
        round_of = self.odds * max(limit, 1.0)
        most = 1 + round_of + 3 * math.sqrt(round_of)
        self._credit += MARGIN * self.odds * (answers - self._credited)
        self._credit, self._credited = min(self._credit, most), answers
        pardoned = self._credit >= 1
        self._credit = self._credit - 1 if pardoned else most
        return pardoned

    def compare_from_here(self) -> None:
        """Leave what was until now out of comparisons: its load was not one that lasted."""
        self._spans = deque([self._spans[-1]], maxlen=_MEMORY)

    def congested(
        self, begun: int, load: float, answers: int, now: float, hold: float
    ) -> float | None:
        """A span is over, and nothing begins for `hold` seconds, which are not the server's.

        The load to go on from: this one, or one that there was before. None as long as it is not
        known whether less load has helped.
        """
        last = self._spans[-1]
        last.load, last.begun, last.seconds = load, begun - last.after, max(now - last.since, 0.0)
        self._spans.append(_Span(begun, now + hold))
        done = [span for span in self._spans if span.begun and span.ended == span.begun][::-1]
        more = _latest(span for span in done if span.load >= FEWER * load)
        if _refusals(more) < ENOUGH or _odds(more) > _HIGHEST:
            return load
        most = min(span.load for span in more) / FEWER
        less = _latest(s for s in done if s.after > more[0].after and s.load <= most)
        if _speed(less) >= SAME * _speed(more):  # who asks less loses nothing
            return load
        if _refusals(less) < ENOUGH:
            return None
        if not SAME * _odds(more) <= _odds(less) <= _HIGHEST:
            return load
        back = max(span.load for span in more)
        self.odds = min(_odds(less), _odds(more))
        self._forget_at = answers + int(max(_ROUNDS * back, _REFUSALS / self.odds))
        self._credit, self._credited = math.inf, answers
        self.compare_from_here()
        return back


def _latest(spans: Iterable[_Span]) -> list[_Span]:
    """The first of `spans` that have `ENOUGH` refusals together, or all."""
    found, refusals = [], 0
    for span in spans:
        found.append(span)
        refusals += span.refusals
        if refusals >= ENOUGH:
            break
    return found


def _refusals(spans: list[_Span]) -> int:
    return sum(span.refusals for span in spans)


def _odds(spans: list[_Span]) -> float:
    answers = sum(span.answers for span in spans)
    return _refusals(spans) / answers if answers else math.inf


def _speed(spans: list[_Span]) -> float:
    """Answers a second."""
    seconds = sum(span.seconds for span in spans)
    return sum(span.answers for span in spans) / seconds if seconds else 0.0
