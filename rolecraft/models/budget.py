"""Budgets: limits on what model calls may cost, kept before, during and after each call.

Invariant: what settled calls cost and what the calls under way may cost at most, together, stays
within the limits, so concurrent calls cannot cross a limit together. A call that only the calls
under way leave no room for waits, in the order of asking, until one of them is settled; one that
can never fit crosses the limit at once, before it is made. As far as the estimates are upper
bounds, which calls are admitted depends on the order of asking and not on how fast the answers
come. Calls whose estimate may be too low go one at a time where it matters, so that a limit is
passed by one call at most.

What happens at a crossing is decided as `Limits.on_limit` says.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from rolecraft.errors import UsageError
from rolecraft.models._crossed import Crossed
from rolecraft.models._timed import Timed
from rolecraft.models.limits import (
    Crossing,
    Decision,
    LimitName,
    Limits,
    MoreRoom,
    Note,
    When,
    extended,
)
from rolecraft.trajectories.events import Usage

if TYPE_CHECKING:
    from rolecraft.models.base import Model

__all__ = ["Budget", "Hold", "Limits"]

Answer = TypeVar("Answer")

# Sums of prices are floats: a billionth of a dollar over the limit is no crossing.
_ROUNDING_USD = 1e-9


_NO_TIME = nullcontext()
_NOTHING = Usage(calls=0, usd=0.0)
"""Never changed: sums are new objects."""


@dataclass(slots=True)
class Hold:
    """What a call under way, or all of them, may cost at most."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0
    alone: bool = False
    """The estimate may be too low: no other call beside it, where money or tokens are limited."""
    charged: Usage = field(default_factory=lambda: _NOTHING)
    """What attempts of the call without an answer were billed, counted already."""
    dearest_usd: float = 0.0
    dearest_tokens: int = 0
    """The most that one of these attempts was billed."""

    @property
    def billed(self) -> bool:
        """Whether attempts without an answer were billed."""
        return self.charged != _NOTHING


class Budget(Timed):
    """Keeps a group of sessions within `limits`, and within those of `parent` too.

    `name` says in messages whose budget it is. `clock` gives seconds, for `Limits.seconds`. One
    event loop at a time.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        parent: Budget | None = None,
        name: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self.limits = limits
        self.parent = parent
        self.name = name
        self.spent = Usage(calls=0, usd=0.0)
        """What was billed, as the provider reports it; unknown prices count as nothing."""
        self._held = Hold()
        self._chain: tuple[Budget, ...] = (self, *(parent._chain if parent is not None else ()))
        self._queue: deque[asyncio.Future[None]] = deque()
        """On the outermost budget: the calls that wait for room, first come first served."""
        self._question: asyncio.Lock | None = None
        """Held while `on_limit` is asked: the answer may settle the next question too."""
        self._answer: Decision | None = None

    @property
    def limits_usd(self) -> bool:
        """Whether money is limited here or further out."""
        return self._limited("usd")

    @property
    def limits_tokens(self) -> bool:
        """Whether tokens are limited here or further out."""
        return self._limited("tokens")

    @property
    def limits_seconds(self) -> bool:
        """Whether time is limited here or further out."""
        return self._limited("seconds")

    def _limited(self, name: str) -> bool:
        for budget in self._chain:  # noqa: SIM110 - asked several times a call: quicker
            if getattr(budget.limits, name) is not None:
                return True
        return False

    # --- a call ------------------------------------------------------------------------------

    async def hold(
        self,
        model: Model,
        *,
        usd: float | None = None,
        tokens: int = 0,
        certain: bool = True,
        role: str = "",
        note: Note | None = None,
    ) -> Hold:
        """Reserve room for one call of `model` that costs at most `usd` and `tokens`.

        Waits while calls under way leave no room; with `certain=False`, until there are none where
        money or tokens are limited. At a crossing `on_limit` decides and `note` is told; raises
        `LimitReached` unless it gave more room. Raises `UsageError` if money is limited and the
        price of a real model is unknown.
        """
        if usd is None and model.real and self.limits_usd:
            raise UsageError(
                f"A limit in US dollars cannot be kept: no price is known for the model "
                f"{model.name!r}. Give it `prices=(usd_per_prompt_token, usd_per_answer_token)`, "
                f"or limit `tokens` or `calls` instead."
            )
        # Whatever the estimate, a call uses something.
        hold = Hold(usd or 0.0, max(tokens, 1), 1, alone=not certain)
        await self._take(model, hold, role, note)
        return hold

    async def in_time(
        self,
        hold: Hold,
        call: Coroutine[None, None, Answer],
        model: Model,
        *,
        role: str = "",
        note: Note | None = None,
    ) -> Answer:
        """The answer of `call`, which is interrupted when a limit in seconds is crossed.

        It goes on while `on_limit` decides. What an interrupted call would have cost is unknown,
        so its estimate is charged; the hold stays to be released.
        """
        with self.running():
            task = asyncio.ensure_future(call)
            try:
                while True:
                    await asyncio.wait((task,), timeout=self.seconds_left)
                    if task.done():
                        return task.result()
                    late = self._out_of_time(role, _call_of(model), when="during")
                    refused = await late.decide(note) if late is not None else None
                    if late is None or refused is None:
                        continue
                    await _cancelled(task)
                    usage = Usage(hold.tokens if self.limits_tokens else 0, 0, hold.usd)
                    self.charge(hold, usage)
                    self.count(Usage(calls=1, usd=0.0))
                    raise late.refusal(refused, note, usage)
            finally:
                await _cancelled(task)

    def charge(self, hold: Hold, usage: Usage) -> None:
        """An attempt of the call brought no answer and was billed all the same: count it now."""
        usage = replace(usage, usd=hold.usd if usage.usd is None else usage.usd, calls=0)
        hold.charged = hold.charged + usage
        hold.dearest_usd = max(hold.dearest_usd, usage.usd or 0.0)
        tokens = usage.prompt_tokens + usage.completion_tokens
        hold.dearest_tokens = max(hold.dearest_tokens, tokens)
        self.count(usage)

    async def renew(
        self, model: Model, hold: Hold, *, role: str = "", note: Note | None = None
    ) -> None:
        """Before another attempt of a call that was charged: make room for it, as for a new call.

        It may cost what `hold` says, and no less than the dearest attempt before it. Waits while
        calls under way leave no room; crosses the limit if the attempt could.
        """
        self.release(Hold(hold.usd, hold.tokens, 0))  # the call itself keeps its place
        again = Hold(max(hold.usd, hold.dearest_usd), max(hold.tokens, hold.dearest_tokens), 0)
        hold.usd, hold.tokens = 0.0, 0
        await self._take(model, again, role, note)
        hold.usd, hold.tokens = again.usd, again.tokens

    def release(self, hold: Hold) -> None:
        """The call ended without an answer: it costs no more than was charged."""
        for budget in self._chain:
            held = budget._held
            held.usd -= hold.usd
            held.tokens -= hold.tokens
            held.calls -= hold.calls
            held.alone = held.alone and not hold.alone
            if held.calls == 0:
                # Exactly nothing, whatever the floats added up to.
                held.usd, held.tokens, held.alone = 0.0, 0, False
        self._chain[-1]._wake()

    def settle(self, hold: Hold, usage: Usage) -> None:
        """The call was billed: count its real cost, or its estimate where that is unknown.

        `usage` is of the whole call; what was charged for attempts of it is not counted twice.
        """
        charged = hold.charged
        if charged is _NOTHING and usage.usd is not None and usage.calls:
            self.count(usage)
            self.release(hold)
            return
        usd = hold.usd + (charged.usd or 0.0) if usage.usd is None else usage.usd
        self.count(
            Usage(
                max(usage.prompt_tokens - charged.prompt_tokens, 0),
                max(usage.completion_tokens - charged.completion_tokens, 0),
                max(usd - (charged.usd or 0.0), 0.0),
                max(usage.calls, 1),
            )
        )
        self.release(hold)

    async def check_after(self, model: Model, *, role: str = "", note: Note | None = None) -> None:
        """After an answer of `model`: what it cost may have been more than there was to spare.

        At a crossing `on_limit` decides, as in `hold`.
        """
        for budget in self._chain:
            while (passed := budget._passed_by(model, role)) is not None:
                await passed.settle(note)

    async def cross(
        self, limit: LimitName, used: float, doing: str, *, note: Note | None = None
    ) -> None:
        """A limit that others count (`rounds`) is crossed: `on_limit` decides, as in `hold`."""
        await self._crossed(limit, used, doing, needed=1).settle(note)

    # --- what is spent, also by an earlier process -----------------------------------------------

    def count(self, usage: Usage) -> None:
        """Add to what is spent, here and further out: after a recovery, what the record holds."""
        for budget in self._chain:
            budget.spent = budget.spent + usage

    def grant(self, more: MoreRoom) -> None:
        """Raise the limits; what is not limited stays so."""
        self.limits = extended(self.limits, more)
        self._chain[-1]._wake()

    def named(self, name: str) -> Budget:
        """Here and further out, the budget of this name; this one if there is none."""
        return next((budget for budget in self._chain if budget.name == name), self)

    # --- crossings -----------------------------------------------------------------------------

    async def _take(self, model: Model, hold: Hold, role: str, note: Note | None) -> None:
        """Add `hold` to what is held, once there is room and time."""
        with self.running() if self.limits_seconds else _NO_TIME:
            while not await self._ready(model, hold, role, note):
                pass
        for budget in self._chain:
            held = budget._held
            held.usd += hold.usd
            held.tokens += hold.tokens
            held.calls += hold.calls
            held.alone = held.alone or hold.alone

    async def _ready(self, model: Model, hold: Hold, role: str, note: Note | None) -> bool:
        """Wait for room; False to look again, because a limit was raised or time is up."""
        if self.limits_seconds:
            await self.check_time(_call_of(model), role=role, note=note)
        try:
            if not self._has_room(model, hold, role) or self._chain[-1]._queue:
                async with asyncio.timeout(self.seconds_left):
                    await self._turn(model, hold, role)
        except TimeoutError:
            return False
        except Crossed as crossed:
            await crossed.settle(note)
            return False
        return True

    async def _turn(self, model: Model, hold: Hold, role: str) -> None:
        """Wait until this call is the first in the queue and there is room for it."""
        queue = self._chain[-1]._queue
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
            while not self._has_room(model, hold, role):
                queue[0] = turn = asyncio.get_running_loop().create_future()
                await turn
        finally:
            queue.remove(turn)
            # The caller takes its room before the next in the queue runs: nothing awaits between.
            self._chain[-1]._wake()

    def _wake(self) -> None:
        if self._queue and not self._queue[0].done():
            self._queue[0].set_result(None)

    def _has_room(self, model: Model, hold: Hold, role: str) -> bool:
        """Whether `hold` fits beside the calls under way, in all budgets of the chain."""
        # All are asked, since any of them may refuse the call for good.
        return False not in [budget._fits(model, hold, role) for budget in self._chain]

    def _fits(self, model: Model, hold: Hold, role: str) -> bool:
        """Raises `Crossed` if no answer of the others can make room."""
        limits, spent, held = self.limits, self.spent, self._held
        # A call costs one call, no less: no answer of the others will make room for it.
        if limits.calls is not None and spent.calls + held.calls + hold.calls > limits.calls:
            raise self._crossed("calls", spent.calls + held.calls, _call_of(model), role, needed=1)
        fits = True
        if limits.usd is not None:
            used, allowed = spent.usd or 0.0, limits.usd + _ROUNDING_USD
            if used + hold.usd > allowed:
                raise self._crossed("usd", used, _call_of(model), role, needed=hold.usd)
            fits = used + held.usd + hold.usd <= allowed
        if limits.tokens is not None:
            used = spent.prompt_tokens + spent.completion_tokens
            if used + hold.tokens > limits.tokens:
                raise self._crossed("tokens", used, _call_of(model), role, needed=hold.tokens)
            fits = fits and used + held.tokens + hold.tokens <= limits.tokens
        if limits.usd is None and limits.tokens is None:
            return fits
        return fits and not (hold.calls and held.calls and (hold.alone or held.alone))

    def _passed_by(self, model: Model, role: str) -> Crossed | None:
        """The limit that what is spent has passed."""
        limits, spent = self.limits, self.spent
        if limits.usd is not None and (spent.usd or 0.0) > limits.usd + _ROUNDING_USD:
            return self._crossed("usd", spent.usd or 0.0, _call_of(model), role, when="after")
        tokens = spent.prompt_tokens + spent.completion_tokens
        if limits.tokens is not None and tokens > limits.tokens:
            return self._crossed("tokens", tokens, _call_of(model), role, when="after")
        return None

    def _crossed(
        self,
        limit: LimitName,
        used: float,
        doing: str,
        role: str = "",
        *,
        needed: float = 0.0,
        when: When = "before",
    ) -> Crossed:
        crossing = Crossing(
            limit=limit,
            allowed=getattr(self.limits, limit),
            used=used,
            needed=needed,
            whose=self.name,
            role=role,
            doing=doing,
            when=when,
        )
        return Crossed(self, crossing)

    def __repr__(self) -> str:
        return f"Budget({self.limits}, spent={self.spent})"


def _call_of(model: Model) -> str:
    return f"a call of {model.name!r}"


async def _cancelled(task: asyncio.Future[Answer]) -> None:
    """Cancel a call, unless it has ended, and wait for its end. What it says no longer matters."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # asyncio complains about one that nobody looked at
