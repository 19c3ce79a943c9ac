"""The schedule of an asynchronous training: which episodes each step learnt from.

    DIR/schedule.jsonl           a line a step: the version it began with, and its attempts
    DIR/episodes/step-N.jsonl.gz what they were, where they are kept

Which episodes share a step depends on how fast they were, so that the same arguments do not give
the same weights. The recorded schedule does: a training that replays it learns from the same
episodes in the same order, and comes to the same weights bit for bit.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from rolecraft.environments.task import Task
from rolecraft.errors import UsageError
from rolecraft.rewards import RewardBreakdown
from rolecraft.rollouts import Rollout
from rolecraft.scenarios import Episode
from rolecraft.training.checkpoints import disk_errors
from rolecraft.training.rl.learner import Learner
from rolecraft.training.rl.playing import Attempt, Played
from rolecraft.training.rl.stream import versions_of
from rolecraft.trajectories.codec import decode_event, event_members
from rolecraft.trajectories.trajectory import Trajectory
from rolecraft.trajectories.whole_file import write_whole

SCHEDULE, EPISODES = "schedule.jsonl", "episodes"


class Schedule:
    """Writes down what each step learns from; `keep` also what it was, for a replay.

    Goes on after `steps` steps; what stands there of later ones is removed.
    """

    def __init__(self, folder: Path, *, steps: int, keep: bool) -> None:
        self._folder, self._keep = folder, keep
        path = folder / SCHEDULE
        with disk_errors(folder, f"`{SCHEDULE}`"):
            lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
            write_whole(path, b"".join(line + b"\n" for line in lines[:steps]))
            if keep:
                (folder / EPISODES).mkdir(exist_ok=True)

    def add(self, step: int, learner: Learner, played: Played) -> None:
        """Before the update of `step`. Raises `CheckpointError` for what the disk refuses."""
        attempts = []
        for rollout in played.rollouts:
            versions = versions_of(rollout, learner)
            attempts.append(
                {
                    "task": rollout.item.id,
                    "seed": rollout.item.seed,
                    "oldest": min(versions, default=None),
                    "newest": max(versions, default=None),
                }
            )
        line = {
            "step": step,
            "version": learner.version,
            "dropped": played.dropped,
            "attempts": attempts,
        }
        with disk_errors(self._folder, f"A line of `{SCHEDULE}`"):
            if self._keep:
                whole = b"".join(_encoded(rollout) for rollout in played.rollouts)
                packed = gzip.compress(whole, compresslevel=1, mtime=0)
                write_whole(_file(self._folder, step), packed)
            with (self._folder / SCHEDULE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class Replay:
    """The episodes of a recorded schedule, step by step: nothing is played.

    Raises `UsageError` for a folder without one, and where the training that replays it is not the
    one that was recorded.
    """

    def __init__(self, folder: Path, learner: Learner) -> None:
        self._folder, self._learner = folder, learner
        path = folder / SCHEDULE
        if not path.is_file() or not (folder / EPISODES).is_dir():
            raise UsageError(
                f"`{folder}` has no schedule to replay: record one with "
                f"`train(asynchronous=True, folder=..., keep_episodes=True)`."
            )
        lines = path.read_bytes().split(b"\n")[:-1]
        self.steps: list[dict[str, Any]] = [json.loads(line) for line in lines]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is left open."""

    async def next(self, step: int) -> Played:
        if step >= len(self.steps):
            raise UsageError(
                f"`{self._folder}` has the schedule of {len(self.steps)} steps, and step {step} "
                f"was asked for: give `steps={len(self.steps)}` at most."
            )
        about = self.steps[step]
        if about["version"] != self._learner.version:
            raise UsageError(
                f"Step {step} of `{self._folder}` began with version {about['version']}, and this "
                f"training is at {self._learner.version}: replay it with the same arguments."
            )
        return Played(rollouts=list(_read(self._folder, step)), dropped=about["dropped"])

    async def more(self, step: int, count: int, number: int) -> Played:
        return Played(rollouts=[])  # what was played in addition stands in the step itself

    def learnt(self, played: Played) -> None:
        """Nothing is chosen."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing is kept."""


def _file(folder: Path, step: int) -> Path:
    return folder / EPISODES / f"step-{step}.jsonl.gz"


def _encoded(rollout: Attempt) -> bytes:
    episode = rollout.episode
    assert episode is not None
    trajectory = episode.trajectory
    record = {
        "index": rollout.index,
        "ended": rollout.ended,
        "task": asdict(rollout.item),
        "reward": episode.reward.to_dict(),
        "trajectory": trajectory.id,
        "about": trajectory.about,
        "events": [event_members(event) for event in trajectory.events],
    }
    return json.dumps(record, ensure_ascii=True, default=str).encode() + b"\n"


def _read(folder: Path, step: int) -> Iterator[Attempt]:
    path = _file(folder, step)
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read: {error}. It was not written whole.") from error
    for line in data.split(b"\n")[:-1]:
        record = json.loads(line)
        events = [decode_event(each) for each in record["events"]]
        trajectory = Trajectory(record["trajectory"], record["about"], events)
        task = Task(**record["task"])
        episode = Episode(task, trajectory, RewardBreakdown.from_dict(record["reward"]))
        yield Rollout(
            index=record["index"],
            item=task,
            ended=record["ended"],
            episode=episode,
            trajectory=trajectory,
        )
