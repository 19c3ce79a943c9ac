"""The tasks of an evaluation, and whether they can have been in training.

What is the same word for word (but for white space) is found. What only resembles a task is not,
and neither is what a model's maker trained on: nobody can see that here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rolecraft.environments.task import Split, Task
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.experiments.plan import digest
from rolecraft.failure_taxonomy.goals import task_of
from rolecraft.scenarios.scenario import Scenario
from rolecraft.trajectories.jsonl import trace_files

OnSeen = Literal[
    "refuse",  # an error that names the first
    "flag",  # they are played, and the results say how many they are
    "drop",  # the others are played
]


COMPARED = 256
"""With so many tasks of the train split those of the test split are compared, at least."""


class NotHeldOut(UsageError):
    """A task of an evaluation was there in training. `tasks` are their ids."""

    def __init__(self, text: str, tasks: Sequence[str]) -> None:
        super().__init__(text)
        self.tasks = list(tasks)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The tasks that a scenario is evaluated on, and what is known of where else they were."""

    tasks: Sequence[Task]
    split: Split
    asked: int
    """How many were asked for; of a split that has fewer all are played."""
    compared: int
    """With so many tasks of the train split they were compared."""
    recorded: int = 0
    """With so many tasks in records of a training; 0 where none were given."""
    in_train: Sequence[str] = ()
    """Ids of those that the train split has too."""
    seen: Sequence[str] = ()
    """Ids of those that records of a training have."""
    dropped: int = 0

    @property
    def prompts(self) -> int:
        """How many different problems they are."""
        return len({same(task.prompt) for task in self.tasks})

    @property
    def clean(self) -> bool:
        """True if nothing says that one of them was trained on."""
        return self.split == "test" and not self.in_train and not self.seen

    def to_dict(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "held_out": self.clean,
            "tasks": len(self.tasks),
            "asked": self.asked,
            "different_prompts": self.prompts,
            "compared_with_train_tasks": self.compared,
            "compared_with_recorded_tasks": self.recorded,
            "also_in_train": list(self.in_train),
            "also_in_records": list(self.seen),
            "dropped": self.dropped,
        }

    def warnings(self, scenario: str) -> list[str]:
        """What a reader of the results has to know, a sentence each."""
        told = []
        if self.split != "test":
            told.append(
                f"{scenario}: the tasks are of the split {self.split!r}, so they are NOT held out."
            )
        for what, ids in (
            ("in the train split too", self.in_train),
            ("in the records of the training", self.seen),
        ):
            if ids:
                told.append(
                    f"{scenario}: {len(ids)} of {len(self.tasks)} tasks are {what}, such as "
                    f"{ids[0]!r}: they are NOT held out."
                )
        if self.dropped:
            told.append(f"{scenario}: {self.dropped} tasks were left out, as they were seen.")
        if len(self.tasks) + self.dropped < self.asked:
            told.append(
                f"{scenario}: {self.asked} tasks were asked for, and "
                f"{len(self.tasks) + self.dropped} different ones were drawn."
            )
        if self.prompts < len(self.tasks):
            told.append(
                f"{scenario}: {len(self.tasks)} tasks have {self.prompts} different prompts. "
                f"Intervals and tests take each task for a draw of its own; where only hidden "
                f"tests differ they promise more than there is."
            )
        return told


def draw(
    scenario: Scenario,
    count: int,
    *,
    seed: int = 0,
    split: Split = "test",
    seen: Seen | None = None,
    on_seen: OnSeen = "refuse",
) -> HeldOut:
    """Draw `count` tasks to evaluate a scenario on; one that is drawn twice is taken once.

    `seen` is what was in training, as `seen_in` reads it. Raises `UsageError` for a split without
    tasks and whatever the task source raises, `NotHeldOut` as `on_seen` says.
    """
    if count < 1:
        raise UsageError(f"An evaluation wants at least one task, got tasks={count!r}.")
    drawn = {(task.id, digest(task)): task for task in _sample(scenario, count, seed, split)}
    tasks = list(drawn.values())
    if not tasks:
        raise UsageError(
            f"Scenario `{scenario.name}` has no tasks in the split {split!r}: its task source "
            f"gave none for `sample({count}, seed={seed}, split={split!r})`."
        )
    train = _train(scenario, max(count, COMPARED), seed) if split == "test" else []
    known = {_essence(task) for task in train}
    also = _in_both(tasks, train)
    if len(also) == len(tasks) and on_seen != "flag":
        raise NotHeldOut(
            f"Scenario `{scenario.name}` has no test split of its own: `sample(split='train')` "
            f"gives all {len(tasks)} tasks that `sample(split='test')` gives. Keep some apart, or "
            f"take them as they are and have the results say so: `on_seen='flag'`.",
            also,
        )
    seen = seen or Seen()
    recorded = _recorded(tasks, train, seen)
    compared = len(known), max(len(seen.prompts), len(seen.ids))
    bad = dict.fromkeys([*also, *recorded])
    if bad and on_seen == "refuse":
        first = next(iter(bad))
        raise NotHeldOut(
            f"{len(bad)} of {len(tasks)} tasks of scenario `{scenario.name}` were in training: "
            f"{first!r} is in {recorded.get(first) or 'the train split'}. Leave them out with "
            f"`on_seen='drop'`, or have the results say so with `on_seen='flag'`.",
            list(bad),
        )
    if bad and on_seen == "drop":
        kept = [task for task in tasks if task.id not in bad]
        if not kept:
            raise NotHeldOut(
                f"All {len(tasks)} tasks of scenario `{scenario.name}` were in training; none is "
                f"left to evaluate on.",
                list(bad),
            )
        return HeldOut(kept, split, count, *compared, dropped=len(tasks) - len(kept))
    return HeldOut(tasks, split, count, *compared, also, list(recorded))


def _sample(scenario: Scenario, count: int, seed: int, split: Split) -> list[Task]:
    return list(scenario.tasks.sample(count, seed=seed, split=split))


def _train(scenario: Scenario, count: int, seed: int) -> list[Task]:
    try:
        return _sample(scenario, count, seed, "train")
    except RolecraftError:  # a source without a train split: nothing to compare with
        return []


def _essence(task: Task) -> str:
    """The same for tasks that are the same but for their ids and white space."""
    return digest(replace(task, prompt=same(task.prompt)))


def _in_both(tasks: Sequence[Task], train: Sequence[Task]) -> list[str]:
    """Ids of the tasks that are in training too, whatever is noted beside their prompts there.

    A prompt that several tasks of one split share tells none of them; then the data has to be equal
    as well.
    """
    known = {_essence(task) for task in train}
    prompts = _telling(train) & _telling(tasks)
    return [task.id for task in tasks if _essence(task) in known or same(task.prompt) in prompts]


def _telling(tasks: Sequence[Task]) -> set[str]:
    """Prompts that only one of the tasks has."""
    having: dict[str, set[str]] = {}
    for task in tasks:
        having.setdefault(same(task.prompt), set()).add(_essence(task))
    return {prompt for prompt, different in having.items() if len(different) == 1}


def _recorded(tasks: Sequence[Task], train: Sequence[Task], seen: Seen) -> dict[str, str]:
    """Those of the tasks that are on record, by id, and where.

    Prompts tell tasks apart, unless several tasks have the same one; then only ids do.
    """
    having: dict[str, set[str]] = {}
    for task in (*tasks, *train):
        having.setdefault(same(task.prompt), set()).add(digest(task))
    found = {}
    for task in tasks:
        prompt = same(task.prompt)
        known = seen.prompts if len(having[prompt]) == 1 else {}
        where = known.get(prompt) or seen.ids.get((task.id, prompt))
        if where:
            found[task.id] = where
    return found


@dataclass(frozen=True, slots=True)
class Seen:
    """What records of a training name: prompts, and prompts with ids; each with its file."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[tuple[str, str], str] = field(default_factory=dict)


def same(prompt: str) -> str:
    """A prompt as it is compared with others."""
    return " ".join(prompt.split())


def seen_in(paths: Iterable[str | Path]) -> Seen:
    """The tasks in records of a training.

    Files and folders: what a training of ours left, journals, or data sets as JSON lines, with
    `prompt`, `question`, `task`, `messages` or `conversations`. Raises `UsageError` for a path in
    which no task is found, and `TraceError` for one that is not there.
    """
    prompts: dict[str, str] = {}
    ids: dict[tuple[str, str], str] = {}
    for path in paths:
        rows = [(row, file) for file in trace_files(path) for row in _rows(file)]
        named = [(prompt, row, file) for row, file in rows if (prompt := same(_prompt(row)))]
        if not named:
            raise UsageError(
                f"`{path}` names no task: it wants the folder of a training, journals of runs, or "
                f"JSON lines with `prompt`, `question`, `task`, `messages` or `conversations`."
            )
        for prompt, row, file in named:
            prompts.setdefault(prompt, str(file))
            task = row.get("task")
            name = task.get("id") if isinstance(task, dict) else row.get("id")
            if isinstance(name, str):
                ids.setdefault((name, prompt), str(file))
    return Seen(prompts, ids)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file; of a journal its header."""
    with file.open("rb") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:  # the line that was being written when a run was killed
                continue
            if isinstance(row, dict):
                yield row
                if "schema_version" in row:
                    break


def _prompt(row: dict[str, Any]) -> str:
    if prompt := task_of(row):
        return prompt
    for name in ("prompt", "question", "instruction"):
        if isinstance(row.get(name), str):
            return str(row[name])
    for name, who, says in (("messages", "role", "content"), ("conversations", "from", "value")):
        for each in row.get(name) or ():
            if isinstance(each, dict) and each.get(who) in ("user", "human"):
                return str(each.get(says) or "")
    return ""
