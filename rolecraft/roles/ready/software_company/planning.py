"""From a wish to a list of files to write: product manager, architect, project manager."""

from __future__ import annotations

from rolecraft.actions import Action, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.memory import History
from rolecraft.roles.ready.software_company.documents import (
    Design,
    Findings,
    Requirements,
    TaskList,
)
from rolecraft.roles.ready.software_company.employee import Employee
from rolecraft.roles.ready.software_company.reading import all_of, shown


class WritePRD(Action):
    """Write down what is to be made, as requirements that can be checked."""

    async def run(self, history: History) -> Message:
        document = await self.ask(
            f"{shown(history)}\n\n"
            f"Write the requirements. Go through the wish sentence by sentence: each thing that "
            f"it says about input, output, formats, limits and mistakes becomes one requirement "
            f"that a test can check. Keep exact words, names and formats as they are. Add nothing "
            f"that was not asked for; what one might expect and is not wanted is out of scope.",
            returns=Requirements,
        )
        return document.message()


class WriteDesign(Action):
    """Decide which files there are and how they work together."""

    async def run(self, history: History) -> Message:
        known = shown(history, Requirements, Design)
        wrong = [str(findings) for findings in all_of(self.role.rc.news, Findings)]
        if wrong:
            mend = "Your design was found wrong. Mend this, and keep the rest as it is:"
            known = "\n\n".join([known, "\n".join([mend, *wrong])])
        document = await self.ask(
            f"{known}\n\n"
            f"Design the program: as few files as it sensibly needs, the file that is run (its "
            f"name is the customer's, where the customer gave one), and for each file its purpose "
            f"and the functions and classes that other files use, with argument and result types. "
            f"Use nothing that is not in the standard library unless the customer allows it.",
            returns=Design,
        )
        return document.message()


class WriteTasks(Action):
    """Put the files of the design into an order and say what each must contain."""

    async def run(self, history: History) -> Message:
        document = await self.ask(
            f"{shown(history, Requirements, Design)}\n\n"
            f"Write the list of tasks for the engineer: one for each file of the design and for "
            f"no other, a file before those that use it. Each instruction says which requirements "
            f"the file fulfils, so that all of them are covered, and which of the other files' "
            f"functions it calls.",
            returns=TaskList,
        )
        return document.message()


class ProductManager(Employee):
    """Turns a wish into requirements."""

    profile = "product manager"
    goal = "requirements that say all that the customer wants and nothing else"
    actions = [WritePRD]
    watch = (UserRequirement,)
    works_on = (UserRequirement,)


class Architect(Employee):
    """Turns requirements into a design."""

    profile = "software architect"
    goal = "the simplest design that fulfils every requirement"
    actions = [WriteDesign]
    watch = (UserRequirement, WritePRD)
    works_on = (WritePRD,)
    answers_for = "design"


class ProjectManager(Employee):
    """Turns a design into tasks."""

    profile = "project manager"
    goal = "tasks in the right order that leave nothing out"
    actions = [WriteTasks]
    watch = (UserRequirement, WritePRD, WriteDesign)
    works_on = (WriteDesign,)
