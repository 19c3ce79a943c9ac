"""Files as documents: a role says what is in a file, and whoever hears it has the file.

Invariant: the files of a team are what its messages say, the last word on each path. There is no
folder beside the record that could disagree with it: a run that is recovered, replayed or read a
year later has its files again, and roles that act at the same time cannot overwrite each other's
work half-way, because a message is delivered when the round ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from rolecraft.actions.code_blocks import code_blocks
from rolecraft.messages import Message
from rolecraft.trajectories.trajectory import Trajectory

LONGEST_PATH = 200
"""In bytes. Every file system takes these, and what is longer is an answer gone wrong."""


def _checked(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
        raise ValueError(f"{path!r} is no relative path inside the project, such as 'game.py'")
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        raise ValueError(f"the path {path[:40]!r}… is longer than {LONGEST_PATH} bytes")
    return str(PurePosixPath(path))


FilePath = Annotated[str, AfterValidator(_checked)]
"""A relative path inside the project, with `/` between folders."""


class SourceFile(BaseModel):
    """A file and its whole content."""

    model_config = ConfigDict(extra="forbid")

    path: FilePath
    content: str

    def message(self) -> Message:
        """The message that hands this file on."""
        return Message(str(self), instruct_content=self)

    def __str__(self) -> str:
        # Longer than any fence inside, so that a file of Markdown ends where it ends.
        fence = max(["``", *re.findall(r"`{3,}", self.content)], key=len) + "`"
        return f"`{self.path}`:\n{fence}\n{self.content.rstrip()}\n{fence}"


def files_of(messages: Iterable[Message]) -> dict[str, str]:
    """The files that these messages carry, by path: of each path the last content."""
    files: dict[str, str] = {}
    for message in messages:
        if isinstance(message.instruct_content, SourceFile):
            _put(files, message.instruct_content)
    return files


def files_in(trajectory: Trajectory) -> dict[str, str]:
    """The files that the roles of a run left, by path, from the record alone.

    A file is what carries a path and a content and nothing else, whatever the team's own type
    for it is called.
    """
    files: dict[str, str] = {}
    for event in trajectory.of("message"):
        try:
            file = SourceFile.model_validate(event.data.get("instruct_content"))
        except ValidationError:
            continue
        _put(files, file)
    return files


def _put(files: dict[str, str], file: SourceFile) -> None:
    """Add a file. What was a file where it needs a folder, or the reverse, gives way."""
    for path in list(files):
        if path.startswith(f"{file.path}/") or file.path.startswith(f"{path}/"):
            del files[path]
    files[file.path] = file.content


def write_files(files: dict[str, str], folder: str | Path) -> Path:
    """Write files below `folder`, which is made if need be; the folder."""
    folder = Path(folder)
    for path, content in files.items():
        target = folder / _checked(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", errors="surrogatepass")
    return folder


def code_in(answer: str) -> str:
    """The code of a model's answer: its longest fenced block, or all of it if it has none."""
    blocks = [block.code for block in code_blocks(answer)]
    if not blocks:
        blocks = [answer.strip().removeprefix("```").removesuffix("```")]
    return max(blocks, key=len).strip("\n") + "\n"
