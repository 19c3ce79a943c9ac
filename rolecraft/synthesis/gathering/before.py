"""What the last `gather` was told and did, as its folder of tasks says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.task import Split
from rolecraft.synthesis.gathering.row_files import ROWS
from rolecraft.synthesis.gathering.splits import Unit

SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the code is parted: see `Splits`. They hold until others are given."""

    split_by: Unit = "file"
    held_out: float = 0.2

    def but(self, split_by: Unit | None, held_out: float | None) -> Settings:
        """These, with what is not None in their place."""
        return Settings(
            split_by=self.split_by if split_by is None else split_by,
            held_out=self.held_out if held_out is None else held_out,
        )

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"`--split-by {self.split_by} --held-out {self.held_out:g}`"


@dataclass(frozen=True, slots=True)
class Before:
    """What there is of an earlier time; what cannot be read is as if it were not there."""

    settings: Settings = Settings()
    scenario_digest: str = ""
    """Of `scenario.py` as it was written; empty if nothing tells."""
    splits: dict[str, Split] = field(default_factory=dict)
    """Of each task."""

    @classmethod
    def of(cls, tasks: Path) -> Before:
        """What a folder of tasks says; it may be missing."""
        said = _Said()
        with suppress(OSError, ValueError):
            said = _SAID.validate_json((tasks / SUMMARY).read_bytes())
        return cls(said.settings, said.scenario_digest, dict(_splits(tasks / ROWS)))

    def moved(self, now: dict[str, Split]) -> dict[Split, list[str]]:
        """The tasks that are in another split now: by this one, their ids."""
        found: dict[Split, list[str]] = {}
        for task, split in now.items():
            if self.splits.get(task, split) != split:
                found.setdefault(split, []).append(task)
        return found


@dataclass(frozen=True, slots=True)
class _Said:
    """Of `summary.json`, what is read again."""

    settings: Settings = Settings()
    scenario_digest: str = ""


_SAID = TypeAdapter(_Said)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _splits(rows: Path) -> list[tuple[str, Split]]:
    if not rows.is_file():
        return []
    found = (row.fields for row in read_rows(rows) if not row.problem)
    return [
        (row["instance_id"], row["split"])
        for row in found
        if isinstance(row.get("instance_id"), str) and row.get("split") in ("train", "test")
    ]
