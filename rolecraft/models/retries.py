"""When to ask a model again, and how long to wait before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rolecraft.errors import UsageError
from rolecraft.models._failures import AttemptFailed, Failure

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

# What is added to a wait at random, as a share of it: a hundred sessions that were refused
# together must not come back together.
_SPREAD = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How a model is asked again after a rate limit, a time-out, a lost connection or a 5xx.

    `times` is the number of retries after the first attempt. The first one waits `first_wait`
    seconds, each further one twice as long, up to `longest_wait`; a server that says how long
    (`Retry-After`) gets at least that. Up to half of the wait is added at random. A server that
    asks for more than `longest_retry_after` seconds is not asked again.
    """

    times: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    longest_retry_after: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits that many seconds. A test gives a function that notes them and returns at once."""

    def __post_init__(self) -> None:
        for name in ("times", "first_wait", "longest_wait", "longest_retry_after"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not value >= 0:
                raise UsageError(f"`Retries({name}=...)` wants a number from 0, got {value!r}.")

    def retrying(self, note: Callable[[Failure, int, float], None]) -> AsyncRetrying:
        """A tenacity loop for one call; at the end it raises the last `AttemptFailed`.

        `note` is told of every retry: the failure, the attempts so far, the seconds to wait.
        """
        import tenacity

        def before_sleep(state: RetryCallState) -> None:
            assert state.next_action is not None
            note(_failure(state), state.attempt_number, state.next_action.sleep)

        return tenacity.AsyncRetrying(
            sleep=self.sleep,
            stop=tenacity.stop_after_attempt(int(self.times) + 1),
            wait=lambda state: self._wait(_failure(state), state.attempt_number),
            retry=tenacity.retry_if_exception(self._is_worth_it),
            before_sleep=before_sleep,
            reraise=True,
        )

    def _wait(self, failure: Failure, attempts: int) -> float:
        wait = min(self.first_wait * 2.0 ** (attempts - 1), self.longest_wait)
        return max(wait, failure.retry_after or 0.0) * random.uniform(1.0, 1.0 + _SPREAD)

    def _is_worth_it(self, error: BaseException) -> bool:
        if not isinstance(error, AttemptFailed):
            return False
        failure = error.failure
        return failure.passing and (failure.retry_after or 0.0) <= self.longest_retry_after


def _failure(state: RetryCallState) -> Failure:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, AttemptFailed)
    return error.failure
