"""The code of an instance on this machine, twice: as the agent gets it, and as it is graded.

What is graded has every test; the agent's has none of the hidden ones, and its reference nowhere.
No sandbox ever changes either, so any number of them begin with one.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from rolecraft.environments.software_engineering._known import Known
from rolecraft.environments.software_engineering._listing import LITTER_FOLDERS
from rolecraft.environments.software_engineering.instances import (
    BadInstance,
    Instance,
    folder_of,
)
from rolecraft.environments.software_engineering.patches import (
    Change,
    PatchError,
    apply_text,
    changes_of_text,
)
from rolecraft.environments.software_engineering.readable import make_readable
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import TestPaths, test_file
from rolecraft.sandboxes import SandboxProvider

NOBODY = 65534
"""Under root, sandboxes of bubblewrap are run by this user."""


@dataclass(frozen=True, slots=True)
class Base:
    """The folders of an instance."""

    agent: Path
    graded: Path
    tests: tuple[str, ...]
    """The Python files in `graded` that belong to the tests."""


class Bases:
    """Prepares each instance once and keeps it until `close`, or the end of this process.

    `of` raises `Unsupported` for an instance without code on this machine, and `BadInstance` for
    one whose source or patches cannot be used.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rolecraft-bases-"))
        self.folder.chmod(0o755)  # a sandbox may be made by another user than this one
        self._ready: dict[str, Base] = {}
        self._made: dict[Runtime, Path] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._known: weakref.WeakKeyDictionary[SandboxProvider, Known] = weakref.WeakKeyDictionary()
        self._close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    async def of(self, instance: Instance) -> Base:
        return await asyncio.to_thread(self._of, instance)

    def _of(self, instance: Instance) -> Base:
        key = json.dumps(asdict(instance), sort_keys=True, default=str)
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._ready:
                place = Path(tempfile.mkdtemp(dir=self.folder))
                place.chmod(0o755)
                self._ready[key] = _prepare(instance, place)
            return self._ready[key]

    async def commands(self, runtime: Runtime) -> Path:
        """A folder of what `Runtime.commands` are, to be read in sandboxes."""
        return await asyncio.to_thread(self._commands, runtime)

    def _commands(self, runtime: Runtime) -> Path:
        with self._locks.setdefault("commands", threading.Lock()):
            if runtime not in self._made:
                place = Path(tempfile.mkdtemp(dir=self.folder))
                for name, text in runtime.commands().items():
                    (place / name).write_text(text)
                    (place / name).chmod(0o755)
                _hand_over(place)
                self._made[runtime] = place
            return self._made[runtime]

    async def reference(self, instance: Instance) -> tuple[Change, ...]:
        """What the reference changes in the agent's folder. Raises `BadInstance` if it can't."""
        base = await self.of(instance)
        try:
            return await changes_of_text(
                base.graded if instance.polarity == "bug" else base.agent,
                instance.patch,
                reverse=instance.polarity == "bug",
            )
        except PatchError as error:
            raise BadInstance("patch", f"is no solution: {error}", instance=instance.id) from error

    def known(self, provider: SandboxProvider) -> Known:
        """What is known of them in `provider`."""
        try:
            return self._known.setdefault(provider, Known())
        except TypeError:  # one of a kind that no dictionary takes: it learns nothing
            return Known()

    def close(self) -> None:
        """Delete the folders."""
        self._close()


@cache
def shared_bases() -> Bases:
    """The ones that environments share unless they are given others."""
    return Bases()


def hidden_paths(instance: Instance) -> tuple[str, ...]:
    """What the agent does not see: `hidden`; if that is empty and no `test_patch` brings them
    later, the files of the tests to mend.
    """
    if instance.hidden or instance.test_patch:
        return instance.hidden
    return tuple(sorted({test_file(test) for test in instance.fail_to_pass} - {""}))


def _prepare(instance: Instance, place: Path) -> Base:
    graded, agent = place / "graded", place / "agent"
    unpack(instance, graded)
    if instance.polarity == "bug":
        _apply(instance, "patch", graded)
    shutil.copytree(graded, agent, symlinks=True)
    if instance.test_patch:
        _apply(instance, "test_patch", graded)
    for path in hidden_paths(instance):
        hidden = agent / path
        if hidden.is_dir() and not hidden.is_symlink():
            shutil.rmtree(hidden)
        else:
            hidden.unlink(missing_ok=True)
    for folder in (graded, agent):
        _hand_over(folder)
    paths = TestPaths(instance)
    modules = sorted(str(each.relative_to(graded)) for each in graded.rglob("*.py"))
    return Base(agent, graded, tuple(path for path in modules if paths.why(path)))


def _hand_over(folder: Path) -> None:
    """Make all of it readable, and that of whoever sandboxes are run by: not of root."""
    if os.geteuid() == 0:
        for each in (folder, *folder.rglob("*")):
            os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
    make_readable(folder)


def _apply(instance: Instance, name: str, folder: Path) -> None:
    try:
        apply_text(folder, getattr(instance, name))
    except PatchError as error:
        raise BadInstance(
            name, f"does not apply to `{instance.source}`: {error.reason}", instance=instance.id
        ) from error


def unpack(instance: Instance, target: Path) -> None:
    """Put the files of an instance's source, at its commit, into the new folder `target`.

    What tools leave behind in a folder is left out. Raises `BadInstance`.
    """
    source = folder_of(instance)
    if source.is_dir():
        if instance.base_commit is not None:
            _check_out(instance, source, target)
        else:
            shutil.copytree(
                source, target, symlinks=True, ignore=lambda _, names: litter_among(names)
            )
        return
    try:
        if source.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(source) as archive:
                archive.extractall(target)  # it leaves no path out of the target
        else:
            with tarfile.open(source) as archive:
                archive.extractall(target, filter="data")
            inside = list(target.iterdir())
            if len(inside) == 1 and inside[0].is_dir():  # an sdist has all in one folder
                inside[0].rename(target.with_name("inside"))
                target.rmdir()
                target.with_name("inside").rename(target)
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise BadInstance(
            "source", f"`{source}` cannot be unpacked: {error}", instance=instance.id
        ) from error


def _check_out(instance: Instance, source: Path, target: Path) -> None:
    """The files of a commit. The repository is only read."""
    git = shutil.which("git")
    if git is None:
        raise BadInstance(
            "base_commit", "needs `git`, which is not installed", instance=instance.id
        )
    target.mkdir()
    archive = target.with_name("commit.tar")
    command = [git, "-c", f"safe.directory={source.resolve()}", "-C", str(source), "archive"]
    command += ["--format=tar", f"--output={archive}"]
    # A name that begins with a dash is no option.
    command += ["--end-of-options", str(instance.base_commit)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BadInstance(
            "base_commit",
            f"{instance.base_commit!r} cannot be had from `{source}`: "
            f"{done.stderr.decode('utf-8', 'replace').strip()}",
            instance=instance.id,
        )
    with tarfile.open(archive) as files:
        files.extractall(target, filter="data")
    archive.unlink()


def litter_among(names: Iterable[str]) -> set[str]:
    """Which names of a folder are of what tools leave behind: caches, compiled files."""
    return {name for name in names if name in LITTER_FOLDERS or name.endswith(".pyc")}
