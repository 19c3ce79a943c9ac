"""The `scenario.py` of a folder of tasks: a few lines of the user's own, to run and to change."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from dataclasses import fields
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering import Place
from rolecraft.environments.task import Split
from rolecraft.synthesis.gathering.row_files import ROWS
from rolecraft.synthesis.gathering.tasks import place_of
from rolecraft.synthesis.plan import Plan

_TEXT = '''"""Bugs planted in {title}: each task is to mend one.

    {commands}
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


def scenario_file(plan: Plan, folder: Path, splits: Container[Split]) -> str:
    """The text of the file, for the folder of tasks, which has tasks in these splits. What lies in
    the folder above is named relative to the file.
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
        commands="\n    ".join(commands(splits)),
        title=title.replace("\\", "/").replace('"', "'"),
        place="\n".join(f"    {key}={value}," for key, value in settings.items()),
        rows=_literal(ROWS),
        repo=_literal(name),
        name=_literal(name),
        rehearsal=_literal(f"{name}-rehearsal"),
    )


def commands(splits: Container[Split]) -> list[str]:
    """What can be done with the file, where there are tasks in these splits."""
    told = [
        "rolecraft run scenario.py:rehearsal     (a stand-in that knows the solutions: no model)",
        "rolecraft run scenario.py:tasks --model openai/gpt-4o-mini",
    ]
    split = "" if "test" in splits else " --split train"
    told.append(f"rolecraft evaluate scenario.py:tasks --model openai/gpt-4o-mini{split}")
    if "train" in splits:
        told.append("rolecraft train scenario.py:tasks --model transformers:Qwen/Qwen3-0.6B")
    return told


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
