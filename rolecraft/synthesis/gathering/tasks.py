"""The gathered tasks of a folder, as an environment takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.software_engineering import Place, SoftwareTasks, load_tasks
from rolecraft.errors import UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.row_files import ROWS
from rolecraft.synthesis.plan import Plan

REPOSITORY = "repository"
"""In the folder of tasks: see `History`."""


def place_of(plan: Plan, tasks: Path) -> Place:
    """Where the project is, whose tasks lie in the folder `tasks`."""
    project = plan.project
    return Place(
        source=str(tasks / REPOSITORY),
        environment=project.environment or None,
        python_path=tuple(project.python_path),
        test_command=tuple(project.test_command),
        runner=project.runner,
        report=project.report,
    )


def gathered_tasks(folder: SynthesisFolder) -> SoftwareTasks:
    """The tasks, in their splits. Raises `UsageError` where none were gathered."""
    plan = Plan.load(folder)
    path = _rows_file(folder)
    return load_tasks(path, places={plan.project.name: place_of(plan, folder.tasks)})


def gathered_rows(folder: SynthesisFolder) -> Iterator[dict[str, Any]]:
    """The rows, one after the other. Raises `UsageError` where there are none, or one cannot be
    read.
    """
    for row in read_rows(_rows_file(folder)):
        if row.problem:
            raise UsageError(f"`{folder.tasks / ROWS}`: {row.place} {row.problem}.")
        yield row.fields


def _rows_file(folder: SynthesisFolder) -> Path:
    path = folder.tasks / ROWS
    if not path.exists():
        raise UsageError(
            f"There are no tasks in `{folder.path}`: `rolecraft synth gather {folder.path}` makes "
            f"them."
        )
    return path
