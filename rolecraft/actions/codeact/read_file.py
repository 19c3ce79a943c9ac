"""`ReadFile`: a file's text as it is."""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.actions.codeact._files import read_text
from rolecraft.actions.codeact._text import head_and_tail, lines_of
from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.tool import ToolResult
from rolecraft.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult(ToolResult):
    """What `ReadFile` read."""

    path: str
    first_line: int
    last_line: int
    lines: int
    """How many the file has."""


class ReadFile(SandboxTool):
    """A text file, or some of its lines. At most `characters` are told, from head and tail."""

    name: str = "read_file"
    characters: int = 30_000

    async def use(self, path: str, first_line: int = 1, last_line: int | None = None) -> ReadResult:
        """Read a text file as it is, without line numbers.

        Args:
            path: the file, absolute or relative to the work folder.
            first_line: the first line to read, from 1.
            last_line: the last one; the end of the file, unless given.
        """
        place = self._place(path)
        lines = lines_of((await read_text(self.sandbox, place)).text)
        last = len(lines) if last_line is None else min(last_line, len(lines))
        if first_line < 1 or (last_line is not None and last_line < first_line):
            raise ToolError(
                f"Lines {first_line} to {last_line} are none: the first is at least 1, the last "
                f"not less than the first."
            )
        if first_line > max(len(lines), 1):
            raise ToolError(f"`{path}` has {len(lines)} lines, none with number {first_line}.")
        text = head_and_tail("\n".join(lines[first_line - 1 : last]), self.characters)
        return ReadResult(
            text=text, path=place.path, first_line=first_line, last_line=last, lines=len(lines)
        )
