"""One programmer alone: writes a program in one go and reads it through once.

What a company of several roles has to beat. It runs nothing; that it may try as often as the
company's work costs is what `rolecraft evaluate --baseline best-of-n` gives it.
"""

from __future__ import annotations

from rolecraft.actions import Action, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.memory import History
from rolecraft.roles.ready.source_files import SourceFile, code_in
from rolecraft.roles.role import Role

PROGRAM = "main.py"


class WriteProgram(Action):
    """Write the whole program."""

    async def run(self, history: History) -> Message:
        return _hand_in(
            self,
            await self.ask(
                f"{history[0].content}\n\nWrite the whole program as one file, `{PROGRAM}`; leave "
                f"nothing as a stub. Answer with its content in one code block."
            ),
        )


class ReadThrough(Action):
    """Read the program through, and hand it in as it shall be."""

    async def run(self, history: History) -> Message:
        return _hand_in(
            self,
            await self.ask(
                f"{history[0].content}\n\nThis is the program so far.\n\n{history[-1].content}\n\n"
                f"Follow the example through it step by step, then an input at the edge of what "
                f"is asked for. Mend what is wrong. Answer with the whole content of `{PROGRAM}` "
                f"as it shall be, in one code block, also if nothing changes."
            ),
        )


def _hand_in(action: Action, answer: str) -> Message:
    file = SourceFile(path=PROGRAM, content=code_in(answer))
    action.record_artifact(file.path, file.content)
    return file.message()


class Programmer(Role):
    """Writes a program alone."""

    profile = "programmer"
    goal = "a program that does exactly what is asked for"
    actions = [WriteProgram, ReadThrough]
    watch = [UserRequirement]
