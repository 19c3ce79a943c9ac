"""Budgets: limits on what model calls may cost, checked before and after each call.

Invariant: calls under way are counted at their estimated price from the moment they start, so
that concurrent calls cannot cross a limit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rolecraft.errors import LimitReached, UsageError
from rolecraft.trajectories.events import Usage

if TYPE_CHECKING:
    from rolecraft.models.base import Model, Sampling


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
            if value is not None and not value >= 0:
                raise UsageError(f"`Limits({name}=...)` wants a number from 0, got {value!r}.")


@dataclass(slots=True)
class Hold:
    """What one call under way is expected to cost."""

    usd: float
    tokens: int


class Budget:
    """Keeps a group of sessions within `limits`. `spent` is what settled calls cost."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.spent = Usage(calls=0, usd=0.0)
        self._held = Hold(0.0, 0)
        self._calls = 0

    def hold(self, model: Model, usd: float | None, sampling: Sampling) -> Hold:
        """Reserve one call, or raise `LimitReached` if it could cross a limit."""
        limits = self.limits
        if limits.calls is not None and self._calls >= limits.calls:
            raise LimitReached(
                f"The limit of {limits.calls} model calls is used up.",
                limit="calls",
                allowed=limits.calls,
                used=self._calls,
            )
        hold = Hold(usd or 0.0, sampling.max_tokens or 0)
        if limits.usd is not None:
            if usd is None and model.real:
                raise UsageError(
                    f"`Limits(usd={limits.usd})` cannot be kept: no price is known for the model "
                    f"{model.name!r}. Give it `prices=(usd_per_input_token, usd_per_output_token)`, "
                    f"or limit `tokens` or `calls` instead."
                )
            used = (self.spent.usd or 0.0) + self._held.usd
            if used + hold.usd > limits.usd:
                raise LimitReached(
                    f"The next call of {model.name!r} may cost ${hold.usd:.6f}; "
                    f"${used:.6f} of ${limits.usd:.6f} is spent.",
                    limit="usd",
                    allowed=limits.usd,
                    used=used,
                )
        if limits.tokens is not None:
            tokens = self.spent.prompt_tokens + self.spent.completion_tokens + self._held.tokens
            if tokens + max(hold.tokens, 1) > limits.tokens:
                raise LimitReached(
                    f"The limit of {limits.tokens} tokens does not cover another call: {tokens} are used.",
                    limit="tokens",
                    allowed=limits.tokens,
                    used=tokens,
                )
        self._calls += 1
        self._held.usd += hold.usd
        self._held.tokens += hold.tokens
        return hold

    def release(self, hold: Hold) -> None:
        """The call failed: it costs nothing."""
        self._calls -= 1
        self._held.usd -= hold.usd
        self._held.tokens -= hold.tokens

    def settle(self, hold: Hold, usage: Usage) -> None:
        """The call answered: count what it really cost."""
        self.release(hold)
        self._calls += 1
        self.spent = self.spent + usage
