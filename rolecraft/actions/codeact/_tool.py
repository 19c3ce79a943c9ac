"""`SandboxTool`: a tool that works in one live sandbox, and what a role has under way there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from rolecraft.actions.codeact._files import Place
from rolecraft.actions.method_tool import MethodTool
from rolecraft.actions.tool import is_for_model
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.sandboxes.live import LiveSandbox, Shell
    from rolecraft.trajectories.events import Event


class SandboxTool(MethodTool):
    """A tool of a sandbox. Subclasses write `use`, which works in `self.sandbox`.

    That is the one which the tool was given, or else the attribute `sandbox` of the role's
    environment at the moment of the call: so tools can stand in a role's class, before there is
    one. When a run is followed from its record, each call is made again, because the sandbox of
    the new process begins where that of the old one began; what was recorded of it counts.
    """

    _hooks = MethodTool._hooks | {"_workbench", "_place", "_record_file"}
    _given: LiveSandbox | None = None
    _whose: object = None
    """Whose shell and edits these are, if not those of the role to which the tool belongs."""

    def __init__(self, *, sandbox: LiveSandbox | None = None, **fields: Any) -> None:
        self._given = sandbox
        super().__init__(**fields)

    @property
    def sandbox(self) -> LiveSandbox:
        """Where it works. Raises `UsageError` if it was given none and its environment has none."""
        sandbox = self._given
        if sandbox is None and self._owner is not None:
            sandbox = getattr(self.role.rc.env, "sandbox", None)
        if sandbox is None:
            raise UsageError(
                f"Tool `{self.name}` has no sandbox: give it one, "
                f"`{type(self).__name__}(sandbox=...)`, or let the role's environment have an "
                f"attribute `sandbox`."
            )
        return sandbox

    @property
    def needs_sandbox(self) -> bool:
        """Whether it was given none, so that it works in that of its role's environment."""
        return self._given is None

    def in_sandbox(self, sandbox: LiveSandbox) -> Self:
        """This tool as nobody's, in `sandbox` unless it was given another."""
        tool = object.__new__(type(self))
        tool.__dict__.update(self.__dict__, _given=self._given or sandbox, _owner=None)
        return tool

    async def aclose(self) -> None:
        """End the shell that it has opened as nobody's; those of roles end with the sandbox."""
        if self in _workbenches:
            await _workbenches[self].end_shell()

    async def _redo(self, start: Event) -> None:
        tool = self.in_sandbox(self.sandbox)
        tool._whose = self._owner
        try:
            await tool.run(**start.data["arguments"])
        except Exception as error:
            if not is_for_model(error):  # else it was told then, and is told again
                raise

    @property
    def _workbench(self) -> Workbench:
        return workbench_of(self._whose or self._owner or self, self.sandbox)

    def _place(self, path: str) -> Place:
        return Place.of(self.sandbox, path)

    def _record_file(self, place: Place, content: bytes) -> None:
        """Say in the record what a file is now, if this is a role's tool."""
        if self._owner is not None:
            self.record_artifact(place.shown, content)


class Workbench:
    """What one role has under way in one sandbox."""

    def __init__(self, sandbox: LiveSandbox) -> None:
        self.sandbox = sandbox
        self.before: dict[str, list[tuple[bytes | None, bytes]]] = {}
        """By path: what the file was before each edit (None: it was not there), and after it."""
        self._shell: Shell | None = None
        self._starting = asyncio.Lock()

    async def shell(self) -> tuple[Shell, bool]:
        """The role's shell; True if one was there before and is gone, so that this is a new one."""
        async with self._starting:
            had = self._shell is not None
            if self._shell is not None and self._shell.alive:
                return self._shell, False
            self._shell = await self.sandbox.shell()
            return self._shell, had

    async def end_shell(self) -> None:
        async with self._starting:
            shell, self._shell = self._shell, None
            if shell is not None:
                await shell.close()


_workbenches: WeakKeyDictionary[object, Workbench] = WeakKeyDictionary()


def workbench_of(who: object, sandbox: LiveSandbox) -> Workbench:
    """The workbench of a role (or of a tool that has none); a new one in another sandbox."""
    found = _workbenches.get(who)
    if found is None or found.sandbox is not sandbox:
        found = _workbenches[who] = Workbench(sandbox)
    return found
