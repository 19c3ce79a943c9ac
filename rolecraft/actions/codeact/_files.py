"""Files of a sandbox as text: what is none, or too large, is told to the model."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rolecraft.errors import ToolError
from rolecraft.sandboxes.live import SandboxFileError

if TYPE_CHECKING:
    from rolecraft.sandboxes.live import LiveSandbox

MAX_BYTES = 2**20
_IS_LARGER = 'test -f "$1" && test "$(wc -c < "$1")" -gt "$2"'


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the sandbox. As text it is what a model reads."""

    path: str
    """Absolute, without `..`."""
    shown: str
    """Relative where it is in the work folder."""

    @classmethod
    def of(cls, sandbox: LiveSandbox, path: str) -> Place:
        """What a model means by `path`. Raises `ToolError` for what is none."""
        if not path.strip() or "\0" in path:
            raise ToolError(f"`path` is {path!r}: give the path of a file or folder.")
        inside = posixpath.normpath(posixpath.join(sandbox.folder, path))
        relative = posixpath.relpath(inside, sandbox.folder)
        return cls(inside, inside if relative.startswith("..") else relative)

    def __str__(self) -> str:
        return self.shown


class IsFolder(ToolError):
    """A folder was given for a file."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file whose lines end with `newline` throughout; in `text` they end with a line feed."""

    text: str
    newline: str = "\n"

    def encoded(self) -> bytes:
        return self.text.replace("\n", self.newline).encode("utf-8")


async def read_text(sandbox: LiveSandbox, place: Place, *, max_bytes: int = MAX_BYTES) -> TextFile:
    """A text file.

    Raises `IsFolder`, and `ToolError` for a binary file, a huge one, and for none.
    """
    try:
        data = await sandbox.read(place.path, max_bytes=max_bytes)
    except SandboxFileError as error:
        if (await sandbox.run(["test", "-d", place.path])).ok:
            raise IsFolder(f"`{place}` is a folder, not a file.") from error
        hint = ""
        words = ["sh", "-c", _IS_LARGER, "sh", place.path, str(max_bytes)]
        if (await sandbox.run(words)).ok:
            hint = (
                f" Files of more than {max_bytes // 1024} KiB are not read as a whole: look at a "
                f"part of it, with `sed -n '1,100p' FILE` for example."
            )
        raise ToolError(f"`{place}`: {error.reason}.{hint}") from error
    return decoded(data, place)


def decoded(data: bytes, place: Place) -> TextFile:
    """Raises `ToolError` for what is no UTF-8 text."""
    if b"\0" in data:
        raise ToolError(f"`{place}` is a binary file ({len(data)} bytes), not text.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"`{place}` is no UTF-8 text: byte {error.start} is {data[error.start]:#04x}. "
            f"It may be binary, or in another encoding."
        ) from error
    if (count := text.count("\r\n")) and count == text.count("\n") == text.count("\r"):
        return TextFile(text.replace("\r\n", "\n"), "\r\n")
    return TextFile(text)


async def write_bytes(sandbox: LiveSandbox, place: Place, data: bytes) -> None:
    """Write a file; one that could be executed still can. Raises `ToolError` if it cannot be."""
    script = data.startswith(b"#!") and (await sandbox.run(["test", "-x", place.path])).ok
    try:
        await sandbox.write(place.path, data, executable=script)
    except SandboxFileError as error:
        raise ToolError(f"`{place}`: {error.reason}.") from error
