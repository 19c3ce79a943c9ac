"""A git repository of tasks: each one is a commit without a parent, so its history tells nothing.

    refs/heads/clean   the project as it is, in no task's history
    refs/tasks/ID      a task: the project with the bug, without the files of its hidden tests

The same files give the same commits: author and date are fixed. git's own settings and the
project's `.gitattributes` have no say in what comes out of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.software_engineering._listing import LITTER_FOLDERS
from rolecraft.environments.software_engineering.patches import git
from rolecraft.environments.software_engineering.unified import File, imported, quoted
from rolecraft.errors import RolecraftError

CLEAN = "refs/heads/clean"
TASKS = "refs/tasks/"
DATE = "2000-01-01T00:00:00Z"
"""Of each commit."""
_WHO = "Rolecraft <rolecraft@localhost> 946684800 +0000"
_AT_ONCE = 32 * 2**20
"""Bytes that are handed to git at once."""
_ATTRIBUTES = (
    "* !diff !text !eol !crlf !ident !filter !export-ignore !export-subst !working-tree-encoding\n"
)
_CONFIG = {
    "core.autocrlf": "false",
    "core.attributesFile": os.devnull,
    "gc.auto": "0",
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A task's files, as far as they are not the clean ones."""

    name: str
    """Its ref below `refs/tasks/`: see `ref_name`."""
    changed: Mapping[str, bytes]
    hidden: Sequence[str]


class History:
    """A new repository in `folder`, with the files of `source`. Raises `RolecraftError` if git is
    not installed, or refuses.
    """

    def __init__(self, folder: Path, source: Path, *, message: str) -> None:
        self.folder, self._source = folder, source
        self._message = message.encode("utf-8", "replace")
        self._modes: dict[str, str] = {}
        folder.mkdir(parents=True)
        self._git("init", "-q", "--bare", "--template=", ".")
        (folder / "info").mkdir()
        (folder / "info" / "attributes").write_text(_ATTRIBUTES)
        for name, value in _CONFIG.items():
            self._git("config", name, value)
        self._git("symbolic-ref", "HEAD", CLEAN)
        self._import(self._clean())
        self._tree = self._git("rev-parse", f"{CLEAN}^{{tree}}").strip()

    def add(self, tasks: Iterable[Planted]) -> None:
        """Add tasks; what is held in memory does not grow with their number."""
        self._import(map(self._task, tasks))

    def commits(self) -> dict[str, str]:
        """The commit of each task by its name."""
        said = self._git("for-each-ref", "--format=%(refname) %(objectname)", TASKS)
        pairs = (line.split(" ") for line in said.splitlines())
        return {name.removeprefix(TASKS): commit for name, commit in pairs}

    def close(self) -> None:
        """Put all refs into one file."""
        self._git("pack-refs", "--all")

    def _clean(self) -> Iterator[bytes]:
        yield self._commit(CLEAN)
        for path in files_of(self._source):
            file = _file(self._source, path)
            self._modes[path] = file[0]
            yield imported(file)

    def _task(self, task: Planted) -> bytes:
        parts = [self._commit(f"{TASKS}{task.name}"), f'M 040000 {self._tree} ""\n'.encode()]
        for path, content in task.changed.items():
            parts.append(imported((self._modes.get(path, "100644"), os.fsencode(path), content)))
        parts += [f"D {quoted(os.fsencode(path))}\n".encode() for path in task.hidden]
        return b"".join(parts)

    def _commit(self, ref: str) -> bytes:
        size = len(self._message)
        head = f"commit {ref}\nauthor {_WHO}\ncommitter {_WHO}\ndata {size}\n"
        return head.encode() + self._message + b"\n"

    def _import(self, parts: Iterable[bytes]) -> None:
        """Have git import a stream; it is cut only where a commit begins, but for the first."""
        held: list[bytes] = []
        size = 0
        for part in parts:
            if size >= _AT_ONCE and part.startswith(f"commit {TASKS}".encode()):
                self._git("fast-import", "--quiet", "--done", stdin=b"".join([*held, b"done\n"]))
                held, size = [], 0
            held.append(part)
            size += len(part)
        if held:
            self._git("fast-import", "--quiet", "--done", stdin=b"".join([*held, b"done\n"]))

    def _git(self, *words: str, stdin: bytes = b"") -> str:
        done = git([*words], folder=self.folder, stdin=stdin)
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode:
            raise RolecraftError(f"`git {words[0]}` in `{self.folder}`: {said}")
        return done.stdout.decode("utf-8", "surrogateescape")


def files_of(source: Path) -> list[str]:
    """The files and links of a folder, without what tools leave behind, in a fixed order."""
    found: list[str] = []
    for here, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in LITTER_FOLDERS)
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in (*files, *links):
            path = os.path.join(here, name)
            is_file = os.path.islink(path) or os.path.isfile(path)
            if is_file and not name.endswith(".pyc") and name not in LITTER_FOLDERS:
                found.append(os.path.relpath(path, source))
    return sorted(found)


def ref_name(task: str) -> str:
    """A task's id as the last part of a ref, which git refuses some characters in."""
    name = re.sub(r"[^A-Za-z0-9_.+=-]+", "-", task).strip("-.")
    name = re.sub(r"\.\.+", ".", name).removesuffix(".lock")
    return name or "task"


def _file(source: Path, path: str) -> File:
    place = source / path
    if place.is_symlink():
        return "120000", os.fsencode(path), os.fsencode(os.readlink(place))
    executable = bool(place.stat().st_mode & 0o100)
    return "100755" if executable else "100644", os.fsencode(path), place.read_bytes()
