"""What a project is to us: its code, its tests, and how these run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rolecraft.environments.software_engineering.instances import Instance, Runner
from rolecraft.environments.software_engineering.taken import test_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A repository whose tests can be run here. All paths but `source` are relative to it."""

    name: str
    """As it is distributed, such as `more-itertools`; of a folder without settings, its name."""
    version: str = ""
    source: str
    """The folder of the clean files: a copy of ours, which nobody changes."""
    code: tuple[str, ...]
    """The files in which bugs may be planted."""
    tests: tuple[str, ...]
    """The files of the tests, with what belongs to them (`conftest.py`)."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Files of code in which none are planted, and why: generated, a syntax that is refused, …"""
    runner: Runner = "pytest"
    test_command: tuple[str, ...] = ()
    """For pytest: further arguments. For the other runners: the command, which writes `report`."""
    report: str = ""
    python_path: tuple[str, ...] = (".",)
    """Folders from which its packages are imported, such as `("src",)`."""
    environment: str = ""
    """The venv with pytest and what the project needs. Empty: none is needed (CTest)."""

    def read(self, path: str) -> str:
        """The text of a clean file; empty for one that is not there. See `candidates.Read`."""
        place = Path(self.source) / path
        return place.read_bytes().decode("utf-8") if place.exists() else ""

    def outside_code(self, tests: Iterable[str]) -> list[str]:
        """Those of these tests that tell of a bug. One in a file of code, such as an example in a
        docstring, does not: whoever mends the code could change it.
        """
        code = {*self.code, *self.skipped}
        return [test for test in tests if test_file(test) not in code]

    def as_instance(self) -> Instance:
        """Its clean files and how their tests run, as grading knows them. There is nothing to
        solve: the rest is to be replaced.
        """
        return Instance(
            id=self.name,
            problem="-",
            fail_to_pass=("-",),
            source=self.source,
            environment=self.environment or None,
            python_path=self.python_path,
            runner=self.runner,
            test_command=self.test_command,
            report=self.report,
        )
