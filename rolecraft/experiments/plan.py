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
        if not self.variants or not self.tasks:
            raise UsageError("An experiment wants at least one variant and one task.")
        if self.repetitions < 1:
            raise UsageError(f"`repetitions` wants a number from 1, got {self.repetitions!r}.")
        _once("variants", [file_name(each.name) for each in self.variants])
        _once("tasks", [file_name(task.id) for task in self.tasks])

    def runs(self, variant: Variant) -> Iterator[Run]:
        """The runs of one variant, repetition by repetition."""
        folder = self.folder / RUNS / file_name(variant.name)
        for repetition in range(1, self.repetitions + 1):
            for task in self.tasks:
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
            "variants": {each.name: each.scenario.name for each in self.variants},
            "tasks": {task.id: _digest(task) for task in self.tasks},
        }
        if path.is_file():
            _add(ours, _read(path), path)
        self.folder.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".json.new")
        written.write_text(json.dumps(ours, indent=1, ensure_ascii=False) + "\n", "utf-8")
        written.replace(path)


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
                raise UsageError(
                    f"{word} {name!r} was another one when `{path}` was written. Results of both "
                    f"in one table would compare nothing: choose another folder."
                )
        ours[kind] = before | ours[kind]
    ours["repetitions"] = max(ours["repetitions"], int(there.get("repetitions") or 0))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        plan = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read as an experiment's plan: {error}.") from None
    if not isinstance(plan, dict) or plan.get("version") != 1:
        raise UsageError(f"`{path}` is no plan of an experiment of this version of Rolecraft.")
    return plan


def _digest(task: Task) -> str:
    whole = json.dumps([task.prompt, task.data], sort_keys=True, ensure_ascii=False, default=str)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _once(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"`{what}` has {twice[0]!r} more than once; each needs a name of its own.")
