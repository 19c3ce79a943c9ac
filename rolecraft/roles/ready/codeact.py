"""`CodeAct`: a role that works in the sandbox of its environment until it says that it is done.

    class Repair(TaskEnvironment):
        async def setup(self):
            self.sandbox = await Bubblewrap().create(SandboxSpec(base="repository/"))

    Repair(task, [CodeAct(model="openai/gpt-4o")])

The name is that of the paper whose idea it is (arXiv 2402.01030): a model that acts by running
code. Its run ends with `finish`, with an answer that calls no tool, after `max_steps` answers, or
when it goes round in a circle; the message's metadata says in which of these ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rolecraft.actions.action import Repeat
from rolecraft.actions.codeact import codeact_tools
from rolecraft.errors import StepLimitReached, UsageError
from rolecraft.messages import FINISH, Message
from rolecraft.roles.role import Role
from rolecraft.roles.tool_calling import UseTools

if TYPE_CHECKING:
    from rolecraft.actions.tool import ToolAction
    from rolecraft.models.base import Completion

Ending = Literal[
    "finished",  # it called `finish`
    "said",  # it answered without calling a tool
    "stuck",  # it called the same tools with the same arguments `same_turns` times running
    "max_steps",  # it was asked `max_steps` times and still called tools
]

SYSTEM = """\
You are a software engineer. You work on a repository in a sandbox, by calling tools; the shell \
begins in the repository's folder. Nobody can answer questions: decide yourself, and go on until \
the task is done.

How to work:
1. Find the code that the task is about: look at the folder, search, and read what matters.
2. Reproduce the problem before you change anything, with a small script or a test.
3. Change the source, not the tests that are there. Make the smallest change that solves the task \
in general, and not only for the example that is given. Keep to the style of the code around it.
4. Check: run your reproduction again, and the tests of what you touched. Think of inputs at the \
edge. If something fails, read the output and go back.
5. Delete files that you made only for yourself.

If the same thing fails twice, try another. When everything is checked, call `finish`, and say \
what you changed and how you checked it."""


class WorkInSandbox(UseTools):
    """Work on the task with the role's tools, until it is done.

    `same_turns` is how many times running the same calls may be asked for; the last of them are
    not run.
    """

    max_steps: int = 100
    same_turns: int = 3
    repeat: Repeat = "freely"  # so that its tools do again in a new sandbox what they did in one

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(*args, **fields)
        if self.same_turns < 2:
            raise UsageError(f"`same_turns` is {self.same_turns!r}; it must be 2 or more.")

    async def run(self, history: Sequence[Message]) -> Message:
        try:
            said = await super().run(history)
        except StepLimitReached as error:
            return _ended(str(error), "max_steps")
        if not isinstance(said, Message):
            return _ended(said, "said")
        if said.cause_by == FINISH:
            said.metadata = {"ended": "finished"}
        return said

    def end_before(self, answers: Sequence[Completion]) -> Message | None:
        """Stop where the last answers all call the same."""
        last = answers[-self.same_turns :]
        called = [[(call.name, call.arguments) for call in answer.tool_calls] for answer in last]
        if len(called) < self.same_turns or any(each != called[0] for each in called):
            return None
        return _ended(
            f"Stopped: the same action {self.same_turns} times running, {called[0]!r:.300}.",
            "stuck",
        )


def _ended(text: str, how: Ending) -> Message:
    return Message(text, metadata={"ended": how})


class CodeAct(Role):
    """Works in a sandbox by calling tools: that of its environment, unless its tools have one.

    `tools` replaces its tools: `tools = [*codeact_tools(), CountLines]` adds one of yours. Its
    `system` prompt speaks of a shell and of `finish`; write another for a role without them.
    """

    profile = "software engineer"
    goal = "solve the task in the sandbox, and show that it is solved"
    system = SYSTEM
    actions = [WorkInSandbox]
    tools: Sequence[ToolAction | type[ToolAction]] = codeact_tools()

    _positional = ()
