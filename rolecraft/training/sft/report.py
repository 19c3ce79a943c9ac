"""What became of the data: what is trained on, and what was left out for which reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_MOST_TOLD = 5
"""So many files of a folder are told one by one."""


@dataclass(slots=True)
class FileReport:
    """One file. Rows and samples are counted before tokens are made, the rest after."""

    path: str
    layouts: dict[str, int]
    """Rows of each layout."""
    rows: int
    samples: int = 0
    """Conversations and texts of which something is trained or evaluated."""
    sequences: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """By reason. Of what is over-long, sequences are counted; of all else, samples."""

    @property
    def layout(self) -> str:
        """The layouts in a few words."""
        return ", ".join(self.layouts) or "none"


@dataclass(slots=True)
class DataReport:
    """All files together. Tokens and sequences are those of training, without the eval split."""

    files: list[FileReport] = field(default_factory=list)
    sequences: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest sequence."""
    eval_sequences: int = 0
    eval_tokens: int = 0
    exact: int = 0
    """Sequences that are the recorded tokens of a local model."""
    rewritten: int = 0
    """Conversations that became several sequences, because the chat template rewrites turns."""
    truncated: int = 0
    """Sequences that were cut at their end."""
    split: int = 0
    """Conversations that were too long, and were divided at turns of the user."""
    lost_reasoning: int = 0
    """Answers whose reasoning the chat template does not write, so that it is not trained."""
    sides: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """By "layout" and "role", and by the name of each: samples to train and to evaluate on."""

    @property
    def samples(self) -> int:
        return sum(file.samples for file in self.files)

    @property
    def left_out(self) -> dict[str, int]:
        """By reason, over all files."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.left_out)
        return dict(total)

    def count_side(self, layout: str, role: str | None, *, held_out: bool) -> None:
        """Count a sample that is trained, or that is `held_out` for evaluation."""
        for kind, name in (("layout", layout), ("role", role)):
            if name:
                self.sides.setdefault(kind, {}).setdefault(name, [0, 0])[held_out] += 1

    def of_evaluation(self, share: float) -> list[str]:
        """What one should know of the evaluation that a `share` of the samples makes."""
        if not share:
            return []
        three = math.ceil(30 / max(self.samples, 1)) / 10  # about three samples, as a round share
        more = f"`--eval-share {min(0.5, max(three, 2 * share)):g}` keeps more"
        if not self.eval_sequences:
            return [
                f"None of the {self.samples} samples fell into the share of {share:g} that is kept "
                f"for evaluation: nothing is evaluated. {more}; `--eval-share 0` says that none is "
                f"wanted."
            ]
        told = []
        for kind, groups in self.sides.items():
            seen = [name for name, (_, held_out) in groups.items() if held_out]
            unseen = [name for name in groups if name not in seen]
            if len(seen) == 1 and unseen:
                others = ", ".join(f"`{name}`" for name in unseen)
                told.append(
                    f"All samples that are kept for evaluation are of the {kind} `{seen[0]}`: the "
                    f"evaluation loss says nothing of {others}. {more}."
                )
            told += [
                f"Every sample of the {kind} `{name}` ({held_out:,}) is kept for evaluation, and "
                f"none is trained on. `--eval-share 0` keeps none; another `--seed` keeps others."
                for name, (trained, held_out) in groups.items()
                if not trained
            ]
        return told

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> DataReport:
        """Raises `TypeError` for what is none."""
        return cls(**{**known, "files": [FileReport(**file) for file in known["files"]]})

    def _told_apart(self) -> list[FileReport]:
        """The files; where a folder has many, such as a journal for each run, it is one."""
        folders: dict[Path, list[FileReport]] = {}
        for file in self.files:
            folders.setdefault(Path(file.path).parent, []).append(file)
        told = []
        for folder, files in folders.items():
            told += [_together(folder, files)] if len(files) > _MOST_TOLD else files
        return told

    def __str__(self) -> str:
        """Some lines for a person."""
        lines = []
        for file in self._told_apart():
            lines.append(f"{file.path}: {file.layout}; {file.rows} rows, {file.samples} samples")
            lines += [f"  left out: {count} ({why})" for why, count in file.left_out.items()]
        share = 100 * self.trained_tokens / self.tokens if self.tokens else 0.0
        lines.append(
            f"{self.sequences} sequences of {self.tokens} tokens, {self.trained_tokens} of them "
            f"trained ({share:.0f} %), the longest of {self.longest}"
        )
        if self.eval_sequences:
            lines.append(f"{self.eval_sequences} more sequences to evaluate on")
        notes = [
            (self.exact, "sequences are the recorded tokens of a local model"),
            (self.rewritten, "conversations are several sequences: the template rewrites turns"),
            (self.truncated, "sequences were cut at their end"),
            (self.split, "conversations were too long and are divided at turns"),
            (self.lost_reasoning, "answers have reasoning that the template does not write"),
        ]
        lines += [f"{count} {what}" for count, what in notes if count]
        return "\n".join(lines)


def _together(folder: Path, files: list[FileReport]) -> FileReport:
    layouts, left_out = Counter[str](), Counter[str]()
    for file in files:
        layouts.update(file.layouts)
        left_out.update(file.left_out)
    return FileReport(
        path=f"{folder} ({len(files)} files)",
        layouts=dict(layouts),
        rows=sum(file.rows for file in files),
        samples=sum(file.samples for file in files),
        sequences=sum(file.sequences for file in files),
        left_out=dict(left_out),
    )
