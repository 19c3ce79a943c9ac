"""What an experiment consists of, kept beside its runs so that it can be gone on with.

Invariant: one folder is one experiment. Runs in it are of one model, one seed and the tasks that
were written down; more repetitions, variants or tasks may be added later, nothing may be changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rolecraft.environments.task import Task
from rolecraft.errors import UsageError
from rolecraft.experiments.runs import Run, file_name
from rolecraft.experiments.variant import Variant
from rolecraft.trajectories.whole_file import write_whole

PLAN = "experiment.json"
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Plan:
    """Every variant on every task, `repetitions` times, in `folder`."""

    variants: Sequence[Variant]
    tasks: Sequence[Task]
    repetitions: int
    seed: int
    model: str
    folder: Path

    def __post_init__(self) -> None:
        if not self.variants or not all(self.tasks_of(each) for each in self.variants):
            raise UsageError("An experiment wants at least one variant and one task.")
        if self.repetitions < 1:
            raise UsageError(f"`repetitions` wants a number from 1, got {self.repetitions!r}.")
        _once("variants", [file_name(each.name) for each in self.variants])
        for tasks in (self.tasks, *(each.tasks or () for each in self.variants)):
            _once("tasks", [file_name(task.id) for task in tasks])

    def tasks_of(self, variant: Variant) -> Sequence[Task]:
        """What a variant plays."""
        return self.tasks if variant.tasks is None else variant.tasks

    def runs(self, variant: Variant) -> Iterator[Run]:
        """The runs of one variant, repetition by repetition."""
        folder = self.folder / RUNS / file_name(variant.name)
        for repetition in range(1, (variant.repetitions or self.repetitions) + 1):
            for task in self.tasks_of(variant):
                journal = folder / file_name(task.id) / f"r{repetition}.jsonl"
                yield Run(variant.name, task, repetition, journal)

    def write(self) -> None:
        """Write the plan down. Raises `UsageError` if the folder is another experiment's."""
        path = self.folder / PLAN
        ours: dict[str, Any] = {
            "version": 1,
            "model": self.model,
            "seed": self.seed,
            "repetitions": self.repetitions,
            "variants": {each.name: _identity(each) for each in self.variants},
            "tasks": self._tasks(),
        }
        if path.is_file():
            _add(ours, _read(path), path)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(ours, indent=1, ensure_ascii=False) + "\n")

    def _tasks(self) -> dict[str, str]:
        """Every task by id. Raises `UsageError` for two that share one."""
        digests: dict[str, str] = {}
        for tasks in (self.tasks, *(each.tasks or () for each in self.variants)):
            for task in tasks:
                if digests.setdefault(task.id, found := digest(task)) != found:
                    raise UsageError(
                        f"Two tasks are named {task.id!r}, and a task's runs are kept under its "
                        f"name: give each one of its own, or play them into two folders."
                    )
        return digests


def _identity(variant: Variant) -> str:
    return "; ".join(filter(None, (variant.scenario.name, variant.identity)))


def _add(ours: dict[str, Any], there: Mapping[str, Any], path: Path) -> None:
    """Add what is in the plan already. Raises `UsageError` for what is otherwise there."""
    for name in ("model", "seed"):
        if ours[name] != there.get(name):
            raise UsageError(
                f"`{path}` is an experiment with {name} {there.get(name)!r}, not {ours[name]!r}. "
                f"Go on with that one, or choose another folder."
            )
    for kind, word in (("variants", "Variant"), ("tasks", "Task")):
        before = dict(there.get(kind) or {})
        for name, what in ours[kind].items():
            if before.get(name, what) != what:
                how = _differing(before[name], what) if kind == "variants" else _OTHER_TASK
                raise UsageError(
                    f"{word} {name!r} was another one when `{path}` was written: {how}. Results of "
                    f"both in one table would compare nothing: choose another folder."
                )
        ours[kind] = before | ours[kind]
    ours["repetitions"] = max(ours["repetitions"], int(there.get("repetitions") or 0))


_OTHER_TASK = "its prompt or its data differ"


def _differing(then: str, now: str) -> str:
    """What differs between two identities of a variant, a part after the other."""
    before, after = _parts(then), _parts(now)
    told = [
        f"{key} was {before.get(key, 'not set')} and is {after.get(key, 'not set')}"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    return "; ".join(told) or f"it was {then!r} and is {now!r}"


def _parts(identity: str) -> dict[str, str]:
    """The parts of an identity, `model A, temperature 0.5`, by their keys."""
    scenario, _, rest = identity.partition("; ")
    found = {"the scenario": repr(scenario)}
    for part in filter(None, rest.split(", ")):
        model = part.startswith("model ")
        key, _, value = part.partition(" ") if model else part.rpartition(" ")
        found[f"`{key or part}`"] = repr(value) if key else "set"
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        plan = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read as an experiment's plan: {error}.") from None
    if not isinstance(plan, dict) or plan.get("version") != 1:
        raise UsageError(f"`{path}` is no plan of an experiment of this version of Rolecraft.")
    return plan


def digest(task: Task) -> str:
    """A task by its prompt and data, whatever it is called."""
    whole = json.dumps([task.prompt, task.data], sort_keys=True, ensure_ascii=False, default=str)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _once(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"`{what}` has {twice[0]!r} more than once; each needs a name of its own.")
