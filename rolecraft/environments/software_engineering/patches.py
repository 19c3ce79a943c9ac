"""What an agent changed: the files that differ from the base, whatever tool made them differ.

A change holds whole contents, so binary files, renames (one file gone, one new), modes, line ends
and links need no care, and no text can be misread as a patch. A unified diff, as published
predictions have it, becomes the same changes by `git apply` in a copy of the base.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from rolecraft.environments.software_engineering import _listing
from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.sandboxes import LiveSandbox, SandboxFileError, SandboxLimits

MIB = 2**20
MOST_FILES = 2000
MOST_BYTES = 16 * MIB
"""What a patch may hold in files, and in all their bytes together."""
LISTING_LIMITS = SandboxLimits(
    seconds=120, cpu_seconds=120, memory_bytes=1024 * MIB, output_bytes=64 * MIB
)

Entry = tuple[object, ...]
"""`("file", sha256, executable)`, `("link", target)`, `("unreadable", reason)` or `("litter",)`."""
Manifest = Mapping[str, Entry]
"""All files of a folder by path."""


class PatchError(RolecraftError):
    """A patch that cannot be graded. Attributes: `kind`, `reason`."""

    def __init__(self, kind: Literal["patch_does_not_apply", "patch_too_large"], reason: str):
        self.kind, self.reason = kind, reason
        super().__init__(f"{kind.replace('_', ' ').capitalize()}: {reason}")


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is new, another, or gone. Raises `UsageError` for a path that is none of a work
    folder: absolute, with `..`, or not in its shortest form.
    """

    path: str
    kind: Literal["file", "link", "gone"]
    content: bytes = b""
    """Of a file; of a link its target."""
    executable: bool = False

    def __post_init__(self) -> None:
        if not _is_inside(self.path):
            raise UsageError(
                f"`Change({self.path!r})` is no path of a file below the work folder: give it "
                "relative to that, in its shortest form, without `..`."
            )

    @property
    def text(self) -> str | None:
        """The content, if it is text."""
        try:
            return self.content.decode() if self.kind == "file" else None
        except UnicodeDecodeError:
            return None


async def manifest(sandbox: LiveSandbox) -> Manifest:
    """All files of a sandbox's work folder. Raises `SandboxError` if it cannot say, or what it says
    is no list of files.
    """
    command = ["python3", "-I", "-S", "-c", _listing_source()]
    done = await sandbox.run(command, limits=LISTING_LIMITS)
    if not done.ok or done.stdout_truncated:
        raise SandboxError(f"The files of the sandbox cannot be listed: {done}")
    try:
        said = json.loads(done.stdout)
    except (ValueError, RecursionError) as error:
        raise SandboxError(f"The sandbox lists its files as no JSON: {error}") from error
    if not isinstance(said, dict):
        raise SandboxError(f"The sandbox lists its files as {type(said).__name__}, not an object.")
    for path, entry in said.items():
        if not (_is_inside(path) and _is_entry(entry)):
            raise SandboxError(f"The sandbox lists {path!r} as {entry!r:.200}: that is no file.")
    return {path: tuple(entry) for path, entry in said.items()}


def _is_inside(path: str) -> bool:
    """Whether a path can be that of a file below a work folder, written in its one form."""
    place = PurePosixPath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    odd = place.is_absolute() or ".." in place.parts or not place.parts or "\0" in path
    return not odd and str(place) == path


def _is_entry(entry: object) -> bool:
    match entry:
        case ["file", str(), bool()] | ["unreadable", str()] | ["litter"]:
            return True
        case ["link", str(target)]:
            try:
                return "\0" not in target and bool(os.fsencode(target))
            except UnicodeEncodeError:
                return False
        case _:
            return False


async def changes_in(
    sandbox: LiveSandbox, before: Manifest, after: Manifest | None = None
) -> tuple[Change, ...]:
    """What differs in a sandbox from `before`; litter does not count.

    `after` is its manifest now, if that is known. Raises `PatchError` if it is too much, and
    `SandboxError` as `manifest` does.
    """
    after = await manifest(sandbox) if after is None else after
    changes: list[Change] = []
    left = MOST_BYTES
    for path in _differing(before, after):
        change = _without_content(path, after)
        if change.kind == "file":
            try:
                content = await sandbox.read(path, max_bytes=max(left, 1))
            except SandboxFileError as error:
                raise PatchError("patch_too_large", str(error)) from error
            change = Change(path, "file", content, change.executable)
            left = _room(left, content)
        changes.append(change)
    return tuple(changes)


def new_litter(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """Files and folders of `after` that are taken for what tools leave behind, by their names."""
    return tuple(
        sorted(
            path
            for path, entry in after.items()
            if entry == ("litter",) and before.get(path) != entry
        )
    )


async def changes_of_text(base: Path, patch: str, *, reverse: bool = False) -> tuple[Change, ...]:
    """What a unified diff changes in a folder, which stays as it is.

    Raises `PatchError` if it does not apply, or is too large.
    """
    return await asyncio.to_thread(_changes_of_text, base, patch, reverse)


def _changes_of_text(base: Path, patch: str, reverse: bool) -> tuple[Change, ...]:
    if not patch.strip():
        return ()
    if len(patch) > MOST_BYTES:
        raise PatchError("patch_too_large", f"{len(patch)} characters; {MOST_BYTES} are allowed")
    with tempfile.TemporaryDirectory(prefix="rolecraft-patch-") as place:
        copy = Path(place, "copy")
        shutil.copytree(base, copy, symlinks=True)
        apply_text(copy, patch, reverse=reverse)
        return differences(base, copy)


def differences(before: Path, after: Path) -> tuple[Change, ...]:
    """What differs between two folders of this machine. Raises `PatchError` if it is too much."""
    was, now = (
        {path: tuple(entry) for path, entry in _listing.listing(str(folder)).items()}
        for folder in (before, after)
    )
    changes: list[Change] = []
    left = MOST_BYTES
    for path in _differing(was, now):
        change = _without_content(path, now)
        if change.kind == "file":
            content = (after / path).read_bytes()
            change = Change(path, "file", content, change.executable)
            left = _room(left, content)
        changes.append(change)
    return tuple(changes)


def apply_text(folder: Path, patch: str, *, reverse: bool = False) -> None:
    """Apply a unified diff to a folder. Raises `PatchError` if it does not apply."""
    done = git(
        ["apply", "--whitespace=nowarn", *(["-R"] if reverse else []), "-"],
        stdin=(patch if patch.endswith("\n") else patch + "\n").encode("utf-8", "surrogatepass"),
        folder=folder,
    )
    if done.returncode:
        raise PatchError("patch_does_not_apply", done.stderr.decode("utf-8", "replace").strip())


def git(
    words: list[str], *, folder: Path, stdin: bytes = b"", seconds: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder. Raises `RolecraftError` if it is not installed or takes too long."""
    program = shutil.which("git")
    if program is None:
        raise RolecraftError("`git` is not installed; it is what makes and applies diffs.")
    try:
        return _run_git([program, *words], folder, stdin, seconds)
    except subprocess.TimeoutExpired as error:
        raise RolecraftError(f"`git {words[0]}` took more than {seconds} s.") from error


def _run_git(
    command: list[str], folder: Path, stdin: bytes, seconds: float | None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        input=stdin,
        cwd=folder,
        # No repository around the folder, and no settings of anybody's, have a say.
        env={
            "PATH": os.defpath,
            "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        },
        capture_output=True,
        check=False,
        timeout=seconds,
    )


async def put(sandbox: LiveSandbox, changes: tuple[Change, ...], *, python: str) -> None:
    """Make changes in a sandbox that has the base. Raises `PatchError` where they do not fit."""
    if not changes:
        return
    command = [python, "-I", "-c", f"{PUT}\nimport json\nput(json.load(sys.stdin))"]
    done = await sandbox.run(command, stdin=json.dumps(orders(changes)), limits=LISTING_LIMITS)
    if not done.ok:
        raise PatchError("patch_does_not_apply", (done.stderr.strip().split("\n") or [""])[-1])


def orders(changes: Iterable[Change]) -> list[dict[str, object]]:
    """Changes as `PUT` takes them."""
    return [
        {
            "path": change.path,
            "kind": change.kind,
            "content": change.content.hex(),
            "executable": change.executable,
        }
        for change in changes
    ]


PUT = """
import os, sys
def put(orders):
    root = os.path.realpath(".")
    def check(path):
        folder = os.path.dirname(path) or "."
        # Below a link, a path is not where it seems to be.
        if os.path.realpath(folder) != os.path.normpath(os.path.join(root, folder)):
            sys.exit(f"{path} lies beyond a link")
    def is_folder(path):
        return os.path.isdir(path) and not os.path.islink(path)
    for order in orders:
        path = order["path"]
        if not os.path.lexists(path) or is_folder(path):
            continue
        if order["kind"] != "file" or os.path.islink(path):
            check(path)
            os.unlink(path)
    for order in orders:
        path = order["path"]
        if order["kind"] == "gone":
            continue
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        check(path)
        if is_folder(path):
            # All that was in it is gone by now, if the patch takes its place.
            for here, _, _ in os.walk(path, topdown=False):
                os.rmdir(here)
        data = bytes.fromhex(order["content"])
        if order["kind"] == "link":
            os.symlink(data, path)
            continue
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, 0o755 if order["executable"] else 0o644)
"""
"""Makes changes in the current folder. It is run inside a sandbox, where Python is all there is."""


def content_before(base: Path, path: str) -> bytes | None:
    """What a file of the folder `base` holds; None if there is none, or it lies beyond a link."""
    place = base / path
    if beyond_a_link(base, path) or place.is_symlink() or not place.is_file():
        return None
    return place.read_bytes()


def beyond_a_link(base: Path, path: str) -> bool:
    """Whether a path of the folder `base` is not where it seems to be."""
    folder = os.path.dirname(path)
    return os.path.realpath(base / folder) != os.path.normpath(
        os.path.join(os.path.realpath(base), folder)
    )


def _differing(before: Manifest, after: Manifest) -> list[str]:
    paths = sorted(
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
        and ("litter",) not in (before.get(path), after.get(path))
    )
    if len(paths) > MOST_FILES:
        raise PatchError("patch_too_large", f"{len(paths)} files; {MOST_FILES} are allowed")
    return paths


def _without_content(path: str, after: Manifest) -> Change:
    match after.get(path):
        case None:
            return Change(path, "gone")
        case ("link", str(target)):
            return Change(path, "link", os.fsencode(target))
        case ("file", _, executable):
            return Change(path, "file", executable=bool(executable))
        case entry:
            raise PatchError("patch_does_not_apply", f"`{path}` cannot be read: {entry[-1]}")


def _room(left: int, content: bytes) -> int:
    if len(content) > left:
        raise PatchError("patch_too_large", f"more than {MOST_BYTES} bytes")
    return left - len(content)


@cache
def _listing_source() -> str:
    return Path(_listing.__file__).read_text("utf-8")
