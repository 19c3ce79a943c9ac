"""What a judge thinks, as a reward: a fallback where nothing can be measured.

An opinion is never grounded. Its share is named `opinion:NAME` and stands in the breakdown's
`ungrounded`; it is logged as a signal whose source is `judge:MODEL`. Unless `most` says otherwise
it pays at most a tenth, so that beside a grounded part it cannot make failing pay; and where the
judge gave no answer that can be read there is no share at all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rolecraft.errors import UsageError
from rolecraft.models.base import Model
from rolecraft.rewards.measured import Measured, Played
from rolecraft.rewards.reward import Reward
from rolecraft.rewards.signals import Signals
from rolecraft.trajectories.events import Signal
from rolecraft.trajectories.trajectory import Trajectory

MOST = 0.1
"""What an opinion pays at most, unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Opinion(Measured):
    """A judge's points for a run by a criterion, from 0 to `most`.

        solved + Opinion("clear", "openai/o3", criterion="A beginner understands the answer.")

    It is asked once, after the run. Rescoring reads its answer; `ask_judges` asks about stored
    runs. `seed` makes what it is shown, and sampling where the model supports it, repeatable.
    """

    name: str
    model: Model | str
    criterion: str
    most: float = MOST
    seed: int = 0
    afterwards = True

    def __post_init__(self) -> None:
        if not self.most >= 0:
            raise UsageError(f"`Opinion(most={self.most!r})` wants a bound from 0.")

    @property
    def label(self) -> str:
        return f"opinion:{self.name}"

    @property
    def signal(self) -> str:
        return f"opinion.{self.name}"

    def shares(self, signals: Signals) -> dict[str, float]:
        given = [each for each in signals.log if each.name == self.signal]
        if not given or not 0 <= given[-1].value <= 1:
            return {}
        signals.note(self.label, [self.signal])
        return {self.label: self.most * given[-1].value}

    def __mul__(self, factor: float) -> Reward:
        raise UsageError(
            f"How much the opinion {self.name!r} may pay is its own to say: write "
            f"`Opinion({self.name!r}, ..., most={factor!r})` instead of a factor."
        )

    __rmul__ = __mul__

    async def measure(self, played: Played) -> Signal | None:
        """Ask the judge. None if it gave no answer that can be used."""
        from rolecraft.rewards.asking import points_of  # pydantic, which scoring never needs

        points = await points_of(self.model, self.criterion, played.run, seed=self.seed)
        return None if points is None else self._signal(points)

    def _signal(self, points: float) -> Signal:
        name = self.model if isinstance(self.model, str) else self.model.name
        return Signal(self.signal, points, source=f"judge:{name}")


class Ranking(Opinion):
    """A judge compares the runs of a group with each other, and gives each points for it.

    One question for a whole group, as RULER does (OpenPipe's ART): `rank(reward, runs)` asks it and
    adds the opinions to the runs, which have none before. Runs are shown in an order drawn by
    `seed`, since judges favour what they read first.
    """

    __slots__ = ()
    afterwards = False

    async def measure(self, played: Played) -> Signal | None:
        """None: one run alone cannot be compared."""
        return None


async def rank(reward: Reward, runs: Sequence[Trajectory]) -> None:
    """Have the judges of a reward's rankings compare runs at one task; what they say is `reported`.

    A run that has such an opinion is not asked about again, and keeps the others from it: then the
    whole group keeps what it has. Where the answer cannot be read nobody gets an opinion, and where
    a judge's model raises nobody gets any of another judge either: `reported` is as it was.
    """
    from rolecraft.rewards.asking import points_of_all

    rankings = {each.signal: each for each in reward.tree() if isinstance(each, Ranking)}
    said: list[tuple[Trajectory, Signal]] = []
    for name, each in rankings.items():
        if len(runs) < 2 or any(name in {s.name for s in run.signals} for run in runs):
            continue
        order = random.Random(each.seed).sample(range(len(runs)), len(runs))
        points = await points_of_all(each.model, each.criterion, runs, order=order, seed=each.seed)
        for run, value in zip(runs, points or (), strict=bool(points)):
            said.append((run, each._signal(value)))
    for run, signal in said:
        run.reported.append(signal)


def unheard(reward: Reward, runs: Sequence[Trajectory]) -> list[str]:
    """The names of opinions that this reward wants and a run has not, once for each such run.

    `runs` are at one task and their judges were asked: what is missing could not be read. One run
    alone lacks no `Ranking`.
    """
    wanted = {each.signal: each for each in reward.tree() if isinstance(each, Opinion)}
    return [
        each.name
        for run in runs
        for each in wanted.values()
        if each.signal not in {signal.name for signal in run.signals}
        and (len(runs) > 1 or not isinstance(each, Ranking))
    ]
