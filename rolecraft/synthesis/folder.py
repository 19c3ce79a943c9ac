"""Where everything about the tasks of one project lies.

OUT/
  plan.json          the project and its clean suite
  source/            the clean files, which nobody changes
  environment/       the venv, if one was built
  candidates.jsonl   a line for each candidate, appended
  written.jsonl      a line for each bug that a model or a patch was asked for, appended
  verdicts.jsonl     a line for each candidate that was validated, appended
  texts.jsonl        a line for each issue text, appended
  validation.json    the settings that the verdicts were come by with
  pass_rates.jsonl   a line for each attempt of a solver, appended
  attempts/          what solvers did that were played here
  tasks/             what `gather` makes of it: rows, patches, the git history, a scenario
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SynthesisFolder:
    """The paths in one folder."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def source(self) -> Path:
        return self.path / "source"

    @property
    def environment(self) -> Path:
        return self.path / "environment"

    @property
    def candidates(self) -> Path:
        return self.path / "candidates.jsonl"

    @property
    def written(self) -> Path:
        return self.path / "written.jsonl"

    @property
    def verdicts(self) -> Path:
        return self.path / "verdicts.jsonl"

    @property
    def validation(self) -> Path:
        return self.path / "validation.json"

    @property
    def texts(self) -> Path:
        return self.path / "texts.jsonl"

    @property
    def pass_rates(self) -> Path:
        return self.path / "pass_rates.jsonl"

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    @property
    def tasks(self) -> Path:
        return self.path / "tasks"
