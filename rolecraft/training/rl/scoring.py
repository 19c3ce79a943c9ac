"""A step's credit: from what was played to sequences with advantages, with all that it needs.

A critic's values and the reference's log-probabilities come from the trainer, what a team is worth
without a role from further episodes; `assign` says the rest. With dynamic sampling, tasks whose
attempts all earned the same are made up for by others, a bounded number of times.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from rolecraft.models.base import Model
from rolecraft.models.chance import UniformModel
from rolecraft.models.limits import Limits
from rolecraft.scenarios import Episode, Scenario
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.credit.assignment import assign
from rolecraft.training.credit.counterfactual import play_without
from rolecraft.training.credit.ema import CreditState
from rolecraft.training.credit.scored import Scored
from rolecraft.training.credit.settings import Credit
from rolecraft.training.policy.policy import Policy
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.training.rl.learner import Learner
from rolecraft.training.rl.playing import Played
from rolecraft.training.rl.sources import Source

DYNAMIC_ROUNDS = 4
"""How often further tasks are played for those that say nothing, in one step."""


class Scorer:
    """Gives credit step after step; `state` is what it remembers between them.

    Episodes without a role are played as the others are: within `limits`, `live` at once.
    """

    def __init__(
        self,
        scenario: Scenario,
        learner: Learner,
        credit: Credit | None,
        *,
        model: Model,
        frozen: Sequence[str] = (),
        limits: Limits | None = None,
        live: int | None = None,
    ) -> None:
        self._scenario, self._learner, self._model = scenario, learner, model
        self.credit = credit or Credit()
        self.credit.check(learner.trainer.algorithm)
        names = [role.name for role in scenario.team()]
        self._roles = [name for name in names if name not in frozen]
        self._frozen = {name: UniformModel() for name in frozen}
        self._limits, self._live = limits, live or 256
        self._without: list[Mapping[str, float]] = []
        """What the team is worth without each role, of the step's episodes so far."""
        self.state = CreditState()

    async def score(self, source: Source, step: int, played: Played) -> Scored:
        """The credit of a step; further episodes that it took are added to `played`."""
        algorithm, before = self._learner.trainer.algorithm, self.state
        self._without = []
        scored = await self._assign(played.episodes, algorithm, before)
        wanted = _tasks(played)
        for number in range(1, DYNAMIC_ROUNDS + 1):
            missing = wanted - (_tasks(played) - len(scored.silent_tasks))
            if not algorithm.dynamic_sampling or missing < 1:
                break
            further = await source.more(step, missing, number)
            if not further.rollouts:
                break
            played.add(further)
            scored = await self._assign(played.episodes, algorithm, before)
        self.state = scored.state
        return scored

    async def _assign(
        self, episodes: Sequence[Episode], algorithm: Algorithm, state: CreditState
    ) -> Scored:
        without: list[Mapping[str, float]] | None = None
        if self.credit.reward == "counterfactual":
            self._without += await play_without(
                self._scenario,
                episodes[len(self._without) :],  # further ones come behind those that are known
                model=self._model,
                role_models=self._frozen,
                roles=self._roles,
                concurrency=self._live,
                limits=self._limits,
            )
            without = self._without
        trainer = self._learner.trainer
        in_reward = algorithm.kl is not None and algorithm.kl.estimator == "k1"

        def work() -> Scored:
            return assign(
                episodes,
                algorithm,
                credit=self.credit,
                state=state,
                without=without,
                critic=trainer.value if algorithm.critic is not None else None,
                reference=trainer.reference_logprobs if in_reward else None,
            )

        if algorithm.critic is not None or in_reward:
            return await self._learner.think(work)
        return work()


def _tasks(played: Played) -> int:
    """How many different ones were played."""
    return len({rollout.item.id for rollout in played.rollouts})


def unplaced(scored: Scored, episodes: Sequence[Episode]) -> dict[str, str]:
    """The names in `Credit.steps` of which no signal was placed at a turn, each with why."""
    signals = [signal for episode in episodes for signal in episode.trajectory.signals]
    known = {signal.name for signal in signals}
    found = {}
    for name, placed in scored.placed.items():
        if placed or not episodes:
            continue
        why = "has it with the `step` of a turn that is trained."
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            why = f"has it; did you mean {near[0]!r}?" if near else "has it."
        found[name] = (
            f"`Credit(steps=...)`: the signal {name!r} moves no reward: none of {len(episodes)} "
            f"episodes {why}"
        )
    return found


def says_something(sequences: Sequence[TrainingSequence], policy: Policy) -> bool:
    """Whether an update would follow anything but momentum.

    Where every group's attempts earned the same there is nothing to learn, and weights and
    optimiser stay as they are; an entropy bonus, a penalty and a critic learn all the same.
    """
    algorithm = policy.algorithm
    if any(policy.kl(sequence.role) for sequence in sequences):  # roles may have their own
        return True
    if algorithm.entropy or algorithm.kl is not None or algorithm.critic is not None:
        return True
    credited = any(any(sequence.advantages) for sequence in sequences)
    # A step without any action is told by the trainer, with the way out.
    return credited or not any(any(sequence.action_mask) for sequence in sequences)
