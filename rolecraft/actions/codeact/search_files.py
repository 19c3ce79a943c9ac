"""`SearchFiles`: which lines of which files match."""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.codeact.searching import SearchHits, search_files
from rolecraft.actions.tool import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(ToolResult):
    """What `SearchFiles` found."""

    found: SearchHits


class SearchFiles(SandboxTool):
    """A search like `ripgrep`'s, of at most `limit` lines."""

    name: str = "search_files"
    limit: int = 100

    async def use(
        self, pattern: str, path: str = ".", glob: str = "", ignore_case: bool = False
    ) -> SearchResult:
        """Search text files for lines that match a regular expression.

        Lines come by file, with their numbers. Binary files are left out, and so are `.git`,
        `node_modules`, `.venv` and `__pycache__`.

        Args:
            pattern: a regular expression; escape what is meant as it stands, `foo\\(`.
            path: the folder or file to search, absolute or relative to the work folder.
            glob: search only files of these names: `*.py`, or `src/**/*.py` by the path.
            ignore_case: whether upper and lower case are the same.
        """
        self._place(path)  # a path that cannot be is an error
        found = await search_files(
            self.sandbox, pattern, path=path, glob=glob, ignore_case=ignore_case, limit=self.limit
        )
        return SearchResult(text=str(found), found=found)
