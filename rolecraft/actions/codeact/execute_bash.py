"""`ExecuteBash`: lines of a shell that goes on from one call to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from rolecraft.actions.codeact._text import head_and_tail, how_it_ended, plain
from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.tool import ToolResult
from rolecraft.errors import ToolError, UsageError
from rolecraft.sandboxes.base import Execution, Failure
from rolecraft.sandboxes.live import SandboxLost

_NEW = "[The shell had ended. This is a new one: it begins in {folder}, without your variables.]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BashResult(ToolResult):
    """What came of one command of `ExecuteBash`."""

    exit_code: int
    failure: Failure | None = None
    """Why the sandbox ended it: its time was over, its memory full, or something killed it."""


class ExecuteBash(SandboxTool):
    """A persistent bash. Each role has its own, which starts with its first command.

    `seconds` is how long a command may take unless the model says, `max_seconds` how long it may
    say. Of a command's output at most `output_bytes` are kept, from its head and its tail.
    """

    name: str = "execute_bash"
    seconds: float = 60.0
    max_seconds: float = 600.0
    output_bytes: int = 30_000

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if not 0 < self.seconds <= self.max_seconds:
            raise UsageError(
                f"`ExecuteBash(seconds={self.seconds!r})` must be above 0 and at most "
                f"`max_seconds`, {self.max_seconds!r}."
            )

    async def use(
        self,
        command: str = "",
        timeout: Annotated[float, Field(gt=0)] | None = None,  # noqa: ASYNC109 (the model's)
        restart: bool = False,
    ) -> BashResult:
        """Run a command in a bash shell that stays open: its folder, variables and functions are
        still there at the next call.

        Standard output and standard error come back together, then the exit code. Nobody can type
        into a command, so give it its input (`printf 'y\\n' | command`). A command that runs out of
        time is interrupted and the shell goes on. What is meant to keep running (a server) goes
        into the background: `command > log.txt 2>&1 &`. Of a long output the middle is left out.

        Args:
            command: one or more lines of bash.
            timeout: seconds after which the command is stopped.
            restart: start a new shell first, when the old one is of no use any more.
        """
        limit = self.seconds if timeout is None else timeout
        if limit > self.max_seconds:
            raise ToolError(
                f"`timeout` is at most {self.max_seconds:g} seconds. Run what takes longer in the "
                f"background, `command > log.txt 2>&1 &`, and look at the log."
            )
        if restart:
            await self._workbench.end_shell()
        if not command.strip():
            if restart:
                return BashResult(text="A new shell was started.", exit_code=0)
            raise ToolError("`command` is empty.")
        if "\0" in command:
            raise ToolError("`command` holds a NUL character, which no command can.")
        done, began_anew, ended = await self._run(command, limit)
        parts = [
            _NEW.format(folder=self.sandbox.folder) if began_anew else "",
            # Shorter already, unless the sandbox's notion of it is another.
            head_and_tail(plain(done.stdout), self.output_bytes + 1000).strip("\n"),
            how_it_ended(done, limit),
            "[This ended the shell. The next command starts a new one.]" if ended else "",
        ]
        return BashResult(
            text="\n".join(filter(None, parts)), exit_code=done.exit_code, failure=done.failure
        )

    async def _run(self, command: str, seconds: float) -> tuple[Execution, bool, bool]:
        """What came of it; whether it ran in a new shell after another; whether it ended it."""
        began_anew = False
        while True:
            shell, anew = await self._workbench.shell()
            began_anew = began_anew or anew
            try:
                done = await shell.run(command, seconds=seconds, output_bytes=self.output_bytes)
            except SandboxLost:
                if anew or shell.alive:
                    raise
                continue  # it ended between two calls; if all of the sandbox did, `shell` raises
            return done, began_anew, not shell.alive
