"""Rewards beside the journal: `run.jsonl` has those it was given later in `run.rewards.jsonl`.

The journal has what was measured; what that is worth is a function that can be changed, so each
scoring is a line of its own, with the name of the reward.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.trajectories.append_file import append_lines
from rolecraft.trajectories.codec import encode_line, parse_line
from rolecraft.trajectories.reported import REWARDS_SUFFIX


@dataclass(frozen=True, slots=True)
class StoredReward:
    """A reward as it was written down: by which name, and what it gave."""

    name: str
    breakdown: RewardBreakdown


def rewards_path(journal: Path | str) -> Path:
    """Where the rewards are kept that a run was given later."""
    journal = Path(journal)
    return journal.with_name(journal.name.removesuffix(".jsonl") + REWARDS_SUFFIX)


def append_reward(journal: Path | str, name: str, breakdown: RewardBreakdown) -> Path:
    """Write down what a reward gives a stored run; returns the path of the file.

    The journal is not touched. Raises `JournalError` if the disk refuses.
    """
    path = rewards_path(journal)
    append_lines(path, encode_line({"reward": name, **breakdown.to_dict()}))
    return path


def load_rewards(journal: Path | str) -> list[StoredReward]:
    """The rewards that a run was given later, oldest first. Lines that are broken are left out."""
    path = rewards_path(journal)
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, UsageError):
            data = parse_line(line)
            found.append(StoredReward(str(data.get("reward", "")), RewardBreakdown.from_dict(data)))
    return found


class RecordedRewards:
    """The rewards that stored runs had: `RecordedRewards()(journal)`, for many of one folder.

    It is the last that the run was given later, else that of its rollout, which stands in the
    `results.jsonl` of its folder; None where neither says one.
    """

    def __init__(self) -> None:
        self._of_rollouts: dict[Path, dict[Path, float]] = {}

    def __call__(self, journal: Path | str) -> float | None:
        given = load_rewards(journal)
        if given:
            return given[-1].breakdown.value
        file = Path(journal).resolve()
        for home in file.parents[:4]:  # a rollout's journal is `HOME/runs/TASK/r1.jsonl`
            if home not in self._of_rollouts:
                self._of_rollouts[home] = dict(_of_rollout(home))
            if file in self._of_rollouts[home]:
                return self._of_rollouts[home][file]
        return None


def _of_rollout(home: Path) -> Iterator[tuple[Path, float]]:
    """Journals and rewards in a folder's results; lines that say none are passed over."""
    results = home / "results.jsonl"
    if not results.is_file():
        return
    with results.open("rb") as lines:
        for line in lines:
            with suppress(ValueError, TypeError, KeyError):
                row = json.loads(line)
                yield (home / row["journal"]).resolve(), float(row["reward"])
