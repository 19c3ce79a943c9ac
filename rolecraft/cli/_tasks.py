"""Which task of a scenario `--task` means, and which one a journal is of."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.cli._exits import CommandLineError
from rolecraft.errors import UsageError
from rolecraft.trajectories import load
from rolecraft.trajectories.in_words import one_line

if TYPE_CHECKING:
    from rolecraft.environments import Task
    from rolecraft.environments.task import Split
    from rolecraft.scenarios import Scenario

_DRAWN = 1000
"""So many tasks of each split are looked through: most sources have no end."""
_SHOWN = 5
_LONGEST = 200
"""Characters of a prompt that is compared with what was asked for."""


DRAWN_FROM = "scenario"
"""In the header of a run that `rolecraft run` played: the scenario, and what seed drew the task."""


def choose_task(
    scenario: Scenario,
    wanted: str | None,
    seed: int,
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> Task:
    """The task with this id or prompt, or without one the first that `seed` draws.

    It is drawn for test; where no task is, for training, and `tell` gets a sentence that says so.
    Raises `CommandLineError` that names the nearest task and a few others.
    """
    if wanted is None:
        try:
            return scenario.tasks.sample(1, seed=seed, split="test")[0]
        except UsageError as no_test:
            try:
                drawn_one = scenario.tasks.sample(1, seed=seed, split="train")[0]
            except UsageError:
                raise no_test from None
        tell(f"No task of `{scenario.name}` is for test: `{drawn_one.id}`, for training, is drawn.")
        return drawn_one
    drawn: list[Task] = []
    for found in _drawn(scenario, seed):
        drawn += found
        for task in found:
            if wanted in (task.id, task.prompt):
                return task
    raise CommandLineError(_unknown(scenario, wanted, drawn, seed))


def recorded_task(scenario: Scenario, journal: Path, seed: int | None) -> tuple[Task, int]:
    """The task that a run in a journal is of, and the seed that drew it.

    That seed is in the journal of `rolecraft run`; for those of others `seed` says it, or it is 0.
    Raises `TraceError` for what is no journal, `CommandLineError` with the way out where the
    scenario does not have the task.
    """
    about = load(journal).about
    task = about.get("task")
    if not isinstance(task, dict) or "id" not in task:
        raise CommandLineError(
            f"`{journal}` is of no task of a scenario. Name the team or role whose run it is."
        )
    drawn_from = about.get(DRAWN_FROM) or {}
    name = drawn_from.get("name", scenario.name)
    if name != scenario.name:
        raise CommandLineError(
            f"The run in `{journal}` is of scenario `{name}`, not `{scenario.name}`: name that one."
        )
    if "seed" in drawn_from and seed not in (None, drawn_from["seed"]):
        raise CommandLineError("`--resume` goes on as the run began: leave `--seed` out.")
    seed = drawn_from.get("seed", seed or 0)
    for found in _drawn(scenario, seed):
        for each in found:
            if each.id == task["id"]:
                if each.prompt != task.get("prompt"):
                    raise CommandLineError(
                        f"Task `{each.id}` has another prompt than when `{journal}` was written, "
                        f"so nothing of that run can be gone on with: run it anew."
                    )
                return replace(each, seed=about.get("seed", each.seed)), seed
    raise CommandLineError(
        f"The run in `{journal}` is of task `{task['id']}`, which is not among those that scenario "
        f"`{scenario.name}` draws with seed {seed}. If another seed drew it, say which: `--seed N`."
        f" A run of a rollout or an evaluation goes on with the command that wrote it."
    )


def _drawn(scenario: Scenario, seed: int) -> Iterator[list[Task]]:
    """Tasks of one split after the other. Raises what the source does if there are none at all.

    A single one, as it is drawn without `--task`, comes first: to draw one need not give the first
    of many.
    """
    splits: tuple[tuple[Split, int], ...] = (
        *(("test", 1), ("test", _DRAWN)),
        *(("train", 1), ("train", _DRAWN)),
    )
    empty: UsageError | None = None
    some = False
    for split, count in splits:
        try:
            found = scenario.tasks.sample(count, seed=seed, split=split)
        except UsageError as error:  # a few tasks may all be of the other split
            empty = error
            continue
        some = some or bool(found)
        yield found
    if empty is not None and not some:
        raise empty


def _unknown(scenario: Scenario, wanted: str, drawn: list[Task], seed: int) -> str:
    """What is wrong, the nearest task by id or prompt, and a few that there are."""
    from rolecraft.trajectories.in_words import count

    ids = list(dict.fromkeys(task.id for task in drawn))
    names = {task.id.lower(): task.id for task in drawn}
    names |= {t.prompt.lower(): t.id for t in drawn if len(t.prompt) <= _LONGEST}
    near = [names[name] for name in difflib.get_close_matches(wanted.lower(), names, n=1)]
    listed = ", ".join(f"`{each}`" for each in [*near, *(i for i in ids if i not in near)][:_SHOWN])
    meant = f" Did you mean `{near[0]}`?" if near else ""
    if len(ids) <= _DRAWN // 2:  # fewer than were asked for: these are all
        there = f" It has {count(len(ids), 'task')}: {listed}{', …' if len(ids) > _SHOWN else ''}."
    else:
        there = f" Of the {len(ids):,} that seed {seed} draws, some are {listed}."
    return (
        f"Scenario `{scenario.name}` has no task with the id or prompt "
        f"{one_line(wanted, 80)!r}.{meant}{there} Leave --task out to draw one."
    )
