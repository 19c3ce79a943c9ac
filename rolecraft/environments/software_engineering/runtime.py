"""The Python of an instance, as a sandbox can use it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering.instances import Instance, Unsupported
from rolecraft.environments.software_engineering.taken import installed_modules, site_packages

_FOR_PYTHON = re.compile(rb"#!.*python")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The Python of an instance."""

    python: str
    site: tuple[str, ...]
    """Folders of packages that this Python does not know of."""
    readable: tuple[str, ...]
    installed: frozenset[str]

    @classmethod
    def of(cls, instance: Instance) -> Runtime:
        """That of its `environment`, else this process's own."""
        environment = Path(instance.environment or sys.prefix).absolute()
        if not environment.is_dir():
            raise Unsupported(instance.id, f"its environment `{environment}`, which is not there")
        python = environment / "bin" / "python"
        packages = tuple(map(str, site_packages(environment)))
        installed = installed_modules(environment)
        home = python.resolve().parent.parent
        if python.exists() and _reachable(home):
            folders = dict.fromkeys((environment, home))
            readable = tuple(str(each) for each in folders if not each.is_relative_to("/usr"))
            return cls(str(python), (), readable, installed)
        # A plain folder, or the interpreter of a venv is where a sandbox cannot read: one of the
        # same version that is in the sandbox will do.
        version = python.parent.parent.glob("lib/python3.*")
        name = next((each.name for each in version), "python3")
        return cls(name, packages, (str(environment),), installed)

    def commands(self) -> dict[str, str]:
        """Shell scripts by name that put a Python of the sandbox in the place of the one that is
        missing: `python`, `pytest`, and what else of the environment that one would run.
        """
        own = f"#!/bin/sh\nexec {shlex.quote(self.python)}"
        found: dict[str, str] = {}
        for path in sorted(Path(self.readable[0], "bin").glob("*")):
            if path.is_file() and _FOR_PYTHON.match(_first_line(path)):
                found[path.name] = f'{own} {shlex.quote(str(path))} "$@"\n'
        if "pytest" in self.installed:
            found["pytest"] = f'{own} -m pytest "$@"\n'
        found["python"] = found["python3"] = f'{own} "$@"\n'
        if self.python == "python3":
            del found["python3"]  # it would run itself
        return found

    def variables(self, commands: Path | None) -> dict[str, str]:
        """What makes it the first Python of a shell. `commands` is a folder with those above."""
        path = ["/usr/local/bin", "/usr/bin", "/bin"]
        if not self.site:
            return {"PATH": ":".join([str(Path(self.python).parent), *path])}
        variables = {"PYTHONPATH": ":".join(self.site)}
        if commands is not None:
            path = [str(commands), f"{self.readable[0]}/bin", *path, f"{sys.base_prefix}/bin"]
            variables["PATH"] = ":".join(path)
        return variables


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(1000)


def _reachable(folder: Path) -> bool:
    """Whether a sandbox can read a folder: one that root makes is run by somebody else."""
    if os.geteuid() != 0:
        return os.access(folder, os.X_OK)
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))
