"""Who takes part in an evaluation: teams, single agents, and several attempts of one agent.

Invariant: best-of-n and the vote are made of runs of the single agent that were really played and
paid for. Its runs are cut into blocks of n, and a block is one attempt; no run is in two blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rolecraft.environments.task import Task
from rolecraft.experiments.runs import Played
from rolecraft.experiments.variant import Variant
from rolecraft.failure_taxonomy.goals import Goal
from rolecraft.roles.ready.answers import exact_value, final_answer, is_none
from rolecraft.roles.remedies.voting import majority
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.jsonl import load

Form = Literal[
    "team",  # the scenario as it is
    "single",  # one agent on the same tasks
    "best-of-n",  # the best of n runs of it by the hidden measure: what no selector can exceed
    "vote",  # that of n runs of it whose answer most of them give
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One that is compared. `variant` is what is played for it, in blocks of `n` runs."""

    name: str
    scenario: str
    """Whose tasks they are."""
    model: str
    form: Form
    variant: Variant
    tasks: Sequence[Task]
    n: int = 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task; of best-of-n, n runs."""

    task: str
    number: int
    """From 1."""
    score: float | None
    """None while one of its runs is not over."""
    usage: Usage
    """`usd` is None where a price is unknown."""
    seconds: float | None
    """Wall time, of several runs their sum; None where it was not taken in one piece."""
    stops: Sequence[str] = field(default=())
    """How its runs ended."""


def attempts_of(entry: Entry, played: Sequence[Played], attempts: int) -> list[Attempt]:
    """The attempts of an entry, `attempts` at each task."""
    by_task: dict[str, list[Played]] = {}
    for each in sorted(played, key=lambda each: each.run.repetition):
        by_task.setdefault(each.run.task.id, []).append(each)
    found = []
    for task in entry.tasks:
        runs = by_task.get(task.id, [])
        for number in range(attempts):
            block = runs[number * entry.n : (number + 1) * entry.n]
            found.append(_attempt(entry, task, number + 1, block))
    return found


def _attempt(entry: Entry, task: Task, number: int, block: Sequence[Played]) -> Attempt:
    score = None
    if len(block) == entry.n and all(each.over for each in block):
        score = _CHOOSE[entry.form](block).score
    usage = Usage(calls=0, usd=0.0)
    for each in block:
        usage = usage + each.usage
    if any(each.usage.usd is None for each in block):
        usage.usd = None
    taken = [each.seconds for each in block if each.seconds is not None]
    seconds = sum(taken) if taken and len(taken) == len(block) else None
    return Attempt(task.id, number, score, usage, seconds, [each.stop for each in block])


def _best(block: Sequence[Played]) -> Played:
    return max(block, key=lambda each: each.score or 0.0)


def _voted(block: Sequence[Played]) -> Played:
    """The first of those whose answer most give; the first of all where nobody gives one."""
    answers = [answer_of(each) for each in block]
    winner = majority(answers).winner
    return block[answers.index(winner)] if winner is not None else block[0]


_CHOOSE: dict[Form, Callable[[Sequence[Played]], Played]] = {
    "team": lambda block: block[0],
    "single": lambda block: block[0],
    "best-of-n": _best,
    "vote": _voted,
}


def answer_of(played: Played) -> Hashable | None:
    """The answer that a run commits itself to, by its exact value where it is a number.

    None where it gives none, and where the header does not say who gives the answer.
    """
    trajectory = load(played.run.journal)
    who = Goal.of(trajectory.about).answer
    if not who:
        return None
    said = [
        answer
        for event in trajectory.of("message")
        if (who is True or event.role == who)
        and (answer := final_answer(event.content)) is not None
    ]
    if not said:
        return None
    value = exact_value(said[-1])
    if value is not None:
        return value
    return "none" if is_none(said[-1]) else said[-1].casefold()
