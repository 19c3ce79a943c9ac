"""The CTO: looks at what the team would hand over, and alone may say that it is done."""

from __future__ import annotations

from rolecraft.actions import Action, Finish, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.memory import History
from rolecraft.roles.ready.software_company.documents import (
    BugReport,
    Design,
    Requirements,
    TestReport,
    Verdict,
)
from rolecraft.roles.ready.software_company.employee import Employee
from rolecraft.roles.ready.software_company.engineer import WriteCode
from rolecraft.roles.ready.software_company.planning import WriteDesign, WritePRD
from rolecraft.roles.ready.software_company.qa_engineer import ReportBugs, RunTests, WriteTest
from rolecraft.roles.ready.software_company.reading import shown


class ReviewProduct(Action):
    """Hold the product against the customer's wish: approve it, or say what must change."""

    async def run(self, history: History) -> Message:
        document = await self.ask(
            f"{shown(history, Requirements, Design, TestReport, files=True)}\n\n"
            f"Decide whether this may go to the customer. Passing tests are not enough: they are "
            f"the team's own. Take the customer's words sentence by sentence and find the code "
            f"that does what each says and a test that would fail if it did not. Approve only if "
            f"nothing is left over. Otherwise give a finding for each thing that must change: "
            f"what it concerns (`design`, `code`, or `test` where only a test is missing or "
            f"wrong), the file, and the problem.",
            returns=Verdict,
        )
        return document.message()


class SignOff(Finish):
    """Declare the product finished: the end of the run."""

    async def run(self, history: History) -> str:
        verdict = history[-1].instruct_content
        reason = verdict.reason if isinstance(verdict, Verdict) else ""
        return f"Signed off. {reason}".strip()


class CTO(Employee):
    """Reviews what passes its tests. An approval is followed by the sign-off that ends the run.

    Also heard is a QA engineer who could not mend the tests: somebody must decide then.
    """

    profile = "chief technology officer"
    goal = "that what goes out does what the customer asked for"
    actions = [ReviewProduct]
    watch = (
        UserRequirement,
        WritePRD,
        WriteDesign,
        WriteCode,
        WriteTest,
        RunTests,
        ReportBugs,
    )

    def takes_up(self, message: Message) -> bool:
        document = message.instruct_content
        if isinstance(document, TestReport):
            return document.ok
        return isinstance(document, BugReport) and document.concerns == "test"

    async def _react(self) -> Message | None:
        self.set_actions([ReviewProduct()])
        return await super()._react()

    async def _act(self) -> Message | None:
        message = await super()._act()
        verdict = message.instruct_content if message is not None else None
        if isinstance(verdict, Verdict) and verdict.approved:
            self.set_actions([SignOff()])
        return message
