"""The scenarios that commands know by name, and how a command finds one."""

from __future__ import annotations

from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._target import as_runnable, load_target
from rolecraft.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rolecraft.environments import Task, Team
    from rolecraft.environments.task import Split, TaskSource
    from rolecraft.models import Model
    from rolecraft.scenarios import Scenario

SCENARIOS = {
    "relay": "relay",
    "maths_chat": "maths_chat",
    "maths_prompt": "maths_chat",
    "maths_team": "maths_chat",
    "maths_voting": "maths_chat",
    "programmer": "software_company",
    "software_company": "software_company",
    "software_company_cyclic": "software_company",
    "software_engineering": "software_engineering",
    "rehearsal": "software_engineering",
    "web_research": "web_research",
    "debate": "debate",
    "panel": "debate",
    "tutorial": "tutorial",
}
"""Scenarios that come with Rolecraft, and their modules in `rolecraft.scenarios`.

`rehearsal` is the one whose stand-in knows the solutions: it needs no model.
"""


_FIRST = 1000
"""So many tasks are drawn at first: there may be fewer, and what has no end takes its time."""
_MORE = 4
"""Where some were repeated, so many times as many are drawn next."""
_MOST = 8
"""A source that repeats itself is asked for at most so many times what is wanted."""
_SPLITS: tuple[Split, ...] = ("train", "test")


def find_scenario(name: str, done: str) -> Scenario:
    """A scenario of ours by its name, or one of the user's; `done` says what becomes of it.

    Raises `CommandLineError` if there is none.
    """
    from rolecraft.scenarios import Scenario

    if name in SCENARIOS:
        module = import_module(f"rolecraft.scenarios.{SCENARIOS[name]}")
        found = as_runnable(getattr(module, name), name)
    elif ":" in name or name.endswith(".py"):
        found = load_target(name)
    else:
        hint = "Or write FILE.py:NAME for one of your own."
        raise CommandLineError(str(UnknownName("Scenario", name, SCENARIOS, hint=hint)))
    if not isinstance(found, Scenario):
        raise CommandLineError(
            f"`{name}` is a team, {_members(found)}; only a `Scenario` can be {done}: it has "
            f"tasks, and a reward that says how well they were done."
        )
    return found


def _members(team: Team) -> str:
    names = ", ".join(f"`{name}`" for name in team.roles) or "nobody"
    return f"of {names}"


def untrained_model(scenario: Scenario, given: Model | None, seed: int) -> Model | None:
    """The scenario's untrained model, if it has one and nobody says who plays."""
    if given is not None or scenario.models is not None or scenario.untrained is None:
        return None
    return scenario.untrained(seed)


def check_has_model(scenario: Scenario, given: Model | None, per_role: Container[str]) -> None:
    """Raise `CommandLineError` where a `CodeAct` role, who can do nothing without one, has no
    model; of other roles nobody knows before whether they ask.
    """
    from rolecraft.roles.ready.codeact import CodeAct

    if given is not None or scenario.models is not None or scenario.untrained is not None:
        return
    for role in scenario.team():
        if type(role) is CodeAct and role.model is None and role.name not in per_role:
            raise CommandLineError(
                f"Role {role.name!r} of scenario `{scenario.name}` asks a model and has none: say "
                f"which, `--model MODEL`."
            )


def different_tasks(
    scenario: Scenario, count: int, seed: int, splits: Sequence[Split]
) -> list[Task]:
    """At most `count` tasks of these splits, none twice; of several splits by turns.

    Raises `CommandLineError` if there are none, with the split that has some.
    """
    found: list[list[Task]] = []
    empty: UsageError | None = None
    for split in splits:
        try:
            found.append(_of_split(scenario.tasks, count, seed, split))
        except UsageError as error:  # a few tasks may all be of the other split
            empty = error
    tasks = {task.id: task for row in zip_longest(*found) for task in row if task is not None}
    if tasks:
        return [*tasks.values()][:count]
    others = [each for each in _SPLITS if each not in splits and has_tasks(scenario, each, seed)]
    if others:
        raise CommandLineError(
            f"`{scenario.name}` has no tasks for `{splits[0]}`, and has some for `{others[0]}`: "
            f"write `--split {others[0]}`."
        ) from empty
    if empty is not None:
        raise empty
    raise CommandLineError(f"`{scenario.name}` has no tasks.")


def has_tasks(scenario: Scenario, split: Split, seed: int = 0) -> bool:
    """Whether a scenario has a task in this split."""
    try:
        return bool(scenario.tasks.sample(1, seed=seed, split=split))
    except UsageError:
        return False


def _of_split(source: TaskSource, count: int, seed: int, split: Split) -> list[Task]:
    """The different tasks among those that a source draws; it may repeat the few that it has."""
    asked, before = min(count, _FIRST), -1
    while True:
        drawn = source.sample(asked, seed=seed, split=split)
        tasks: dict[str, Task] = {}
        for task in drawn:
            tasks.setdefault(task.id, task)
        all_there = len(tasks) == before or len(drawn) < asked
        if len(tasks) >= count or all_there or asked >= _MOST * count:
            return [*tasks.values()]
        before, asked = len(tasks), min(_MOST * count, _MORE * asked)
