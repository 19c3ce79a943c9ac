"""The engineer: one generated action for each file, then a look at all of them together."""

from __future__ import annotations

from rolecraft.actions import Action, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.memory import History
from rolecraft.roles.ready.software_company.documents import (
    CodeSummary,
    Design,
    FileTask,
    Findings,
    Requirements,
    TaskList,
)
from rolecraft.roles.ready.software_company.employee import Employee
from rolecraft.roles.ready.software_company.planning import WriteDesign, WritePRD, WriteTasks
from rolecraft.roles.ready.software_company.reading import all_of, shown
from rolecraft.roles.ready.source_files import SourceFile, code_in


class WriteCode(Action):
    """Write one file, or write it again with something mended."""

    path: str
    instruction: str

    async def run(self, history: History) -> Message:
        answer = await self.ask(
            f"{shown(history, Requirements, Design, files=True)}\n\n"
            f"Your task now is the file `{self.path}`:\n{self.instruction}\n\n"
            f"Write the whole file as it shall be. It must work together with the files above and "
            f"with the interfaces of the design; leave nothing as a stub. Answer with the content "
            f"of the file in one code block."
        )
        file = SourceFile(path=self.path, content=code_in(answer))
        self.record_artifact(file.path, file.content)
        return file.message()


class SummarizeCode(Action):
    """Look at all files together: what they do, and what is still missing."""

    async def run(self, history: History) -> Message:
        document = await self.ask(
            f"{shown(history, Requirements, Design, TaskList, files=True)}\n\n"
            f"Summarise what the files do. Then follow one example of the customer's, or a "
            f"typical input, through the code step by step, and go through the requirements one "
            f"by one. A gap is a requirement that no code fulfils, a call that does not fit what "
            f"it calls, or code that cannot run; give for each the file and what to write. If "
            f"there is none, leave `gaps` empty.",
            returns=CodeSummary,
        )
        return document.message()


class Engineer(Employee):
    """Writes the files of a task list, one action for each, and mends what is found wrong.

    The action list is replaced while the role runs: by the files of the tasks, by the files in
    which a gap was seen (at most `max_revisions` times before handing on), and by the files that a
    report of others names.
    """

    profile = "software engineer"
    goal = "complete, readable code that does what the requirements say"
    actions = [SummarizeCode]
    watch = (UserRequirement, WritePRD, WriteDesign, WriteTasks)
    works_on = (WriteTasks,)
    answers_for = "code"
    max_revisions: int = 1

    async def _react(self) -> Message | None:
        self._revisions = 0
        self._plan(self._tasks())
        return await super()._react()

    async def _act(self) -> Message | None:
        message = await super()._act()
        summary = message.instruct_content if message is not None else None
        gaps = summary.gaps if isinstance(summary, CodeSummary) else []
        if gaps and self._revisions < self.max_revisions:
            self._revisions += 1
            self._plan(gaps)
        return message

    def _tasks(self) -> list[FileTask]:
        lists = all_of(self.rc.news, TaskList)
        if lists:
            return list(lists[-1].tasks)
        return [
            FileTask(path=finding.path, instruction=f"Mend this: {finding.problem}")
            for report in all_of(self.rc.news, Findings)
            for finding in report.findings
            if finding.concerns == "code"
        ]

    def _plan(self, tasks: list[FileTask]) -> None:
        writing = [WriteCode(task.path, task.instruction) for task in tasks]
        self.set_actions([*writing, SummarizeCode()])
