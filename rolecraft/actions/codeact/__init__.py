"""CodeAct: the tools with which a model works in a sandbox.

    tools = codeact_tools()            # in the sandbox of the role's environment
    tools = codeact_tools(sandbox)     # in this one

Three are those of the published agents (`execute_bash`, `str_replace_editor`, `finish`); the others
do often needed things with less to go wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.codeact.editor import EditorResult, StrReplaceEditor
from rolecraft.actions.codeact.execute_bash import BashResult, ExecuteBash
from rolecraft.actions.codeact.finish import finish
from rolecraft.actions.codeact.read_file import ReadFile, ReadResult
from rolecraft.actions.codeact.run_tests import RunTests, TestResult
from rolecraft.actions.codeact.search_files import SearchFiles, SearchResult
from rolecraft.actions.codeact.searching import SearchHit, SearchHits, search_files
from rolecraft.actions.codeact.write_file import WriteFile, WriteResult
from rolecraft.actions.tool import ToolAction

if TYPE_CHECKING:
    from rolecraft.sandboxes.live import LiveSandbox

__all__ = [
    "BashResult",
    "EditorResult",
    "ExecuteBash",
    "ReadFile",
    "ReadResult",
    "RunTests",
    "SandboxTool",
    "SearchFiles",
    "SearchHit",
    "SearchHits",
    "SearchResult",
    "StrReplaceEditor",
    "TestResult",
    "WriteFile",
    "WriteResult",
    "codeact_tools",
    "finish",
    "search_files",
]


def codeact_tools(sandbox: LiveSandbox | None = None) -> list[ToolAction]:
    """All of them, in `sandbox`, or in that of the environment of the role that has them."""
    kinds: tuple[type[SandboxTool], ...] = (
        ExecuteBash,
        StrReplaceEditor,
        SearchFiles,
        ReadFile,
        WriteFile,
        RunTests,
    )
    return [*(kind(sandbox=sandbox) for kind in kinds), finish]
