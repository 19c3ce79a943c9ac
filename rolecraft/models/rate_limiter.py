"""How fast a model is asked: as fast as its server takes it, found out by asking.

Invariants: no more than `limit` requests are under way, and none begins before the server's
`Retry-After` has passed, whoever was told it. Requests begin in the order in which their calls
came; a call that was refused keeps its place in that order. Whoever waits is woken, nobody looks
again and again, and whoever gives up waiting takes nobody's place.

`limit` goes by additive increase and multiplicative decrease (AIMD; Chiu and Jain 1989). What is
added to that here, and why:

- Requests that were under way together and are refused together are one congestion, so one
  decrease. It is small (`GENTLE`) where congestions are rare, and large (`HARSH`) where one follows
  before the last is over; then nothing new begins for a moment, so that calls do not use up their
  retries meanwhile.
- The increase is a fixed share of the limit that was too much, with each answer, so that refusals
  are one in some `PATIENCE` answers whatever the server takes. Where none comes any more, the
  server takes more than it did, and the increase doubles each round.
- A limit below 1 means pauses. A server that takes 10 requests a second and answers each in 20 ms
  is kept busy by a fifth of a request at a time (Little's law), so requests begin `usual time of
  an answer / limit` seconds apart. Above 1 they are spread in the same way.
- The limit begins small and doubles each round (slow start, RFC 5681) while it is what holds calls
  back. A few refusals without `Retry-After` do not end that, as long as more is answered.
- A server that refused then and refuses now has taken in between what it takes. Times the usual
  time of an answer that is the limit to go on with, a little below; and where the same was measured
  before, more is tried ever more rarely.
- A server that refuses everything for a while says nothing of what it takes otherwise: from the
  first answer on the limit doubles up to where refusals began, and what nobody answers is asked
  half as often each time.
- Refusals that asking less does not make fewer are no congestion: `_background.py`.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Hashable
from types import TracebackType
from weakref import WeakKeyDictionary

from rolecraft.errors import UsageError
from rolecraft.models._background import Background

OVERLOADED = frozenset({429, 503, 529})
"""HTTP statuses with which servers say that they have too much to do."""

GENTLE = 0.85
"""What a congestion leaves of the limit where the one before is over."""
HARSH = 0.5
"""What it leaves where it is not."""
LITTLE = 0.97
"""What it leaves of the rate that was measured, where that is known."""
NEAR = 0.8
"""From this part of it on, a rate is the one that was measured before."""
EARLY = 0.5
"""Part of the patience; a congestion that comes before says that the rate is not known."""
RARELY = 4.0
"""Times the patience, at most, where it is the same rate again and again."""
OVER = 8
"""A congestion is over when so many answers have come since, or a round of them."""
PATIENCE = 40
"""Answers after which the limit is back where it was too much, if it is small."""
ROUNDS = 4
"""The same in rounds (a round is as many answers as the limit), if it is large."""
PAUSES = 8
"""A server that asks for pauses is asked for more so rarely that they are this part of the time."""
LONGEST_HOLD = 1.0
"""Seconds that nothing new begins, at most, after a congestion that is not over."""
BEHIND = 4
"""Gaps between beginnings that are made up for, if a round has fewer requests."""
_LEAST_WEIGHT = 1 / 32
"""Of one answer in the usual time of an answer."""
_LONGEST_PAUSE = 60.0
"""Seconds; a longer `Retry-After` is honoured, and does not make the increase any slower."""


class RateLimiter:
    """Bounds the requests under way to one model, for everybody who asks it. One event loop.

    `start` is the limit to begin with, `least` and `most` are its bounds, in requests under way.
    `least` may be a fraction, which means pauses, of `longest_gap` seconds at most. With
    `least=start` the limit stays as it is, and only `Retry-After` holds requests up. `clock` gives
    seconds.

    `async with limiter.turn() as turn:` surrounds one attempt. `turn.refused()` says that the
    server had too much to do; a turn that ends without it and without an exception was answered.
    """

    def __init__(
        self,
        *,
        start: float = 16,
        least: float = 0.1,
        most: float = 4096,
        longest_gap: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < least <= start <= most:
            raise UsageError(
                f"`RateLimiter` wants `0 < least <= start <= most`, got `least={least!r}`, "
                f"`start={start!r}`, `most={most!r}`."
            )
        if not longest_gap >= 0:
            raise UsageError(f"`longest_gap` wants seconds from 0, got {longest_gap!r}.")
        self.least, self.most, self.longest_gap = least, most, longest_gap
        self.limit = float(start)
        """How many requests may be under way; a fraction counts from the next whole number."""
        self.lowest = self.limit
        """The least that the limit has been."""
        self.under_way = 0
        self.answers = 0
        self.refusals = 0
        self.congestions = 0
        """How often the limit was lowered."""
        self._fixed = least == start
        self._clock = clock
        self._begun = 0
        """How many requests have begun; the number of the latest."""
        self._tickets = 0
        self._queue: list[tuple[int, int, asyncio.Future[int]]] = []
        """A heap of those who wait, by their call's place in the order of coming."""
        self._asked = 0
        """How many have waited."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._paused_until = -math.inf
        """Nothing begins before then."""
        self._next_at = -math.inf
        """Nothing begins before then, to keep requests apart."""
        self._took = 0.0
        """The usual time of an answer, in seconds; 0 while it is not known."""
        self._timed, self._timed_from = 0, 0
        """Of how many answers, and to requests after which one."""
        self._cut_at = 0
        """The latest request that had begun when the limit was lowered last."""
        self._since = 0
        """Answers since then."""
        self._refused_since = 0
        """Refusals in this round of the slow start."""
        self._step, self._patience = 1.0, math.inf
        """What an answer adds to the limit, and after how many answers that doubles."""
        self._cut_when = clock()
        """When the limit was lowered last."""
        self._taken, self._rarely = math.inf, 1.0
        """What was measured last, in requests under way; how many times the patience."""
        self._in_vain = 0
        """Congestions since the last answer."""
        self._known = math.inf if start < most else self.limit
        """Up to here the limit grows by doubling."""
        self._background = Background(clock())

    # --- for those who ask -----------------------------------------------------------------------

    def ticket(self) -> int:
        """A place in the order of coming, for all attempts of one call."""
        self._tickets += 1
        return self._tickets

    def turn(self, ticket: int | None = None) -> Turn:
        """One attempt's turn: `async with` waits for it."""
        return Turn(self, self.ticket() if ticket is None else ticket)

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(not turn.done() for _, _, turn in self._queue)

    @property
    def paused_for(self) -> float:
        """Seconds for which nothing begins: the server asked for them, or is recovering."""
        return max(self._paused_until - self._clock(), 0.0)

    def __repr__(self) -> str:
        return (
            f"RateLimiter(limit={self.limit:.3g}, under_way={self.under_way}, "
            f"waiting={self.waiting}, answers={self.answers}, refusals={self.refusals})"
        )

    # --- places ----------------------------------------------------------------------------------

    async def _enter(self, ticket: int) -> int:
        """Wait for a place and take it; the number of the request."""
        if not self._queue and self._wait() <= 0:
            return self._take()
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._queue, (ticket, self._asked, turn))
        self._pump()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given its place meanwhile
                self.under_way -= 1
            self._pump()
            raise

    def _wait(self) -> float:
        """Seconds until the next may begin; infinitely many while all places are taken."""
        if self.under_way >= math.ceil(self.limit):
            return math.inf
        if not self.refusals:
            return 0.0
        return max(self._paused_until, self._next_at) - self._clock()

    def _take(self) -> int:
        self.under_way += 1
        self._begun += 1
        if self.congestions:
            gap = min(self._took / self.limit, self.longest_gap)
            # Who found no free place at the planned time is made up for: the average counts.
            late = self._clock() - max(BEHIND, self.limit) * gap
            self._next_at = max(self._next_at, self._paused_until, late) + gap
        return self._begun

    def _pump(self) -> None:
        """Give places to the first in the queue, now or when the time has come."""
        queue = self._queue
        while queue:
            if queue[0][2].done():  # given up
                heapq.heappop(queue)
                continue
            wait = self._wait()
            if wait > 0:
                if wait < math.inf:
                    self._look_in(wait)
                return
            turn = heapq.heappop(queue)[2]
            turn.set_result(self._take())

    def _look_in(self, wait: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + wait
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer, self._timer_at = loop.call_at(at, self._time_has_come), at

    def _time_has_come(self) -> None:
        self._timer = None
        self._pump()

    # --- what answers and refusals say -----------------------------------------------------------

    def _leave(self, number: int, took: float | None, refused: bool) -> None:
        """A request has ended; after `took` seconds if it was answered."""
        full = self._queue or 2 * self.under_way > self.limit
        self.under_way -= 1
        self._background.ended(number, answered=took is not None, refused=refused)
        if took is not None:
            self.answers += 1
            self._since += 1
            if number > self._timed_from or not self._timed:
                self._timed += 1
                weight = max(1 / self._timed, _LEAST_WEIGHT)
                self._took = took if weight == 1 else self._took + (took - self._took) * weight
            if full and not self._fixed:  # else nothing says that the server would take more
                self._grow()
        if self._queue:
            self._pump()

    def _grow(self) -> None:
        if self.limit < self._known:
            self.limit = min(self.limit + min(self.limit, 1.0), self._known, self.most)
            return
        if self._since > self._patience:
            self._step *= 2
            self._patience += max(OVER, self.limit)
        self.limit = min(self.limit + self._step, self.most)

    def _refused(self, number: int, retry_after: float | None) -> None:
        self.refusals += 1
        if retry_after:
            self._paused_until = max(self._paused_until, self._clock() + retry_after)
        if number <= self._cut_at or self._fixed:  # of a congestion that is known
            return
        if self._known == math.inf and not retry_after and self._mostly_answered():
            return
        if not self._background.pardons(self.answers, self.limit):
            self._congested(retry_after or 0.0)

    def _mostly_answered(self) -> bool:
        """One more is refused: whether it is few, or less than are answered, in this round."""
        if self._since + self._refused_since >= max(self.limit, 2 * OVER):
            self._since = self._refused_since = 0
        self._refused_since += 1
        return self._refused_since < OVER or self._refused_since <= self._since

    def _congested(self, pause: float) -> None:
        now, limit, answered = self._clock(), self.limit, self._since
        # Refused then and now, in between it has taken what it takes (Little's law).
        seconds, self._cut_when = now - self._cut_when, now
        taken = min(answered * self._took / seconds, limit) if seconds else 0.0
        load, hold = limit if self._queue else min(limit, self.under_way), 0.0
        first = not self.congestions
        if first:
            # What was tried, not what was allowed; one refusal of one request says little.
            limit = min(limit, max(self.under_way, OVER))
        over = first or answered >= min(limit, OVER)
        if over or answered:
            self._known = limit * (GENTLE if over else HARSH)
        old, known = limit, over and not first and self._queue and answered >= min(limit, 64)
        near = known and NEAR <= taken / self._taken <= 1 / NEAR
        if over:
            early = answered < EARLY * self._patience
            self._rarely = min(self._rarely * 2, RARELY) if near and not early else 1.0
        if known:
            self._taken = taken
        self._in_vain = 0 if answered else self._in_vain + 1
        if over and not first:
            keep = LITTLE if near and not early else GENTLE
            if known:
                keep = min(keep, LITTLE * taken / limit)
                keep = max(keep, HARSH / 2 if near else HARSH)
                self._known = limit * keep
            limit *= keep
        else:
            hold = min((self._took or LONGEST_HOLD) * 2.0 ** min(self._in_vain, 9), LONGEST_HOLD)
            self._paused_until = max(self._paused_until, now + hold)
            # With fewer requests at a time, answers may take another time.
            self._timed, self._timed_from = 0, self._begun
            # Where nothing is answered at all, asking less and less often finds nothing out.
            limit = max(limit * HARSH, 0.0 if answered else min(limit, 1.0))
        back = self._background.congested(self._begun, load, self.answers, now, hold)
        if first and 2 * self.answers >= load:
            # A burst that the server had in store says nothing of what it takes.
            self._background.compare_from_here()
        if back is None:  # less would be asked in vain, perhaps
            limit = self.limit
        elif back > load:
            self._known = math.inf  # what it takes is not known
        # As many answers as come in `PAUSES` times the pause, if that is more.
        paused = PAUSES * min(pause, _LONGEST_PAUSE) * limit / self._took if self._took else 0.0
        self._patience = max(PATIENCE * self._rarely, ROUNDS * limit, paused)
        self._step = (1 - GENTLE) * (limit if near else old) / self._patience
        self.limit = max(limit, self.least)
        self.lowest = min(self.lowest, self.limit)
        self.congestions += 1
        self._cut_at, self._since, self._refused_since = self._begun, 0, 0
        self._next_at = max(self._next_at, now)  # nothing is made up for


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Hashable, ...], RateLimiter]]
_shared = WeakKeyDictionary()


def shared_limiter(*who: Hashable) -> RateLimiter:
    """The one limiter in the running event loop for `who` is asked: a model, its server, a key."""
    limiters = _shared.setdefault(asyncio.get_running_loop(), {})
    limiter = limiters.get(who)
    if limiter is None:
        limiter = limiters[who] = RateLimiter()
    return limiter


class Turn:
    """One attempt's turn at a model."""

    __slots__ = ("_began", "_limiter", "_number", "_refused", "_ticket")

    def __init__(self, limiter: RateLimiter, ticket: int) -> None:
        self._limiter, self._ticket = limiter, ticket
        self._number = 0
        self._began = 0.0
        self._refused = False

    async def __aenter__(self) -> Turn:
        self._number = await self._limiter._enter(self._ticket)
        self._began = self._limiter._clock()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        limiter = self._limiter
        answered = kind is None and not self._refused
        took = limiter._clock() - self._began if answered else None
        limiter._leave(self._number, took, self._refused)

    def refused(self, retry_after: float | None = None) -> None:
        """The server has too much to do. Nothing begins for `retry_after` seconds, if it said so.

        Also for an answer that did not come in time.
        """
        self._refused = True
        self._limiter._refused(self._number, retry_after)
