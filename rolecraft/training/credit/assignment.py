"""From episodes with rewards to sequences with advantages: the only place that makes them.

    sort out  what the team did from what was done to it
    earn      which role earned what, at which turn, less what talk and length cost
    compare   with the others of its group, or with what a critic expected
    whiten    over the batch
    blame     move advantage to the turns that failures are attributed to

Invariant: only actions are credited, each in the turn that it belongs to; tokens that were given
have advantage 0 and change nobody else's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from rolecraft.environments.task import Task
from rolecraft.errors import UsageError
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.algorithms.whitening import whiten
from rolecraft.training.credit.attempts import (
    Attempt,
    Played,
    attempts_of,
    charge_length,
    charge_waste,
    sorted_out,
)
from rolecraft.training.credit.compare import Compared, compare
from rolecraft.training.credit.critics import RoleCritic, TeamCritic, by_episode
from rolecraft.training.credit.ema import CreditState, Ema
from rolecraft.training.credit.faults import Blamed, apply_blame, detected
from rolecraft.training.credit.scored import Scored
from rolecraft.training.credit.settings import Credit
from rolecraft.training.credit.tokens import charge_kl, credit_tokens
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.trajectories.events import FailureFinding

References = Callable[[Sequence[TrainingSequence]], Sequence[Sequence[float]]]
"""From sequences to the reference policy's log-probability of each of their tokens."""


def assign(
    episodes: Sequence[Played],
    algorithm: Algorithm,
    *,
    credit: Credit | None = None,
    state: CreditState | None = None,
    without: Sequence[Mapping[str, float]] | None = None,
    findings: Sequence[Iterable[FailureFinding]] | None = None,
    critic: RoleCritic | TeamCritic | None = None,
    reference: References | None = None,
) -> Scored:
    """The token sequences of `episodes` with their advantages.

    Roles whose model recorded no tokens are absent. `state` is what the call before returned
    (`Scored.state`); it is not changed. Of each episode, `without` says what the team is worth
    without each role (`play_without`), and `findings` what was found about its failures; without
    them `Credit.blame` asks the detectors. `critic` says what states are worth, for
    `advantage="gae"`; `reference` gives log-probabilities, for a `k1` penalty.

    Raises `UsageError` for settings that cannot go together, and for what they need and was not
    given.
    """
    credit = credit or Credit()
    credit.check(algorithm)
    for name, given in (("without", without), ("findings", findings)):
        if given is not None and len(given) != len(episodes):
            raise UsageError(
                f"`assign({name}=...)` has one entry an episode, got {len(given)} for "
                f"{len(episodes)} episodes."
            )
    played, refill, ungraded = sorted_out(episodes, credit.ungraded)
    attempts: list[Attempt] = []
    unscored: list[str] = []
    placed = Counter(dict.fromkeys(credit.steps, 0))
    for number, episode in played:
        outcome = without[number] if without is not None else None
        found, left_out = attempts_of(number, episode, credit, outcome, placed)
        attempts += found
        unscored += left_out
    sequences = [sequence for attempt in attempts for sequence in attempt.sequences]
    wasted = charge_waste(attempts, credit)
    charge_length(attempts, algorithm.overlong)
    charge_kl(attempts, algorithm.kl, reference(sequences) if reference is not None else None)
    attempts = _finite(attempts, unscored, lambda attempt: [attempt.reward])
    compared = _advantages(attempts, algorithm, credit, critic, state or CreditState())
    attempts = _finite(attempts, unscored, _all_advantages)
    sequences = [sequence for attempt in attempts for sequence in attempt.sequences]
    _whiten(sequences, algorithm, credit)
    blamed = _blame(attempts, credit, findings)
    silent = _silent(attempts)
    if algorithm.dynamic_sampling:
        names = {task.id for task in silent}
        telling = [attempt for attempt in attempts if attempt.task.id not in names]
        sequences = [sequence for attempt in telling for sequence in attempt.sequences]
    return Scored(
        sequences=sequences,
        unscored=unscored,
        ungraded=ungraded,
        groups=compared.groups,
        silent_groups=compared.silent,
        silent_tasks=silent,
        refill=refill,
        shares=_shares(sequences),
        placed={name: placed[name] for name in credit.steps},
        wasted=wasted,
        blamed=blamed,
        state=compared.state,
    )


def _finite(
    attempts: Sequence[Attempt],
    unscored: list[str],
    numbers: Callable[[Attempt], Iterable[float]],
) -> list[Attempt]:
    """The attempts whose numbers are finite; the names of the others are added to `unscored`.

    One that is not would spoil its whole group, or when it is whitened the batch.
    """
    sound: list[Attempt] = []
    for attempt in attempts:
        if all(map(isfinite, numbers(attempt))):
            sound.append(attempt)
        else:
            unscored.append(attempt.name)
    return sound


def _all_advantages(attempt: Attempt) -> Iterable[float]:
    return (value for sequence in attempt.sequences for value in sequence.advantages)


def _advantages(
    attempts: Sequence[Attempt],
    algorithm: Algorithm,
    credit: Credit,
    critic: RoleCritic | TeamCritic | None,
    state: CreditState,
) -> Compared:
    if algorithm.compares_groups or isinstance(credit.baseline, Ema):
        return compare(attempts, algorithm, credit, state)
    credit_tokens(attempts, algorithm, credit, critic)
    return Compared(0, 0, state)


def _whiten(sequences: Sequence[TrainingSequence], algorithm: Algorithm, credit: Credit) -> None:
    if not (algorithm.whiten or credit.whiten):
        return
    batches: dict[str, list[TrainingSequence]] = {}
    for sequence in sequences:
        batches.setdefault(sequence.role if credit.whiten else "", []).append(sequence)
    centre = not algorithm.compares_groups and not isinstance(credit.baseline, Ema)
    for batch in batches.values():
        white = whiten(
            [sequence.advantages for sequence in batch],
            [sequence.action_mask for sequence in batch],
            centre=centre,
        )
        for sequence, advantages in zip(batch, white, strict=True):
            sequence.advantages = advantages


def _blame(
    attempts: Sequence[Attempt],
    credit: Credit,
    findings: Sequence[Iterable[FailureFinding]] | None,
) -> Blamed | None:
    if credit.blame is None:
        return None
    found = Blamed()
    for team in by_episode(attempts):
        said = (
            findings[team[0].number]
            if findings is not None
            else detected(team[0].episode.trajectory)
        )
        apply_blame(team, said, credit.blame, found)
    return found


def _silent(attempts: Sequence[Attempt]) -> list[Task]:
    tasks: dict[str, Task] = {}
    telling: set[str] = set()
    for attempt in attempts:
        tasks.setdefault(attempt.task.id, attempt.task)
        if attempt.task.id not in telling and any(any(s.advantages) for s in attempt.sequences):
            telling.add(attempt.task.id)
    return [task for name, task in tasks.items() if name not in telling]


def _shares(sequences: Sequence[TrainingSequence]) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for sequence in sequences:
        size = sum(map(abs, sequence.advantages))
        sizes[sequence.role] = sizes.get(sequence.role, 0.0) + size
    total = sum(sizes.values())
    return {role: size / total if total else 0.0 for role, size in sizes.items()}
