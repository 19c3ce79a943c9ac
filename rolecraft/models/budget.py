"""Budgets: limits on what model calls may cost, kept before each call.

Invariant: what settled calls cost and what the calls under way may cost at most, together, stays
within the limits, so concurrent calls cannot cross a limit together. A call that only the calls
under way leave no room for waits, in the order of asking, until one of them is settled; one that
can never fit is refused at once. As far as the estimates are upper bounds, which calls are
admitted depends on the order of asking and not on how fast the answers come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rolecraft.errors import LimitReached, UsageError
from rolecraft.trajectories.events import Usage

if TYPE_CHECKING:
    from rolecraft.models.base import Model

# Sums of prices are floats: a billionth of a dollar over the limit is no crossing.
_ROUNDING_USD = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may cost. None means no limit.

    `usd` in US dollars, `tokens` prompt and completion together, `calls` model calls, `rounds`
    rounds of the environment.
    """

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        for name in ("usd", "tokens", "calls", "rounds"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, (str, bool)) or not value >= 0):
                raise UsageError(f"`Limits({name}=...)` wants a number from 0, got {value!r}.")


@dataclass(slots=True)
class Hold:
    """What a call under way, or all of them, may cost at most."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0
    charged: Usage = field(default_factory=lambda: Usage(calls=0, usd=0.0))
    """What attempts of the call without an answer were billed, counted already."""
    dearest_usd: float = 0.0
    dearest_tokens: int = 0
    """The most that one of these attempts was billed."""


class Budget:
    """Keeps a group of sessions within `limits`, and within those of `parent` too.

    `name` says in messages whose budget it is. One event loop at a time.
    """

    def __init__(self, limits: Limits, *, parent: Budget | None = None, name: str = "") -> None:
        self.limits = limits
        self.parent = parent
        self.name = name
        self.spent = Usage(calls=0, usd=0.0)
        """What was billed, as the provider reports it; unknown prices count as nothing."""
        self._held = Hold()
        self._chain: tuple[Budget, ...] = (self, *(parent._chain if parent is not None else ()))
        self._queue: deque[asyncio.Future[None]] = deque()
        """On the outermost budget: the calls that wait for room, first come first served."""

    @property
    def limits_usd(self) -> bool:
        """Whether money is limited here or further out."""
        return any(budget.limits.usd is not None for budget in self._chain)

    @property
    def limits_tokens(self) -> bool:
        """Whether tokens are limited here or further out."""
        return any(budget.limits.tokens is not None for budget in self._chain)

    async def hold(self, model: Model, *, usd: float | None = None, tokens: int = 0) -> Hold:
        """Reserve room for one call of `model` that costs at most `usd` and `tokens`.

        Waits while calls under way leave no room. Raises `LimitReached` if the call would cross a
        limit, `UsageError` if money is limited and the price of a real model is unknown.
        """
        if usd is None and model.real and self.limits_usd:
            raise UsageError(
                f"A limit in US dollars cannot be kept: no price is known for the model "
                f"{model.name!r}. Give it `prices=(usd_per_prompt_token, usd_per_answer_token)`, "
                f"or limit `tokens` or `calls` instead."
            )
        hold = Hold(usd or 0.0, max(tokens, 1), 1)  # whatever the estimate, a call uses something
        await self._take(model, hold)
        return hold

    def charge(self, hold: Hold, usage: Usage) -> None:
        """An attempt of the call brought no answer and was billed all the same: count it now."""
        usage = replace(usage, usd=hold.usd if usage.usd is None else usage.usd, calls=0)
        hold.charged = hold.charged + usage
        hold.dearest_usd = max(hold.dearest_usd, usage.usd or 0.0)
        tokens = usage.prompt_tokens + usage.completion_tokens
        hold.dearest_tokens = max(hold.dearest_tokens, tokens)
        for budget in self._chain:
            budget.spent = budget.spent + usage

    async def renew(self, model: Model, hold: Hold) -> None:
        """Before another attempt of a call that was charged: make room for it, as for a new call.

        It may cost what `hold` says, and no less than the dearest attempt before it. Waits while
        calls under way leave no room; raises `LimitReached` if the attempt could cross a limit.
        """
        self.release(Hold(hold.usd, hold.tokens, 0))  # the call itself keeps its place
        again = Hold(max(hold.usd, hold.dearest_usd), max(hold.tokens, hold.dearest_tokens), 0)
        hold.usd, hold.tokens = 0.0, 0
        await self._take(model, again)
        hold.usd, hold.tokens = again.usd, again.tokens

    async def _take(self, model: Model, hold: Hold) -> None:
        """Add `hold` to what is held, once there is room."""
        outermost = self._chain[-1]
        if not self._has_room(model, hold) or outermost._queue:
            await self._turn(model, hold)
        for budget in self._chain:
            held = budget._held
            held.usd += hold.usd
            held.tokens += hold.tokens
            held.calls += hold.calls

    def release(self, hold: Hold) -> None:
        """The call ended without an answer: it costs no more than was charged."""
        for budget in self._chain:
            held = budget._held
            held.usd -= hold.usd
            held.tokens -= hold.tokens
            held.calls -= hold.calls
            if held.calls == 0:
                budget._held = Hold()  # exactly nothing, whatever the floats added up to
        self._chain[-1]._wake()

    def settle(self, hold: Hold, usage: Usage) -> None:
        """The call was billed: count its real cost, or its estimate where that is unknown.

        `usage` is of the whole call; what was charged for attempts of it is not counted twice.
        """
        charged = hold.charged
        usd = hold.usd + (charged.usd or 0.0) if usage.usd is None else usage.usd
        usage = Usage(
            max(usage.prompt_tokens - charged.prompt_tokens, 0),
            max(usage.completion_tokens - charged.completion_tokens, 0),
            max(usd - (charged.usd or 0.0), 0.0),
            max(usage.calls, 1),
        )
        for budget in self._chain:
            budget.spent = budget.spent + usage
        self.release(hold)

    async def _turn(self, model: Model, hold: Hold) -> None:
        """Wait until this call is the first in the queue and there is room for it."""
        queue = self._chain[-1]._queue
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
            while not self._has_room(model, hold):
                queue[0] = turn = asyncio.get_running_loop().create_future()
                await turn
        finally:
            queue.remove(turn)
            # The caller takes its room before the next in the queue runs: nothing awaits between.
            self._chain[-1]._wake()

    def _wake(self) -> None:
        if self._queue and not self._queue[0].done():
            self._queue[0].set_result(None)

    def _has_room(self, model: Model, hold: Hold) -> bool:
        """Whether `hold` fits beside the calls under way, in all budgets of the chain."""
        # All are asked, since any of them may refuse the call for good.
        return False not in [budget._fits(model, hold) for budget in self._chain]

    def _fits(self, model: Model, hold: Hold) -> bool:
        limits, spent, held = self.limits, self.spent, self._held
        whose = f" for {self.name}" if self.name else ""
        # A call costs one call, no less: no answer of the others will make room for it.
        if limits.calls is not None and spent.calls + held.calls + hold.calls > limits.calls:
            raise LimitReached(
                f"The limit of {limits.calls} model calls{whose} is used up.",
                limit="calls",
                allowed=limits.calls,
                used=spent.calls + held.calls,
            )
        fits = True
        if limits.usd is not None:
            used = spent.usd or 0.0
            allowed = limits.usd + _ROUNDING_USD
            if used + hold.usd > allowed:
                raise LimitReached(
                    f"The limit of ${limits.usd:g}{whose} does not cover the next call of "
                    f"{model.name!r}: ${used:.6f} is spent and it may cost ${hold.usd:.6f}. "
                    f"`Sampling(max_tokens=...)` lowers what it may cost.",
                    limit="usd",
                    allowed=limits.usd,
                    used=used,
                )
            fits = used + held.usd + hold.usd <= allowed
        if limits.tokens is not None:
            tokens = spent.prompt_tokens + spent.completion_tokens
            if tokens + hold.tokens > limits.tokens:
                raise LimitReached(
                    f"The limit of {limits.tokens} tokens{whose} does not cover the next call of "
                    f"{model.name!r}: {tokens} are used and it may use {hold.tokens}. "
                    f"`Sampling(max_tokens=...)` lowers what it may use.",
                    limit="tokens",
                    allowed=limits.tokens,
                    used=tokens,
                )
            fits = fits and tokens + held.tokens + hold.tokens <= limits.tokens
        return fits

    def __repr__(self) -> str:
        return f"Budget({self.limits}, spent={self.spent})"
