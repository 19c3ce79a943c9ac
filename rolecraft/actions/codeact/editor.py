"""`StrReplaceEditor`: look at files, and change them by exact text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from rolecraft.actions._threads import in_thread
from rolecraft.actions.codeact._files import (
    MAX_BYTES,
    IsFolder,
    Place,
    TextFile,
    decoded,
    read_text,
    write_bytes,
)
from rolecraft.actions.codeact._replacing import replaced_once
from rolecraft.actions.codeact._text import counted, head_and_tail, lines_of, numbered
from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.tool import ToolResult
from rolecraft.errors import ToolError
from rolecraft.sandboxes.live import SandboxFileError

Command = Literal["view", "create", "str_replace", "insert", "undo_edit"]
_AROUND = 4
"""How many lines before and after a change are shown."""
_ENTRIES = 400
_UNDOS = 20
"""How many edits of a file can be taken back."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorResult(ToolResult):
    """What came of one command of `StrReplaceEditor`."""

    command: Command
    path: str
    """Absolute, in the sandbox."""


class StrReplaceEditor(SandboxTool):
    """An editor of text files, with the commands and the line numbers that models know.

    Files larger than 1 MiB, binary ones, and such that are not UTF-8 are refused. A view tells at
    most `characters`. Every change is recorded as an artifact.
    """

    name: str = "str_replace_editor"
    characters: int = 30_000

    async def use(
        self,
        command: Command,
        path: str,
        view_range: list[int] | None = None,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
    ) -> EditorResult:
        """Look at files and change them.

        `view` shows a file with line numbers (a part of it with `view_range`), or what is in a
        folder, two levels deep, without hidden entries. `create` makes a new file of `file_text`.
        `str_replace` puts `new_str` in the place of `old_str`, which must stand in the file exactly
        once, with the same whitespace and without line numbers. `insert` puts `new_str` after line
        `insert_line`. `undo_edit` takes back the last change that this tool made to the file.

        Args:
            command: what to do.
            path: the file or folder, absolute or relative to the work folder.
            view_range: for `view`, first and last line, from 1; `[10, -1]` is from 10 to the end.
            file_text: for `create`, the whole content.
            old_str: for `str_replace`, the text that goes.
            new_str: for `str_replace` (nothing, unless given) and `insert`, the text that comes.
            insert_line: for `insert`, the line after which the text comes; 0 is the beginning.
        """
        place = self._place(path)
        match command:
            case "view":
                text = await self._view(place, view_range)
            case "create":
                text = await self._create(place, _given(file_text, "file_text", command))
            case "str_replace":
                old = _given(old_str, "old_str", command)
                text = await self._replace(place, old, new_str or "")
            case "insert":
                new = _given(new_str, "new_str", command)
                text = await self._insert(place, new, _given(insert_line, "insert_line", command))
            case "undo_edit":
                text = await self._undo(place)
        return EditorResult(text=text, command=command, path=place.path)

    async def _view(self, place: Place, view_range: Sequence[int] | None) -> str:
        try:
            lines = lines_of((await read_text(self.sandbox, place)).text)
        except IsFolder:
            if view_range is not None:
                raise ToolError(
                    f"`{place}` is a folder, which has no lines: no `view_range`."
                ) from None
            return await self._listed(place)
        first, last = _range(view_range, len(lines))
        text = numbered(lines[first - 1 : last], first)
        if len(text) > self.characters:
            text = head_and_tail(text, self.characters)
            text += "\n[Not all of it was shown: give a `view_range`.]"
        where = (
            f"lines {first} to {last} of {len(lines)}"
            if view_range
            else counted(len(lines), "line")
        )
        return f"{place} ({where}):\n{text}" if lines else f"{place} is empty."

    async def _listed(self, place: Place) -> str:
        words = ["-mindepth", "1", "-maxdepth", "2", "-name", ".*", "-prune", "-o"]
        done = await self.sandbox.run(["find", place.path, *words, "-printf", r"%y %P\0"])
        if done.failure or (done.exit_code and not done.stdout):
            raise ToolError(f"`{place}` cannot be listed: {done}")
        entries = sorted(
            f"{name}/" if kind == "d" else name
            for entry in done.stdout.split("\0")[:-1]
            for kind, _, name in [entry.partition(" ")]
        )
        more = f"\n[... {len(entries) - _ENTRIES} more]" if len(entries) > _ENTRIES else ""
        more += "\n[not all: the list was cut off]" if done.stdout_truncated else ""
        listed = "\n".join(entries[:_ENTRIES]) or "(nothing)"
        return f"{place}, two levels deep, without hidden entries:\n{listed}{more}"

    async def _create(self, place: Place, text: str) -> str:
        if (await self.sandbox.run(["test", "-e", place.path])).ok:
            raise ToolError(
                f"`{place}` exists. `create` makes new files only: change it with `str_replace`."
            )
        await self._write(place, None, TextFile(text))
        return f"{place} was made, {counted(len(lines_of(text)), 'line')}."

    async def _replace(self, place: Place, old: str, new: str) -> str:
        file = await read_text(self.sandbox, place)
        if file.newline != "\n":
            old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        text, line = await in_thread(
            replaced_once, text=file.text, old=old, new=new, path=place
        )  # looking for the closest lines of a large file takes a while
        await self._write(place, file, TextFile(text, file.newline))
        return _changed(place, text, line, len(lines_of(new)))

    async def _insert(self, place: Place, new: str, after: int) -> str:
        file = await read_text(self.sandbox, place)
        lines = lines_of(file.text)
        if not 0 <= after <= len(lines):
            raise ToolError(
                f"`insert_line` is {after}, but `{place}` has {len(lines)} lines: give 0 to "
                f"{len(lines)}."
            )
        new = new.replace("\r\n", "\n") if file.newline != "\n" else new
        head = "".join(f"{line}\n" for line in lines[:after])
        tail = file.text[len(head) :]  # the last line need not end
        text = f"{head}{new.removesuffix(chr(10))}\n{tail}"
        await self._write(place, file, TextFile(text, file.newline))
        return _changed(place, text, after + 1, len(lines_of(new)))

    async def _undo(self, place: Place) -> str:
        edits = self._workbench.before.get(place.path)
        if not edits:
            raise ToolError(f"Nothing to take back: this tool has not changed `{place}`.")
        before, after = edits[-1]
        try:
            now: bytes | None = await self.sandbox.read(place.path, max_bytes=2 * MAX_BYTES)
        except SandboxFileError:
            now = None
        if now != after:
            raise ToolError(
                f"`{place}` was changed by something else since; taking the edit back would undo "
                f"that too. Change it with `str_replace`."
            )
        if before is None:
            await self.sandbox.run(["rm", "-f", "--", place.path])
        else:
            await write_bytes(self.sandbox, place, before)
            self._record_file(place, before)
        edits.pop()
        if before is None:
            return f"The last change was taken back: {place} is no more."
        lines = lines_of(decoded(before, place).text)
        return f"The last change of {place} was taken back: it has {counted(len(lines), 'line')}."

    async def _write(self, place: Place, before: TextFile | None, after: TextFile) -> None:
        data = after.encoded()
        if len(data) > MAX_BYTES:
            raise ToolError(
                f"`{place}` would have {len(data)} bytes; this tool edits files of up to "
                f"{MAX_BYTES}."
            )
        await write_bytes(self.sandbox, place, data)
        edits = self._workbench.before.setdefault(place.path, [])
        edits.append((None if before is None else before.encoded(), data))
        del edits[:-_UNDOS]
        self._record_file(place, data)


def _given(value: T | None, name: str, command: str) -> T:
    if value is None:
        raise ToolError(f"The command `{command}` needs `{name}`.")
    return value


def _range(asked: Sequence[int] | None, count: int) -> tuple[int, int]:
    """First and last line to show, from 1. Raises `ToolError` for a range that cannot be."""
    if asked is None:
        return 1, count
    if len(asked) != 2:
        raise ToolError(f"`view_range` is {asked!r}: give two numbers, such as `[1, 50]`.")
    first, last = asked
    if not 1 <= first <= max(count, 1) or not (last == -1 or last >= first):
        raise ToolError(
            f"`view_range` is {asked!r}, but the file has the lines 1 to {count}: the first number "
            f"is one of them, the second is not less, or -1 for the end."
        )
    return first, count if last == -1 else min(last, count)


def _changed(place: Place, text: str, line: int, count: int) -> str:
    """What a model is told of a change: the lines around it, as they are now."""
    lines = lines_of(text)
    first = max(1, line - _AROUND)
    part = numbered(lines[first - 1 : line - 1 + count + _AROUND], first)
    return f"{place} was changed. Around the change it is now:\n{head_and_tail(part, 8000)}"
