"""Running the Python code that a role wrote: in a sandbox, and on the record.

Every program is one run of its own: what an earlier one defined is not there.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence

from rolecraft.actions.action import Action
from rolecraft.actions.code_blocks import code_blocks
from rolecraft.actions.record import Records
from rolecraft.messages import Message
from rolecraft.sandboxes import Execution, Sandbox, SandboxLimits, default_provider
from rolecraft.sandboxes.base import DEFAULT_LIMITS

_PYTHON = frozenset({"python", "python3", "py"})
NO_CODE = "There is no block of Python code in this message."
NO_OUTPUT = "(The program printed nothing.)"


def python_in(text: str) -> str:
    """The Python of a message: its fenced blocks that say so, one after the other; else nothing.

    A block that is never closed counts: a model that was cut off is told of the error in it.
    """
    return "\n\n".join(
        textwrap.dedent(block.code).strip("\n")
        for block in code_blocks(text)
        if block.language in _PYTHON and block.code.strip()
    )


async def run_python(
    code: str,
    *,
    sandbox: Sandbox | None = None,
    limits: SandboxLimits = DEFAULT_LIMITS,
    record: Records | None = None,
) -> Execution:
    """Run a program in `sandbox`, that of `default_provider()` unless one is given.

    `record` is the action or role in whose name the tool call `run_python` is recorded. Raises
    `SandboxError` if there is no sandbox; a program that fails is a result.
    """
    if sandbox is None:
        sandbox = await asyncio.to_thread(default_provider)
    done = await sandbox.run(["python3", "-I", "main.py"], files={"main.py": code}, limits=limits)
    if record is not None:
        record.record_tool_call("run_python", {"code": code}, done, ok=done.ok)
    return done


class RunPython(Action):
    """Run the Python code of the last message and say what it printed.

    The message's metadata has `ok`: there was code, and it ran to its end.
    """

    sandbox: Sandbox | None = None
    limits: SandboxLimits = DEFAULT_LIMITS

    async def run(self, history: Sequence[Message]) -> Message:
        code = python_in(history[-1].content)
        if not code:
            return Message(NO_CODE, metadata={"ok": False})
        done = await run_python(code, sandbox=self.sandbox, limits=self.limits, record=self)
        return Message(str(done) or NO_OUTPUT, metadata={"ok": done.ok})
