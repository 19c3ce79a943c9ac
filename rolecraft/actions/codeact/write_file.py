"""`WriteFile`: a file with this content, new or not."""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.actions.codeact._files import write_bytes
from rolecraft.actions.codeact._text import counted, lines_of
from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.tool import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult(ToolResult):
    """What `WriteFile` wrote."""

    path: str
    bytes: int


class WriteFile(SandboxTool):
    """A file as a whole. It is recorded as an artifact."""

    name: str = "write_file"

    async def use(self, path: str, content: str) -> WriteResult:
        """Write a file, its folders too. What was in it before is gone.

        Args:
            path: the file, absolute or relative to the work folder.
            content: all of its text.
        """
        place = self._place(path)
        data = content.encode("utf-8", "replace")
        await write_bytes(self.sandbox, place, data)
        self._record_file(place, data)
        text = (
            f"{place} was written: {counted(len(lines_of(content)), 'line')}, "
            f"{counted(len(data), 'byte')}."
        )
        return WriteResult(text=text, path=place.path, bytes=len(data))
