"""Which files of a folder are the project's: of a git checkout, those that git does not ignore.

Passwords in `.env`, databases, a venv: what git ignores was meant for nobody else, and a task is
read by agents and pushed. What tests need of it is named by the user (`also`). What the project's
build has made comes along unnamed: compiled modules beside the code, a file with the version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering._listing import LITTER_ENDS, LITTER_FOLDERS
from rolecraft.environments.software_engineering.bases import litter_among
from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.compiled import BUILT
from rolecraft.synthesis.planning.version_file import version_files

_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""What git sets for its hooks, and would take for the repository that is asked about."""
_WITH = ("LC_ALL=C", "GIT_DISCOVERY_ACROSS_FILESYSTEM=1")
"""For errors that can be told apart, and the repository of a folder that is mounted in it."""
_SECRETS = re.compile(
    r"\.env(\..+)?|\.envrc|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.pypirc|\.git-credentials|\.htpasswd"
    r"|(credentials?|secrets?)(\.(json|toml|ya?ml|ini|txt|env))?"
)
_NO_SECRETS = re.compile(r".+\.(example|sample|template|dist|defaults?)|credentials?|secrets?")
_MISSING = re.compile(r"No such file|FileNotFound|does not exist|not found")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a checkout, by paths relative to it, and what git ignores there.

    A folder of which everything is ignored stands once in `ignored`, with a slash at its end.
    """

    files: tuple[str, ...]
    ignored: tuple[str, ...]


def tree_of(folder: Path) -> Tree | None:
    """What git says of a folder and the submodules in it; None of one that is no checkout.

    Raises `UsageError` without git, and where git cannot read the repository.
    """
    around = next((each for each in _and_above(folder) if (each / ".git").exists()), None)
    if around is None:
        return None
    if shutil.which("git") is None:
        raise UsageError(
            f"`{folder}` is in a git checkout, and what git ignores is to stay out of the tasks, "
            f"but there is no `git` on the PATH to ask: install it, or give a source archive."
        )
    if around != folder.resolve():
        said = _git(folder, "check-ignore", "-q", ".")
        if b"not a git repository (or any" in said.stderr:
            return None
        if said.returncode == 0 and not _paths(folder, "--cached"):
            return None  # somebody else's repository, which does not care for this folder
    files = _paths(folder, "--cached", "--others")
    ignored = _paths(folder, "--others", "--ignored", "--directory")
    kept: dict[str, None] = {}
    left = [path for path in ignored if not _is_litter(path)]
    for path in files:
        place = folder / path
        if place.is_dir() and not place.is_symlink():  # another repository: a submodule, or a clone
            inside = tree_of(place) if (place / ".git").exists() else None
            if inside is not None:
                kept |= dict.fromkeys(os.path.join(path, each) for each in inside.files)
                left += [os.path.join(path, each) for each in inside.ignored]
        elif os.path.lexists(place) and not litter_among(PurePosixPath(path).parts):
            kept[path] = None  # what was deleted but not committed is gone
    return Tree(tuple(kept), tuple(left))


def copy_tree(folder: Path, target: Path, *, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Copy the files of a project's folder to the new folder `target`. What was left out since git
    ignores it, as `Tree.ignored`.

    `also` are paths or patterns, relative to `folder`, of what git ignores and is copied all the
    same. Raises `UsageError` for one that names nothing, and what `tree_of` does.
    """
    tree = tree_of(folder)
    named = {place for pattern in also for place in _matching(folder, pattern)}
    if tree is None:
        shutil.copytree(folder, target, symlinks=True, ignore=lambda _, names: litter_among(names))
        return ()
    target.mkdir(parents=True)
    taken = {*tree.files, *_within(folder, named), *_built(folder, tree.files)}
    for path in sorted(taken):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / path, place, follow_symlinks=False)
    whole = {str(place.relative_to(folder)) for place in named}
    return tuple(
        path
        for path in tree.ignored
        if path not in taken
        and whole.isdisjoint(map(str, (PurePosixPath(path), *PurePosixPath(path).parents)))
    )


def needed(message: str, left_out: Iterable[str]) -> str:
    """Of what was left out, that which a test seems to miss that failed so; empty if none."""
    for path in left_out:
        plain = path.rstrip("/")
        module = re.escape(plain.removeprefix("src/").removesuffix(".py").replace("/", "."))
        parent, _, name = module.rpartition(r"\.")
        says = [
            rf"(?<![\w.-]){re.escape(path)}" + ("" if path != plain else r"(?![\w-])"),
            rf"No module named '{module}['.]",
        ]
        if parent:
            says.append(rf"cannot import name '{name}' from '{parent}'")
        if _MISSING.search(message):
            says.append(rf"(?<![\w.-]){re.escape(PurePosixPath(plain).name)}(?![\w-])")
        if any(re.search(each, message) for each in says):
            return plain
    return ""


def secrets_among(folder: Path) -> list[str]:
    """Files that are named as those with passwords and keys are."""
    return sorted(
        str(each.relative_to(folder))
        for each in folder.rglob("*")
        if _SECRETS.fullmatch(each.name) and not _NO_SECRETS.fullmatch(each.name) and each.is_file()
    )


def _and_above(folder: Path) -> tuple[Path, ...]:
    place = folder.resolve()
    return (place, *place.parents)


def _built(folder: Path, files: Sequence[str]) -> Iterator[str]:
    """What the project's build has made in its checkout, and what its code needs."""
    for path in version_files(folder):
        place = folder / path
        if place.is_file() and place.resolve().is_relative_to(folder.resolve()):
            yield os.path.normpath(path)
    for parent in dict.fromkeys(os.path.dirname(path) for path in files):
        for name in sorted(os.listdir(folder / parent)):
            if name.endswith(BUILT):
                yield os.path.join(parent, name)


def _matching(folder: Path, pattern: str) -> list[Path]:
    """What a path or pattern names."""
    words = PurePosixPath(pattern)
    if not words.parts or words.is_absolute() or ".." in words.parts:
        raise UsageError(f"`--also {pattern}` is no path within the project `{folder}`.")
    if not (found := list(folder.glob(pattern))):
        raise UsageError(f"`--also {pattern}`: there is no such file in `{folder}`.")
    return found


def _within(folder: Path, places: Iterable[Path]) -> Iterator[str]:
    """Files, and all files of folders."""
    for place in places:
        for each in (place, *place.rglob("*")):
            path = each.relative_to(folder)
            if (each.is_symlink() or each.is_file()) and not litter_among(path.parts):
                yield str(path)


def _paths(folder: Path, *which: str) -> list[str]:
    done = _git(folder, "ls-files", "-z", "--exclude-standard", *which)
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise UsageError(
            f"`{folder}` is in a git checkout, and git cannot say what it ignores there ({said}): "
            f"mend that, or give a copy without its `.git`."
        )
    return [os.fsdecode(each) for each in done.stdout.split(b"\0") if each]


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in a checkout, with its user's settings: what they ignore everywhere counts too.

    The owner may be another user, so nothing that the repository names is run: `ls-files` knows no
    such thing but the monitor of files.
    """
    without = [word for name in _ELSEWHERE for word in ("-u", name)]
    trusted = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false"]
    return subprocess.run(
        ["env", *without, *_WITH, "git", *trusted, "-C", str(folder), *words],
        capture_output=True,
        check=False,
    )


def _is_litter(path: str) -> bool:
    return any(
        part in LITTER_FOLDERS or part.endswith(LITTER_ENDS) for part in PurePosixPath(path).parts
    )
