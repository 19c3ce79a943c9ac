r"""Shaping by potentials: progress is credited step by step, and what is best stays best.

A potential Phi says how far a state is on its way. The step from s to s' is credited with

    F(s, s') = gamma * Phi(s') - Phi(s)

(Ng, Harada and Russell 1999). The discounted sum over an episode telescopes,

    sum_t gamma^t F(s_t, s_{t+1}) = gamma^T Phi(s_T) - Phi(s_0),

and the potential of the end is 0 by definition, whatever was measured there; so all episodes from
one state get the same, -Phi(s_0), and no policy gains by it. A detour that raises a potential and
lowers it again earns nothing.

That holds of the whole team, or of a role whose own steps are all that was measured. Where several
roles take steps, each is credited with its own, and only their sum is the same: a role that hands
over a high potential gains what the next one loses by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rolecraft.errors import UsageError
from rolecraft.rewards.breakdown import StepShare
from rolecraft.rewards.reward import Reward, name_of
from rolecraft.rewards.signals import MissingSignal, Signals, as_number


@dataclass(frozen=True, slots=True)
class Potential(Reward):
    """Credits steps by a potential: the name of a signal, or a function of the signals so far.

        solved + Potential("tests.share", gamma=0.99)

    A step is an event that the signal was measured of (for a function or a reward, any signal). Its
    credit stands in `RewardBreakdown.steps`, discounted to the episode's start and times what the
    potential counts in the whole reward, with the role of the last signal of that step; the share
    `potential:NAME` is -`start`, the same for every episode. `start` is the potential before the
    first measurement; `gamma` is the discount, in (0, 1].
    """

    phi: str | Reward | Callable[[Signals], float]
    gamma: float = 1.0
    start: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise UsageError(f"`Potential(gamma={self.gamma!r})` wants a discount in (0, 1].")

    @property
    def label(self) -> str:
        if isinstance(self.phi, Reward):
            return f"potential:{self.phi.label}"
        return f"potential:{self.phi if isinstance(self.phi, str) else name_of(self.phi)}"

    def shares(self, signals: Signals) -> dict[str, float]:
        if isinstance(self.phi, str):
            signals.note(self.label, [self.phi])
        seen = list(self._measured(signals))
        potentials = [self.start, *(value for _, _, value in seen)]
        if seen:
            potentials[-1] = 0.0  # the end
        credits_ = telescoping(potentials, gamma=self.gamma)
        for (event, role, _), credit in zip(seen, credits_, strict=True):
            signals.note_step(StepShare(event, self.label, credit, role))
        return {self.label: 0.0 - self.start}

    def _measured(self, signals: Signals) -> Iterator[tuple[int, str, float]]:
        """Event, role and potential of each step, in order; those without a measurement are none.

        Several signals of one step make one potential, that after the last of them.
        """
        measured = [
            (count, each.step, each)
            for count, each in enumerate(signals.log, 1)
            if each.step is not None and (not isinstance(self.phi, str) or each.name == self.phi)
        ]
        for at, (count, step, last) in enumerate(measured):
            if at + 1 < len(measured) and measured[at + 1][1] == step:
                continue
            value = last.value if isinstance(self.phi, str) else self._of(signals, count)
            if value is not None:
                yield step, last.role, value

    def _of(self, signals: Signals, count: int) -> float | None:
        """What the function or reward says after so many signals; None where it lacks one."""
        so_far = signals.until(count)
        try:
            if isinstance(self.phi, Reward):
                return self.phi.value(so_far)
            assert not isinstance(self.phi, str)
            return as_number(self.label, self.phi(so_far))
        except MissingSignal:  # too early to say
            return None
        finally:
            signals.note(self.label, so_far.read)


def telescoping(potentials: Sequence[float], *, gamma: float = 1.0) -> list[float]:
    """The credit of each of the T steps between T + 1 states: gamma^t * F(s_t, s_{t+1})."""
    return [
        gamma**t * (gamma * after - before)
        for t, (before, after) in enumerate(pairwise(potentials))
    ]
