"""The venv of a project: pytest, what the project needs, and its metadata, but not its code.

The code that is tested is that of the sandbox's work folder. What a program asks about itself as
installed (`importlib.metadata.version`) is answered by a `.dist-info` folder without files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering.examples.fetch import UNREACHABLE
from rolecraft.environments.software_engineering.readable import make_readable
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import installed_modules, site_packages
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.synthesis.planning.metadata import SELF_TESTED, Metadata
from rolecraft.trajectories.whole_file import write_whole

MARK = "rolecraft-environment.json"
"""What says that a venv is whole, and what is in it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A venv, and what was put into it."""

    path: Path
    installed: tuple[str, ...] = ()
    """Names with versions; empty for one that was there before."""
    warnings: tuple[str, ...] = ()


def use(path: Path) -> Environment:
    """A venv that exists. Raises `UsageError` if it is none, or has no pytest."""
    folder = path.resolve()
    if not folder.is_dir():
        raise UsageError(f"`--environment {path}`: there is no such folder.")
    if "pytest" not in installed_modules(folder):
        raise UsageError(
            f"`--environment {path}` has no pytest: `{path}/bin/python -m pip install pytest`."
        )
    return Environment(folder)


def build(
    folder: Path, metadata: Metadata, needs: Sequence[str], tests: Sequence[str]
) -> Environment:
    """Make a venv in `folder` by pip, or take the one that was made there of the same.

    What only tests need is left out, with a warning, where it cannot be had; then those tests
    fail. Raises `UsageError` where pip reaches no index or does not find what is needed.
    """
    wanted = {"needs": list(needs), "tests": list(tests), "python": sys.version.split()[0]}
    mark = folder / MARK
    if mark.is_file():
        said = json.loads(mark.read_text("utf-8"))
        if said["wanted"] == wanted:
            return Environment(folder, tuple(said["installed"]), tuple(said["warnings"]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    venv.create(folder, symlinks=True)
    warnings: list[str] = []
    if why := _install(folder, [*needs, *tests]):
        if any(sign in why for sign in UNREACHABLE):
            raise _no_index(why)
        required = [*needs, "pytest"]
        if set(required) == {*needs, *tests} or (again := _install(folder, required)):
            raise UsageError(
                f"pip cannot install what {metadata.name} needs: {_short(why)}. Make a venv with "
                f"it and with pytest, and give that with --environment."
            )
        assert not again
        warnings.append(f"pip cannot install what the tests ask for: {_short(why)}")
    installed = _list(folder)
    _describe(folder, metadata)
    make_readable(folder)
    write_whole(
        mark, json.dumps({"wanted": wanted, "installed": installed, "warnings": warnings}) + "\n"
    )
    mark.chmod(0o644)
    return Environment(folder, tuple(installed), tuple(warnings))


def _install(folder: Path, lines: Sequence[str]) -> str:
    """What pip said, if it could not."""
    done = _pip(folder, ["install", "--retries=2", *lines])
    if done.returncode == 0:
        return ""
    if "No module named pip" in done.stderr:
        raise UsageError(
            f"The environment is made by pip, which `{sys.executable}` does not have: run "
            f"`python -m ensurepip`, or give a venv with --environment."
        )
    if "No space left on device" in done.stderr:
        raise RolecraftError(f"`{folder}` cannot be written: No space left on device.")
    return done.stderr.strip()


def _list(folder: Path) -> list[str]:
    done = _pip(folder, ["list", "--format=freeze"])
    return sorted(done.stdout.split()) if done.returncode == 0 else []


def _pip(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), words[0]]
    options = ["--disable-pip-version-check", "--no-input"]
    return subprocess.run(
        [*command, *options, *words[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _no_index(said: str) -> UsageError:
    line = next((line for line in said.splitlines() if any(s in line for s in UNREACHABLE)), said)
    return UsageError(
        f"pip cannot reach its package index, and the environment is made by pip "
        f"({_short(line)}). Make it where there is one, or give a venv with pytest and what the "
        f"project needs: --environment VENV."
    )


def _short(said: str) -> str:
    """Of what pip printed, the errors, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return " ".join(errors or lines[-1:])[:600]


def _describe(folder: Path, metadata: Metadata) -> None:
    """Say that the project is installed, by its metadata alone."""
    name = re.sub(r"[-_.]+", "_", metadata.name)
    version = metadata.version or "0"
    place = site_packages(folder)[0] / f"{name}-{version}.dist-info"
    if not metadata.name or place.exists():
        return
    place.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {metadata.name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in metadata.requires]
    (place / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")
    (place / "INSTALLER").write_text("rolecraft\n")
    (place / "RECORD").write_text("")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
        for group, found in metadata.entry_points.items()
        if group != SELF_TESTED
    ]
    if points:
        (place / "entry_points.txt").write_text("\n".join(points), "utf-8")


def check_reachable(folder: Path) -> None:
    """Raise `UsageError` if sandboxes, which root runs as nobody, could not look into a folder."""
    if closed := _closed(folder):
        raise UsageError(
            f"`{folder}` is below `{closed}`, into which only its owner may look, and sandboxes "
            f"are run by nobody: choose another folder, or `chmod o+x {closed}`."
        )


def out_of_reach(environment: Path) -> str:
    """Why sandboxes cannot run the Python of a venv, and the way out; empty where they can."""
    python = environment / "bin" / "python"
    closed = _closed(python.resolve()) if python.exists() else None
    if closed is None:
        return ""
    return (
        f"the environment's own, `{python.resolve()}`, is below `{closed}`, into which only its "
        f"owner may look, and sandboxes are run by nobody. To have it, give a venv whose Python is "
        f"elsewhere with --environment, or `chmod o+x {closed}`"
    )


def python_warnings(runtime: Runtime, environment: str) -> list[str]:
    """What to know where the tests run with another Python than that of their venv, if any."""
    why = out_of_reach(Path(environment)) if environment and runtime.site else ""
    if not why:
        return []
    return [
        f"The tests run with `{runtime.python}` of the sandbox, and a program that one starts with "
        f"`sys.executable` has none of the environment's packages: {why}."
    ]


def _closed(place: Path) -> Path | None:
    """The first folder on the way, from the inside, into which nobody else may look."""
    if os.geteuid() != 0:
        return None
    above = (each for each in (place, *place.parents) if each.exists())
    return next((each for each in above if not each.stat().st_mode & 0o001), None)
