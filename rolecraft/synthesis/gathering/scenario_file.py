"""The `scenario.py` of a folder of tasks: a few lines of the user's own, to run and to change."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering import Place
from rolecraft.synthesis.gathering.row_files import ROWS
from rolecraft.synthesis.gathering.tasks import place_of
from rolecraft.synthesis.plan import Plan

_TEXT = '''"""Bugs planted in {title}: each task is to mend one.

    rolecraft run scenario.py:rehearsal     (a stand-in that knows the solutions: no model)
    rolecraft run scenario.py:tasks --model openai/gpt-4o-mini
    rolecraft evaluate scenario.py:tasks --model openai/gpt-4o-mini
    rolecraft train scenario.py:tasks --model Qwen/Qwen3-0.6B
"""

from pathlib import Path

from rolecraft.environments.software_engineering import Place, load_tasks
from rolecraft.environments.software_engineering.examples.solvers import patching_solver
from rolecraft.scenarios.software_engineering import scenario

HERE = Path(__file__).parent
PLACE = Place(
{place}
)
TASKS = load_tasks(HERE / {rows}, places={{{repo}: PLACE}})
STAND_IN = patching_solver(TASKS.instances.values())

tasks = scenario(TASKS, name={name})
rehearsal = scenario(TASKS, model=STAND_IN, name={rehearsal})
'''


def scenario_file(plan: Plan, folder: Path) -> str:
    """The text of the file, for the folder of tasks. What lies in the folder above is named
    relative to the file.
    """
    name = plan.project.name
    place = place_of(plan, folder)
    settings: dict[str, str] = {}
    for each in fields(Place):
        value = getattr(place, each.name)
        if value and value != each.default:
            is_path = each.name in ("source", "environment")
            settings[each.name] = _path(value, folder) if is_path else _literal(value)
    title = f"{name} {plan.project.version}".strip()
    return _TEXT.format(
        title=title.replace("\\", "/").replace('"', "'"),
        place="\n".join(f"    {key}={value}," for key, value in settings.items()),
        rows=_literal(ROWS),
        repo=_literal(name),
        name=_literal(name),
        rehearsal=_literal(f"{name}-rehearsal"),
    )


def _path(path: str, folder: Path) -> str:
    """An expression for a path: by way of the file's own place if it is near."""
    absolute, here = _absolute(Path(path)), _absolute(folder)
    for root, name in ((here, "HERE"), (here.parent, "HERE.parent")):
        if absolute.is_relative_to(root):
            parts = "".join(f" / {_literal(part)}" for part in absolute.relative_to(root).parts)
            return f"str({name}{parts})"
    return _literal(str(absolute))


def _absolute(path: Path) -> Path:
    """Without links on the way; the last part may be one itself, as of a venv."""
    return Path(os.path.realpath(os.path.abspath(path.parent)), path.name)


def _literal(value: Any) -> str:
    """A text or a tuple of texts in Python."""
    if isinstance(value, tuple):
        inside = ", ".join(map(_literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return json.dumps(value, ensure_ascii=False)
