"""Changes as a unified diff, and how many lines they add and take away. Both are made by git."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from rolecraft.environments.software_engineering.patches import (
    Change,
    beyond_a_link,
    content_before,
    git,
)
from rolecraft.errors import RolecraftError

SECONDS = 60.0
"""What each call of git may take."""
File = tuple[str, bytes, bytes]
"""Mode, path, content."""


def diff(base: Path, changes: Sequence[Change]) -> str:
    """The changes of the folder `base` as a unified diff that `git apply` takes.

    It has modes, empty files, links and binary files. What is not UTF-8, or has a NUL, is binary.
    It may take a while: call it in a thread. Raises `RolecraftError` if git is not installed, or
    takes longer than `SECONDS`.
    """
    return "".join(_outputs(base, changes, "--binary"))


def lines_changed(base: Path, changes: Sequence[Change]) -> tuple[int, int]:
    """Lines that are added and removed in files of text. Lines end at `\\n` only; what a
    link leads to is one. Raises as `diff` does.
    """
    text, _ = _outputs(base, changes, "--numstat", "-z")
    counts = [entry.split("\t")[:2] for entry in text.split("\0") if entry]
    return sum(int(added) for added, _ in counts), sum(int(removed) for _, removed in counts)


def _outputs(base: Path, changes: Sequence[Change], *options: str) -> tuple[str, str]:
    """What `git diff` says of the files of text, and of the binary ones."""
    sides: dict[bool, tuple[list[File], list[File]]] = {True: ([], []), False: ([], [])}
    for change in changes:
        was, now = _before(base, change.path), _after(change)
        before, after = sides[all(_is_text(side[2]) for side in (was, now) if side)]
        before += [was] if was else []
        after += [now] if now else []
    if not changes:
        return "", ""
    with tempfile.TemporaryDirectory(prefix="rolecraft-diff-") as place:
        # In a bare repository, no `.gitattributes` of a patch decides what is shown of it.
        folder = Path(place)
        _call(folder, ["init", "-q", "--bare", "--template=", "."])
        stream = b"".join(
            _commit(f"{name}-{text}", files)
            for text, pair in sides.items()
            for name, files in zip(("before", "after"), pair, strict=True)
        )
        _call(folder, ["fast-import", "--quiet", "--done"], stream + b"done\n")
        command = ["diff", "--no-renames", "--no-ext-diff", "--no-color", *options]
        text = _call(folder, [*command, "--text", "before-True", "after-True", "--"])
        if not any(sides[False]):
            return text.decode("utf-8", "replace"), ""
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_text("* -diff\n")  # binary, whatever it looks like
        binary = _call(folder, [*command, "before-False", "after-False", "--"])
    # Git cuts the heading of a hunk after so many bytes, so it may not be UTF-8.
    return text.decode("utf-8", "replace"), binary.decode("utf-8", "replace")


def _call(folder: Path, words: list[str], stdin: bytes = b"") -> bytes:
    done = git(words, folder=folder, stdin=stdin, seconds=SECONDS)
    if done.returncode:
        raise RolecraftError(f"`git {words[0]}`: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def _before(base: Path, path: str) -> File | None:
    place = base / path
    if place.is_symlink() and not beyond_a_link(base, path):
        return "120000", os.fsencode(path), os.fsencode(os.readlink(place))
    content = content_before(base, path)
    if content is None:
        return None
    return _mode(bool(place.stat().st_mode & 0o100)), os.fsencode(path), content


def _after(change: Change) -> File | None:
    if change.kind == "gone":
        return None
    mode = "120000" if change.kind == "link" else _mode(change.executable)
    return mode, os.fsencode(change.path), change.content


def _mode(executable: bool) -> str:
    return "100755" if executable else "100644"


def _commit(branch: str, files: Iterable[File]) -> bytes:
    """A commit in the format of `git fast-import`."""
    parts = [f"commit refs/heads/{branch}\ncommitter a <a> 0 +0000\ndata 0\n".encode()]
    return b"".join([*parts, *map(imported, files)])


def imported(file: File) -> bytes:
    """A file of a commit in the format of `git fast-import`."""
    mode, path, content = file
    return f"M {mode} inline {quoted(path)}\ndata {len(content)}\n".encode() + content + b"\n"


def quoted(path: bytes) -> str:
    """A path in the format of `git fast-import`, whatever is in it."""
    return '"' + "".join(f"\\{byte:03o}" for byte in path) + '"'
