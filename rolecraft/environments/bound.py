"""How many rounds a run may play: what the caller, the limits, and, without either, a default say.

Two roles that watch each other go on for ever. Where nobody has bounded a run, it may play
`DEFAULT_ROUNDS`, and the error at their end says what to do. That is more than any run needs that
asks models, 10,000 rounds of a second are three hours, and little enough that roles which ask
nobody are stopped within seconds and with a record of a few megabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.errors import EndlessRun, LimitReached, UsageError
from rolecraft.roles import crossing
from rolecraft.trajectories.events import Event, Usage

if TYPE_CHECKING:
    from rolecraft.environments.environment import Environment
    from rolecraft.models.limits import Crossing, Decision

DEFAULT_ROUNDS = 10_000
"""What one `run` may play where neither it nor the limits say how many rounds."""


def check_rounds(rounds: object) -> None:
    """Raise `UsageError` for what is no number of rounds, nor None."""
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int)):
        raise UsageError(f"`rounds` is {rounds!r}, expected a whole number: `run(rounds=3)`.")


class Bound:
    """The bound of one `run` of an environment; `rounds` is what its caller asks for."""

    def __init__(self, env: Environment, rounds: int | None) -> None:
        check_rounds(rounds)
        self._env = env
        self._asked = None if rounds is None else env.rounds + rounds
        self._default = env.rounds + DEFAULT_ROUNDS

    @property
    def _limit(self) -> float | None:
        env = self._env
        limits = env.budget.limits if env.budget is not None else env.limits
        return limits.rounds if limits is not None else None

    @property
    def last(self) -> float:
        """The number of the last round that may be played."""
        asked, limit = self._asked, self._limit
        if asked is None:
            return self._default if limit is None else limit
        return asked if limit is None else min(asked, limit)

    async def raised(self) -> bool:
        """After that round: whether more may be played, because `on_limit` gave more.

        Raises `EndlessRun` at the default bound, and `LimitReached` if `on_limit` says so.
        """
        env, limit = self._env, self._limit
        if self._asked is None and limit is None:
            raise self._endless()
        if limit is None or env.rounds < limit or env.budget is None:
            return False
        if not callable(env.budget.limits.on_limit):
            return False  # its own stop reason, `rounds`, says it
        try:
            await env.budget.cross("rounds", env.rounds, _waiting(env), note=self._note)
        except LimitReached as error:
            if error.decision == "stop":
                return False
            raise
        return True

    def _note(self, crossed: Crossing, decision: Decision, usage: Usage | None) -> None:
        event: Event | None = crossing.goes_on(crossed, decision)
        if event is not None:
            self._env.record(event)

    def _endless(self) -> EndlessRun:
        return EndlessRun(
            f"{DEFAULT_ROUNDS} rounds were played and {_waiting(self._env)}. Roles that take up "
            f"each other's messages go on for ever: let one of them say nothing, or return a "
            f"message with `send_to=rolecraft.messages.NOBODY`, or end the run with the action "
            f"`Finish`; or bound it, `Limits(rounds=...)` or `run(rounds=...)`, with a higher "
            f"number if it needs more.",
            limit="rounds",
            allowed=DEFAULT_ROUNDS,
            used=DEFAULT_ROUNDS,
        )


def _waiting(env: Environment) -> str:
    names = [repr(name) for name, role in env.roles.items() if role.rc.inbox]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} still {'has' if len(names) == 1 else 'have'} messages"
