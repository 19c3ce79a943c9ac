"""The oldest Python that a project runs on, and whether an environment has one that is older.

An upper bound is mostly a guess of years ago, and the clean tests know better: only the lower one
counts.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.metadata import Metadata

_AT_LEAST = re.compile(r"(?:>=|>|~=|===?|\^|~)\s*v?(\d+(?:\.\d+)*)")
_IN_SETTINGS = re.compile(r"^version(?:_info)?\s*=\s*(\d+(?:\.\d+)*)", re.MULTILINE)


def check_python(metadata: Metadata, environment: Path | None) -> None:
    """Raise `UsageError` if the Python of a venv, or this one if None, is too old for a project."""
    version = sys.version_info[:3] if environment is None else version_of(environment)
    if version is None or not is_older(version, metadata.python):
        return
    has = "pip makes an environment with this one,"
    if environment is not None:
        has = f"`--environment {environment}` has"
    raise UsageError(
        f"{metadata.name} needs Python {metadata.python}, and {has} {_shown(version)}: give a venv "
        f"of a newer Python, with pytest and what the project needs, with --environment."
    )


def is_older(version: tuple[int, ...], requires: str) -> bool:
    """Whether a Python is older than `requires-python` allows. What cannot be read is no bound."""
    bounds = (tuple(map(int, each.split("."))) for each in _AT_LEAST.findall(requires))
    return any(version < bound[: len(version)] for bound in bounds)


def version_of(environment: Path) -> tuple[int, ...] | None:
    """As far as a venv says it; None of a plain folder of packages."""
    settings = environment / "pyvenv.cfg"
    if settings.is_file() and (said := _IN_SETTINGS.search(settings.read_text("utf-8", "replace"))):
        return tuple(map(int, said[1].split(".")[:3]))
    found = re.search(r"python(\d+)\.(\d+)", " ".join(map(str, environment.glob("lib/python3.*"))))
    return (int(found[1]), int(found[2])) if found else None


def _shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
