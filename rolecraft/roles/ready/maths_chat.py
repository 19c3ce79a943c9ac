"""Maths chat: word problems, solved in conversation with Python at hand, in three forms.

The forms are those of the case study on maths chat in the MASFT paper (arXiv 2503.13657), which
asked what better prompts and another topology do against failures:

- student and assistant: the student poses the problem and runs the assistant's programs;
- the same with an improved prompt, which has a section on verification;
- solver, coder and verifier: one reasons, one computes, and only the verifier may end the run.

The prompts are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, model_validator

from rolecraft.actions import Action, UserRequirement
from rolecraft.actions.run_code import NO_OUTPUT, RunPython, python_in, run_python
from rolecraft.messages import FINISH, USER_REQUIREMENT, Message
from rolecraft.roles.ready.answers import exact_value, final_answer, is_none
from rolecraft.roles.ready.reads_along import ReadsAlong
from rolecraft.roles.remedies.voting import UntilVerified, Verification, Vote
from rolecraft.roles.role import Role
from rolecraft.sandboxes import Sandbox

if TYPE_CHECKING:
    from rolecraft.roles.memory import History

# --- student and assistant -------------------------------------------------------------------

PLAIN = """\
You solve word problems with a student. You can reason, and you can have Python computed: write one
block that opens with ```python and prints what you want to know. The student runs it and tells you
the output. Every block is a program of its own. When you know the answer, say it in \\boxed{}, in a
message without code."""

IMPROVED = """\
# Your part
You solve word problems together with a student who runs Python for you.

# How to work
1. Say what is asked for, and in which unit. List the quantities, and leave out what has nothing to
   do with the question.
2. Write down the equation before you compute anything.
3. Compute in Python, with `fractions.Fraction` so that nothing is rounded. One block a message,
   opened by ```python, which prints every quantity with its name. It is a program of its own: it
   knows nothing of earlier ones. The student tells you its output.

# Verification
Before you give an answer, check it in a way that is not the one in which you found it:
- put the answer back into the story, sentence by sentence, and see that every number comes out;
- ask whether its size and its unit can be right;
- if it was a program that failed or printed something unexpected, mend it and run it again.
If the check fails, say which step was wrong and go back to it. Do not give an answer that you have
not checked.

# The answer
Only when the check has succeeded, say in a line that starts with "Check:" what you checked and what
came out, and then the answer in \\boxed{}: one exact number, in a message without code. Nothing
follows it."""

_CHECK = re.compile(r"^\W*check\W*:\W*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)


class Respond(Action):
    """Pose the problem; then run the assistant's programs, until there is an answer."""

    sandbox: Sandbox | None = None

    async def run(self, history: History) -> str | Message:
        heard = history[-1]
        if heard.cause_by == USER_REQUIREMENT:
            return f"Please solve this problem.\n\n{heard.content}"
        code = python_in(heard.content)
        if code:  # an answer beside code was given before the code had run
            done = await run_python(code, sandbox=self.sandbox, record=self)
            return f"Output:\n{str(done) or NO_OUTPUT}"
        answer = final_answer(heard.content)
        if answer is not None:
            return Message(f"The answer is {answer}. We are done.", cause_by=FINISH)
        return "Go on, until you have the answer in \\boxed{}."


class Reason(Action):
    """Take the next step: reason, write a program, or give the answer.

    Beside an answer, a line that starts with `Check:` goes on record as a check of it.
    """

    async def run(self, history: History) -> str:
        said = await _continue(self, history)
        if final_answer(said) is not None and (found := _CHECK.search(said)):
            self.record_check("answer", passed=True, said=found[1])
        return said


class Student(Role):
    """Poses the problem and runs programs. Asks no model."""

    profile = "student"
    actions = [Respond]
    watch = [UserRequirement, Reason]


class Assistant(Role):
    """Solves the problem in conversation with the student."""

    profile = "maths assistant"
    system = PLAIN
    actions = [Reason]
    watch = [Respond]


def student_and_assistant(*, improved: bool = False, sandbox: Sandbox | None = None) -> list[Role]:
    """The first form; with `improved`, the second. `sandbox` is a `Bubblewrap` unless given."""
    return [
        Student(actions=[Respond(sandbox=sandbox)]),
        Assistant(system=IMPROVED if improved else PLAIN),
    ]


# --- solver, coder and verifier --------------------------------------------------------------


class Propose(Action):
    """Reason to an answer, without a program."""

    async def run(self, history: History) -> str:
        return await _continue(self, history)


class WriteProgram(Action):
    """Compute the answer of the problem in a program, apart from how the solver did."""

    async def run(self, history: History) -> str:
        return await _continue(self, history)


class ProgramThatRuns(UntilVerified):
    """A program that runs to its end and prints something."""

    sandbox: Sandbox | None = None
    target: str = "program"

    async def check(self, answer: str) -> Verification:
        run = RunPython(sandbox=self.sandbox)._bound(self.role)  # on record with its output
        said = await run.run([Message(answer)])
        passed = bool((said.metadata or {}).get("ok")) and said.content != NO_OUTPUT
        return Verification(passed, said.content)


class Verdict(BaseModel):
    """What a verifier decides."""

    reason: str
    accepted: bool
    answer: str = ""
    """The answer that is accepted: one exact number, or None for a problem that has no answer."""

    @model_validator(mode="after")
    def _has_a_number(self) -> Self:
        if self.accepted and exact_value(self.answer) is None and not is_none(self.answer):
            raise ValueError(f"what is accepted is one exact number, not {self.answer!r}")
        return self


class Verify(Action):
    """Accept the answer, which ends the run, or say what is wrong."""

    async def run(self, history: History) -> Message:
        heard = "\n\n".join(f"[{message.sent_from}]\n{message.content}" for message in history)
        verdict: Verdict = await self.ask(
            f"{heard}\n\nDecide on the latest proposal and the latest output of a program. Accept "
            f"only if both give the same value, that value answers the question that was asked, in "
            f"its unit, and it comes out when you put it back into the story. If not, say which "
            f"step is wrong and whose it is.",
            returns=Verdict,
        )
        self.record_check("answer", passed=verdict.accepted, said=verdict.reason)
        if verdict.accepted:
            return Message(f"{verdict.reason}\n\\boxed{{{verdict.answer}}}", cause_by=FINISH)
        return Message(f"Not accepted. {verdict.reason}")


class Solver(Role):
    """Reasons, and reasons again when the verifier objects."""

    profile = "problem solver"
    goal = "a worked solution of the problem, step by step, that others can check"
    constraints = (
        "Write no code. Say what is asked for and what has nothing to do with it. End with the "
        "exact value in \\boxed{}. When your solution is not accepted, answer what is said of it."
    )
    actions = [Propose]
    watch = [UserRequirement, Verify]


class Coder(ReadsAlong):
    """Computes the answer in a program of its own."""

    profile = "coder"
    goal = "a Python program that computes the answer from the numbers of the problem"
    constraints = (
        "Translate the problem, not the solver's solution. One block that opens with ```python; "
        "use `fractions.Fraction`; print every quantity with its name, the answer last."
    )
    actions = [WriteProgram, RunPython]
    watch = [UserRequirement, Propose, Verify]
    works_on = [Propose]


class Verifier(ReadsAlong):
    """Compares, and alone may end the run."""

    profile = "verifier"
    goal = "no wrong answer leaves the team"
    constraints = "Trust neither solver nor coder. You alone end the work."
    actions = [Verify]
    watch = [UserRequirement, Propose, WriteProgram, RunPython]
    works_on = [RunPython]


def solver_coder_verifier(
    *, votes: int = 1, tries: int = 1, sandbox: Sandbox | None = None
) -> list[Role]:
    """The third form. `sandbox` is a `Bubblewrap` unless given.

    With `votes` the solver's proposal is what most of so many samples say; with `tries` the coder
    writes a program again, at most so often, until it runs.
    """
    propose: Action = Vote(Propose(), times=votes, key=_value) if votes > 1 else Propose()
    write: Action = WriteProgram()
    if tries > 1:
        write = ProgramThatRuns(WriteProgram(), tries=tries, sandbox=sandbox)
    return [
        Solver(actions=[propose]),
        Coder(actions=[write, RunPython(sandbox=sandbox)]),
        Verifier(),
    ]


def _value(text: str) -> object:
    answer = final_answer(text)
    return exact_value(answer) if answer is not None else None


async def _continue(action: Action, history: Sequence[Message]) -> str:
    """Go on with the conversation in `history`: what the role said itself is the model's part."""
    me = action.role.name
    answer = await action.open_session().generate(
        [
            Message(message.content, role="assistant")
            if message.sent_from == me
            else Message(message.content, role="user")
            for message in history
        ]
    )
    return answer.text
