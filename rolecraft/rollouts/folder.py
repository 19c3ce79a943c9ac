"""A folder of rollouts: what is to be played, where it is recorded, and what came of it.

    DIR/plan.json        what is played; another plan is refused
    DIR/runs/TASK/rN.jsonl   the journal of each episode
    DIR/results.jsonl    a line for each that is over, as they end

Invariant: an episode with a line in `results.jsonl` that says something about its team is not
played again, and one without goes on where its journal ends, however the process ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rolecraft.environments.task import Task
from rolecraft.errors import JournalError, TraceError, UsageError
from rolecraft.rollouts.attempts import as_attempt, attempt_name
from rolecraft.rollouts.endings import OF_NOBODY
from rolecraft.rollouts.events import in_short
from rolecraft.rollouts.result import Rollout
from rolecraft.rollouts.where import place_of
from rolecraft.scenarios.scenario import Episode
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.jsonl import load
from rolecraft.trajectories.trajectory import Trajectory
from rolecraft.trajectories.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class Attempt:
    """One episode that shall be: the `number`-th of a task, from 1."""

    index: int
    of: Task
    number: int
    seed: int

    @property
    def name(self) -> str:
        """What its line in `results.jsonl` is called."""
        return attempt_name(self.of, self.number)

    @property
    def task(self) -> Task:
        """The task as this attempt plays it, with a seed of its own."""
        return as_attempt(self.of, self.number, self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """What is kept in memory of an episode that is over; the rest is in its line."""

    ended: str
    reward: float | None = None
    calls: int = 0
    usd: float | None = None

    @classmethod
    def of(cls, line: dict[str, Any]) -> Self:
        """Raises `KeyError` for a line that does not say how the episode ended."""
        return cls(
            ended=sys.intern(line["ended"]),
            reward=line.get("reward"),
            calls=line.get("calls", 0),
            usd=line.get("usd"),
        )


class RolloutFolder:
    """`tasks`, each `attempts` times, below `path`. Used with `with`: it is locked meanwhile.

    Raises `UsageError` if the folder has rollouts already and `resume` is not set, or if they are
    others than these; `JournalError` while another process writes there. `about` says what else
    must be the same: names with JSON values.
    """

    def __init__(
        self,
        path: Path,
        tasks: Sequence[Task],
        attempts: int,
        *,
        seed: int = 0,
        resume: bool = False,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.attempts = [
            Attempt(number * attempts + each, task, each + 1, seed)
            for number, task in enumerate(tasks)
            for each in range(attempts)
        ]
        self.plan = {
            **(about or {}),
            "tasks": len(tasks),
            "attempts": attempts,
            "seed": seed,
            "sha256": _digest(tasks),
        }
        self._resume = resume
        self._results: AppendFile | None = None
        self.over: dict[str, Over] = {}
        """What is over, by the `id` of its line."""

    @property
    def results(self) -> Path:
        """The file of results."""
        return self.path / "results.jsonl"

    def __enter__(self) -> Self:
        self._results = AppendFile(self.results)
        try:
            if not os.path.samestat(os.fstat(self._results.fd), self.results.stat()):
                # Its holder let it go for a new one between our opening and our locking it.
                raise JournalError(self.results, "another process has just begun to write it.")
            self._check_plan()
            self._take_up()
        except BaseException:
            self._results.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._results is not None:
            self._results.close()

    def to_play(self) -> Iterator[Task]:
        """What is not over, in order."""
        return (each.task for each in self.attempts if each.name not in self.over)

    def journal(self, task: Task) -> Path:
        """Where an attempt is recorded; its folder is made."""
        path = self.path / self._journals[_key(task)]
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def add(self, rollout: Rollout[Task, Episode]) -> dict[str, Any]:
        """Write down what became of an attempt; the line."""
        line = self.line(rollout)
        assert self._results is not None
        self._results.append(_bytes(line))
        if rollout.says_something:
            self.over[line["id"]] = Over.of(line)
        return line

    def line(self, rollout: Rollout[Task, Episode]) -> dict[str, Any]:
        """What `results.jsonl` says of a rollout."""
        journal = self._journals[_key(rollout.item)]
        trajectory = self.trajectory(rollout)
        usage = None if trajectory is None else trajectory.usage
        signals = [] if trajectory is None else trajectory.signals
        attempt = self._by_key[_key(rollout.item)]
        return {
            "id": attempt.name,
            "task": attempt.of.id,
            "attempt": attempt.number,
            "ended": rollout.ended,
            "reward": rollout.reward,
            "signals": {each.name: each.value for each in signals},
            "calls": 0 if usage is None else usage.calls,
            "prompt_tokens": 0 if usage is None else usage.prompt_tokens,
            "completion_tokens": 0 if usage is None else usage.completion_tokens,
            "usd": None if usage is None else usage.usd,
            "error": in_short(rollout.error),
            "where": place_of(rollout.error),
            "close_error": in_short(rollout.close_error),
            "tries": rollout.attempts,
            "waited": round(rollout.waited, 3),
            "seconds": {stage: round(each, 3) for stage, each in rollout.seconds.items()},
            "journal": journal,
        }

    def trajectory(self, rollout: Rollout[Task, Episode]) -> Trajectory | None:
        """What was recorded of a rollout, in memory or in its journal."""
        if rollout.trajectory is not None:
            return rollout.trajectory
        with suppress(TraceError):
            return load(self.path / self._journals[_key(rollout.item)])
        return None

    # --- what is there already ----------------------------------------------------------------

    def _check_plan(self) -> None:
        path = self.path / "plan.json"
        self._by_key = {_key(each.task): each for each in self.attempts}
        self._journals = {key: _journal(each) for key, each in self._by_key.items()}
        self._names = {each.name for each in self.attempts}
        if len(self._names) < len(self.attempts) or len(self._by_key) < len(self.attempts):
            raise UsageError(_twice(self.attempts))
        if path.exists():
            theirs = json.loads(path.read_text(encoding="utf-8"))
            if not self._resume:
                raise UsageError(
                    f"`{self.path}` has rollouts already: go on with them (`--resume`), or name "
                    f"another folder."
                )
            differing = [name for name in {**theirs, **self.plan} if
                         theirs.get(name) != self.plan.get(name)]  # fmt: skip
            if differing:
                name = differing[0]
                raise UsageError(
                    f"`{self.path}` has other rollouts than these: `{name}` is "
                    f"{self.plan.get(name)!r} and was {theirs.get(name)!r}. Name another folder."
                )
            return
        write_whole(path, json.dumps(self.plan, indent=2).encode() + b"\n")

    def _take_up(self) -> None:
        """Read what is over; what failed, or was cut off while it was written, is taken out."""
        assert self._results is not None
        kept: list[bytes] = []
        for line in self.results.read_bytes().splitlines(keepends=True):
            # What is no line of results is played again, and costs nothing else.
            with suppress(ValueError, TypeError, KeyError):
                row = json.loads(line)
                if not line.endswith(b"\n") or row["ended"] in OF_NOBODY:
                    continue
                if row["id"] in self._names and row["id"] not in self.over:
                    self.over[row["id"]] = Over.of(row)
                    kept.append(line)
        whole = b"".join(kept)
        if len(whole) != self._results.size:
            # The new file is locked before it has the name, so that no other process gets between.
            beside = self.results.with_name(f"{self.results.name}.new")
            beside.unlink(missing_ok=True)
            new, old = AppendFile(beside), self._results
            new.append(whole)
            os.replace(beside, self.results)
            new.path = self.results
            self._results = new
            old.close()


def _key(task: Task) -> tuple[str, int]:
    """What tells a task that is played from the others: its attempts differ in their seeds."""
    return task.id, task.seed


def _twice(attempts: Sequence[Attempt]) -> str:
    """What is wrong with tasks that cannot be told apart."""
    times = Counter((each.of.id, each.number) for each in attempts)
    (name, _), number = times.most_common(1)[0]
    if number == 1:  # two seeds of 32 bits came to the same
        return "Two attempts at a task have the same seed: choose another `seed`."
    return (
        f"The task {name!r} is there {number} times; rollouts are told apart by the task's id. "
        f"Give each task an id of its own, or play each several times with `attempts`."
    )


def _journal(attempt: Attempt) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", attempt.of.id).strip("-.")[:80] or "task"
    # Names of two tasks may come to the same: what is cut off or replaced is told apart.
    if name != attempt.of.id:
        name += f"-{zlib.crc32(attempt.of.id.encode('utf-8', 'surrogatepass')):08x}"
    return f"runs/{name}/r{attempt.number}.jsonl"


def _digest(tasks: Sequence[Task]) -> str:
    known = [[each.id, each.prompt, each.data, each.seed] for each in tasks]
    text = json.dumps(known, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _bytes(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, allow_nan=True)
    return (text + "\n").encode("utf-8", "backslashreplace")
