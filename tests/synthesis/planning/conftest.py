"""Small projects, and their plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings

Files = dict[str, str]


Project = Callable[[Files], Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Writes the files of a project."""

    def write(files: Files, name: str = "shapes-1.0") -> Path:
        folder = tmp_path / name
        for path, text in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        return folder

    return write


Planned = Callable[..., Awaitable[Plan]]


@pytest.fixture
def planned(tmp_path: Path, project: Project, bare_environment: Path) -> Planned:
    """Makes the plan of a project with these files, in `tmp_path / "out"`."""

    async def make(files: Files, **settings: Any) -> Plan:
        said = PlanSettings(**{"environment": bare_environment, **settings})
        return await make_plan(project(files), SynthesisFolder(tmp_path / "out"), settings=said)

    return make
