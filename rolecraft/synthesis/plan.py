"""A plan: a project and its clean suite, as `rolecraft synth plan` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from rolecraft.errors import UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.trajectories.whole_file import write_whole

VERSION = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What all further steps begin with. Raises `UsageError` where `load` finds none."""

    project: Project
    suite: Suite
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made, as JSON: where the source came from, when, with which versions."""

    def save(self, folder: SynthesisFolder) -> None:
        """Write it whole or not at all. The paths of source and venv are kept relative."""
        root = folder.path.resolve()
        project = asdict(self.project)
        for name in ("source", "environment"):
            path = Path(project[name]) if project[name] else None
            if path is not None and path.is_relative_to(root):
                project[name] = str(path.relative_to(root))
        said = {"version": VERSION, "about": self.about, "project": project}
        write_whole(folder.plan, json.dumps({**said, "suite": _packed(self.suite)}) + "\n")

    @classmethod
    def load(cls, folder: SynthesisFolder) -> Self:
        try:
            said = json.loads(folder.plan.read_text("utf-8"))
            version = said["version"]
        except FileNotFoundError:
            raise UsageError(
                f"There is no plan in `{folder.path}`: make one, "
                f"`rolecraft synth plan PATH --out {folder.path}`."
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"`{folder.plan}` is no plan: {error!r}. {_anew(folder)}") from error
        if version != VERSION:
            raise UsageError(
                f"`{folder.plan}` has version {version!r}, this Rolecraft reads {VERSION}. "
                f"{_anew(folder)}"
            )
        root = folder.path.resolve()
        given = {key: _tuples(value) for key, value in said["project"].items()}
        project = Project(**given)
        environment = str(root / project.environment) if project.environment else ""
        project = replace(project, source=str(root / project.source), environment=environment)
        return cls(project, _unpacked(said["suite"]), said["about"])

    def without(self, tests: Mapping[str, str]) -> Self:
        """The same, with these tests set aside too, and why."""
        suite = self.suite
        outcomes = {test: each for test, each in suite.outcomes.items() if test not in tests}
        seconds = {test: each for test, each in suite.seconds.items() if test not in tests}
        aside = {**suite.set_aside, **tests}
        return replace(
            self, suite=replace(suite, outcomes=outcomes, seconds=seconds, set_aside=aside)
        )

    def reader(self) -> Callable[[str], str]:
        """Reads a clean file by its path; each is read once. See `candidates.Read`."""
        return cache(self.project.read)


def _anew(folder: SynthesisFolder) -> str:
    return (
        f"Make it anew, which deletes what was made from it: `rolecraft synth plan PATH --out "
        f"{folder.path} --new`."
    )


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _packed(suite: Suite) -> dict[str, Any]:
    """Tests by their number, and sets of tests by theirs: thousands of lines have the same."""
    number = {name: index for index, name in enumerate(suite.outcomes)}
    sets: dict[tuple[str, ...], int] = {}
    seen = {
        path: {str(line): sets.setdefault(tests, len(sets)) for line, tests in by.items()}
        for path, by in suite.seen_by.items()
    }
    numbered = [[number[test] for test in tests if test in number] for tests in sets]
    return {**asdict(replace(suite, seen_by={})), "seen_by": seen, "sets": numbered}


def _unpacked(said: dict[str, Any]) -> Suite:
    names = [*said["outcomes"]]
    sets = [tuple(names[index] for index in numbers) for numbers in said.pop("sets")]
    seen = {
        path: {int(line): sets[at] for line, at in by.items()}
        for path, by in said["seen_by"].items()
    }
    on_import = {path: tuple(lines) for path, lines in said["on_import"].items()}
    return Suite(**{**said, "seen_by": seen, "on_import": on_import})
