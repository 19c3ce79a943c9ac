"""The 14 failure modes of multi-agent systems, each under a concept id of its own.

The modes are those of the MASFT / MAST study (arXiv 2503.13657); definitions and examples are
ours. A mode is named by what it means (`verification.absent`), never by a code: codes moved
between the study's versions (see `codes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rolecraft.errors import UnknownName


class Category(StrEnum):
    """Where in the system a failure has its root; the study's names of its third version."""

    SYSTEM_DESIGN = "System design issues"
    MISALIGNMENT = "Inter-agent misalignment"
    VERIFICATION = "Task verification"


class Stage(StrEnum):
    """When in a run a failure can arise, after the study's figure 1."""

    BEFORE = "pre-execution"
    DURING = "execution"
    AFTER = "post-execution"


_BEFORE_DURING = (Stage.BEFORE, Stage.DURING)
_DURING = (Stage.DURING,)
_AFTER = (Stage.AFTER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One failure mode.

    `absence`: the failure is that something is missing, so that its evidence is the event where
    the missing thing should have been, and a quote is not required. `positive` shows the failure,
    `near_miss` something that looks like it and is none, `confused_with` the modes it is taken
    for; a judge reads all three.
    """

    id: str
    name: str
    category: Category
    stages: tuple[Stage, ...]
    definition: str
    positive: str
    near_miss: str
    confused_with: tuple[str, ...] = ()
    absence: bool = False


_ALL = (
    Mode(
        id="task_spec",
        name="Disobey task specification",
        category=Category.SYSTEM_DESIGN,
        stages=_BEFORE_DURING,
        definition=(
            "A requirement that the task states in so many words is broken: a format, a scope, a "
            "limit, a step that is demanded or forbidden. A wrong answer alone is not enough."
        ),
        positive=(
            "Task: answer with the bare number. Final answer of `writer`: 'The result is "
            "forty-two apples.'"
        ),
        near_miss=(
            "Task: answer with the bare number. Final answer: '41', where 42 is right. Wrong, but "
            "nothing that was demanded is broken."
        ),
        confused_with=("role_spec", "derailment"),
    ),
    Mode(
        id="role_spec",
        name="Disobey role specification",
        category=Category.SYSTEM_DESIGN,
        stages=_BEFORE_DURING,
        definition=(
            "An agent leaves the duties or the limits of its own role and does another role's "
            "work or takes another role's decisions."
        ),
        positive=(
            "`reviewer`, told only to review, rewrites the module and merges it without handing "
            "it back to `engineer`."
        ),
        near_miss=(
            "`reviewer` puts a two-line suggestion into a review comment and leaves the change to "
            "`engineer`: that is reviewing."
        ),
        confused_with=("task_spec", "derailment"),
    ),
    Mode(
        id="repetition",
        name="Step repetition",
        category=Category.SYSTEM_DESIGN,
        stages=_DURING,
        definition=(
            "A step that was finished is done once more although nothing has changed and nothing "
            "new has been learned that would call for it."
        ),
        positive=(
            "`coder` lists the folder, reads the listing, and lists the same folder again; no "
            "file was touched and nobody asked."
        ),
        near_miss=(
            "`coder` runs the tests, edits a file and runs the same tests again: the edit is the "
            "reason. Nor is it this mode when only the wording of two messages is alike."
        ),
        confused_with=("termination_unaware", "reset", "history_loss"),
    ),
    Mode(
        id="history_loss",
        name="Loss of conversation history",
        category=Category.SYSTEM_DESIGN,
        stages=_BEFORE_DURING,
        definition=(
            "An agent goes on from an older state of the conversation, as if later turns that it "
            "has received did not exist, because they were cut off or overlooked as a whole."
        ),
        positive=(
            "After three turns on the agreed SQLite design, `engineer` takes up the file-based "
            "design of the very first draft without a word about the change."
        ),
        near_miss=(
            "`engineer` reads one late remark and argues against it: the remark is known, so "
            "nothing is lost."
        ),
        confused_with=("ignored_input", "reset", "withholding"),
    ),
    Mode(
        id="termination_unaware",
        name="Unaware of termination conditions",
        category=Category.SYSTEM_DESIGN,
        stages=(Stage.BEFORE, Stage.DURING, Stage.AFTER),
        definition=(
            "The agents do not notice that their work is over, because the goal is met or cannot "
            "be met any more, and carry on."
        ),
        positive=(
            "The tests pass and the file is delivered; `engineer` and `reviewer` exchange twelve "
            "more rounds of polish until the round limit ends the run."
        ),
        near_miss=("After the tests pass, `engineer` sends one closing report and the run ends."),
        confused_with=("repetition", "derailment"),
    ),
    Mode(
        id="reset",
        name="Conversation reset",
        category=Category.MISALIGNMENT,
        stages=_DURING,
        definition=(
            "The dialogue starts over from its beginning without a cause, and what had been "
            "reached is lost."
        ),
        positive=(
            "In turn 14, with half of the chapters written, `planner` greets everyone and hands "
            "out the task of turn 1 again as if nothing had happened."
        ),
        near_miss=(
            "`planner` throws a plan away because a test has refuted it, says so, and starts a "
            "new one: there is a cause."
        ),
        confused_with=("history_loss", "repetition"),
    ),
    Mode(
        id="no_clarification",
        name="Fail to ask for clarification",
        category=Category.MISALIGNMENT,
        stages=_BEFORE_DURING,
        definition=(
            "What an agent needs from another agent is unclear or missing, and the agent guesses "
            "or invents it although it could have asked."
        ),
        positive=(
            "`planner` writes 'use the usual account'; `booker`, who was never told which, enters "
            "a made-up account number."
        ),
        near_miss=(
            "`booker` states its assumption as a question and waits for the answer before it "
            "enters anything."
        ),
        confused_with=("withholding", "reason_action"),
        absence=True,
    ),
    Mode(
        id="derailment",
        name="Task derailment",
        category=Category.MISALIGNMENT,
        stages=_DURING,
        definition=(
            "The work drifts away from the goal of the task to something that does not serve it."
        ),
        positive=(
            "Asked for the bug in a parser, the agents spend their turns on choosing a logo for "
            "the project."
        ),
        near_miss=(
            "The agents write a small script to reproduce the bug: a detour that serves the goal."
        ),
        confused_with=("task_spec", "role_spec", "termination_unaware"),
    ),
    Mode(
        id="withholding",
        name="Information withholding",
        category=Category.MISALIGNMENT,
        stages=_BEFORE_DURING,
        definition=(
            "An agent has information that another agent needs, has the occasion to pass it on, "
            "and does not."
        ),
        positive=(
            "`searcher` finds that the file is encrypted, reports 'file found', and `reader` "
            "fails on it three times."
        ),
        near_miss=(
            "`searcher` does not know that the file is encrypted either: what nobody has, nobody "
            "holds back."
        ),
        confused_with=("ignored_input", "history_loss", "no_clarification"),
        absence=True,
    ),
    Mode(
        id="ignored_input",
        name="Ignored other agent's input",
        category=Category.MISALIGNMENT,
        stages=_DURING,
        definition=(
            "What another agent contributed, an answer, advice or a correction, reached the agent "
            "and is neither used nor answered."
        ),
        positive=(
            "`tester` reports a crash on empty input; the next version of `engineer` handles "
            "everything but empty input, and says nothing about it."
        ),
        near_miss=(
            "`engineer` answers that empty input cannot occur, and why: the input was weighed, "
            "not ignored."
        ),
        confused_with=("withholding", "history_loss", "verification.weak"),
    ),
    Mode(
        id="reason_action",
        name="Reasoning-action mismatch",
        category=Category.MISALIGNMENT,
        stages=_BEFORE_DURING,
        definition=(
            "What an agent does contradicts what it has just reasoned, announced or claimed to do."
        ),
        positive=(
            "`engineer` writes 'the loop must stop at n' and delivers a loop that runs to n + 1; "
            "or reports 'I ran the tests' where no test ran."
        ),
        near_miss=(
            "`engineer` announces a loop, finds a simpler way while writing, and says so: the "
            "plan was changed, not contradicted."
        ),
        confused_with=("verification.weak", "task_spec"),
    ),
    Mode(
        id="premature_end",
        name="Premature termination",
        category=Category.VERIFICATION,
        stages=(Stage.DURING, Stage.AFTER),
        definition=(
            "The agents end the work while something is still open that the task needs: a part "
            "of the result, an answer they wait for, a check that failed."
        ),
        positive=(
            "Three files are asked for; after the second, `manager` declares the project done."
        ),
        near_miss=(
            "A round limit cuts the run off while the agents still work: they did not end it."
        ),
        confused_with=("verification.absent", "task_spec"),
        absence=True,
    ),
    Mode(
        id="verification.absent",
        name="No or incomplete verification",
        category=Category.VERIFICATION,
        stages=_AFTER,
        definition=(
            "The result, or a part of it, is handed over without anybody having checked it. "
            "Nothing is said about a check that took place and was poor."
        ),
        positive=(
            "`engineer` changes the parser a last time and delivers; nobody runs or reads the "
            "last version."
        ),
        near_miss=(
            "The tests run on the last version but look at one case only: a check took place, a "
            "weak one."
        ),
        confused_with=("verification.weak", "premature_end"),
        absence=True,
    ),
    Mode(
        id="verification.weak",
        name="Incorrect verification",
        category=Category.VERIFICATION,
        stages=_AFTER,
        definition=(
            "The result is checked, but the check misses what matters: it looks at the wrong "
            "thing, is superficial, or passes what is visibly wrong."
        ),
        positive=(
            "`reviewer` approves a chess program after seeing that it compiles; it accepts "
            "illegal moves in the very output that was shown."
        ),
        near_miss=(
            "Nobody looked at the program at all: then verification is absent rather than weak."
        ),
        confused_with=("verification.absent", "ignored_input"),
    ),
)

MODES: dict[str, Mode] = {mode.id: mode for mode in _ALL}
"""The known modes by concept id: the 14 in the order of the study's table, then registered ones."""


def get_mode(concept: str) -> Mode:
    """The mode with this concept id. Raises `UnknownName`, nearest first, for anything else."""
    mode = MODES.get(concept)
    if mode is None:
        raise UnknownName(
            "Failure mode",
            concept,
            MODES,
            hint=(
                "Modes are named by concept id; codes such as '3.2' have meant different modes "
                "in different versions. One of your own is known once `load_modes` (`--modes "
                "FILE`) or `register_mode` was told of it."
            ),
        )
    return mode
