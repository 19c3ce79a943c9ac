"""What can be done about a failure mode: tactical and structural remedies, and what to edit.

The remedies of a category are those of the study (arXiv 2503.13657, table 4 of its third version);
what to do about a mode, and where, is ours. A remedy is advice: whether it helps in a team is
measured by playing the same tasks with and without it (`compare`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rolecraft.failure_taxonomy.modes import Category, get_mode


class Edit(StrEnum):
    """What of a team is edited."""

    PROMPT = "role prompt"
    TOPOLOGY = "topology"
    STOP_RULE = "stop rule"
    TOOLS = "tools"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Strategies:
    """What the study names against a category of failures."""

    tactical: tuple[str, ...]
    structural: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about one failure mode.

    `tactical` changes words, `structural` the team. `edit` says what is touched, the most
    promising first. `parts` names building blocks in `rolecraft.roles.remedies`.
    """

    tactical: str
    structural: str
    edit: tuple[Edit, ...]
    parts: tuple[str, ...] = ()


CATEGORIES: dict[Category, Strategies] = {
    Category.SYSTEM_DESIGN: Strategies(
        (
            "clear definitions of roles and tasks",
            "further discussion",
            "self-verification",
            "design of the conversation pattern",
        ),
        ("comprehensive verification", "quantified confidence"),
    ),
    Category.MISALIGNMENT: Strategies(
        (
            "cross-verification",
            "design of the conversation pattern",
            "mutual disambiguation",
            "modular agents",
        ),
        ("standard communication protocols", "probabilistic confidence"),
    ),
    Category.VERIFICATION: Strategies(
        ("self-verification", "cross-verification", "a topology redesigned for verification"),
        ("comprehensive verification and generated unit tests",),
    ),
}
"""What the study names for each category."""

REMEDIES: dict[str, Remedy] = {
    "task_spec": Remedy(
        tactical="Repeat the task's requirements as a checklist in the prompt of whoever delivers, "
        "and have them ticked off before delivery.",
        structural="Check what a program can check (format, length, files) before a result is "
        "accepted.",
        edit=(Edit.PROMPT, Edit.TOOLS),
        parts=("KeepsProtocol", "UntilVerified"),
    ),
    "role_spec": Remedy(
        tactical="Say in each role's prompt what it must not do, and to whom it hands that.",
        structural="Give a role only the actions and tools of its duty; refuse messages that its "
        "protocol does not allow.",
        edit=(Edit.PROMPT, Edit.TOOLS),
        parts=("MessageProtocol",),
    ),
    "repetition": Remedy(
        tactical="Show a role what it has done already, and ask what is new before a step is taken "
        "again.",
        structural="Stop or nudge when a step comes again without a change in between (the "
        "detector can do so live).",
        edit=(Edit.STOP_RULE, Edit.MEMORY, Edit.PROMPT),
    ),
    "history_loss": Remedy(
        tactical="Put decisions that hold into the prompt, not only into the history.",
        structural="Keep a shared record of decisions that is never cut, and cut histories by "
        "summary instead of by length.",
        edit=(Edit.MEMORY, Edit.PROMPT),
    ),
    "termination_unaware": Remedy(
        tactical="Say in the prompt how a role knows that the work is done or cannot be done.",
        structural="Let the environment end the run when the goal is met, and give the closing to "
        "one role.",
        edit=(Edit.STOP_RULE, Edit.PROMPT),
        parts=("SuperiorCloses", "Hierarchy"),
    ),
    "reset": Remedy(
        tactical="Have a role say what has been reached before it hands out the task again.",
        structural="Let nobody but a failed check start the work over, and keep what was reached.",
        edit=(Edit.TOPOLOGY, Edit.MEMORY),
    ),
    "no_clarification": Remedy(
        tactical="Ask in the prompt for a question instead of a guess where data are missing.",
        structural="Make a role state its confidence, and gather or ask below a threshold.",
        edit=(Edit.PROMPT, Edit.TOPOLOGY),
        parts=("ActsWhenSure",),
    ),
    "derailment": Remedy(
        tactical="Repeat the goal at each turn, and ask how the step serves it.",
        structural="Split the work into modular agents with small tasks; let a superior close what "
        "does not serve the goal.",
        edit=(Edit.PROMPT, Edit.TOPOLOGY),
        parts=("SuperiorCloses",),
    ),
    "withholding": Remedy(
        tactical="Ask in the prompt to report everything that the next role needs, findings and "
        "obstacles.",
        structural="Give messages typed fields that must be filled in.",
        edit=(Edit.PROMPT, Edit.TOPOLOGY),
        parts=("MessageProtocol", "KeepsProtocol"),
    ),
    "ignored_input": Remedy(
        tactical="Ask for an answer to each remark: taken up, or why not.",
        structural="Let a review pass only when each of its comments is answered.",
        edit=(Edit.TOPOLOGY, Edit.PROMPT),
        parts=("Reviewed", "Reviewer"),
    ),
    "reason_action": Remedy(
        tactical="Ask a role to compare what it did with what it said before it reports.",
        structural="Let reports of deeds come from the tools that did them, not from the role.",
        edit=(Edit.TOOLS, Edit.PROMPT),
        parts=("Reviewed",),
    ),
    "premature_end": Remedy(
        tactical="List in the prompt what must exist before the work counts as done.",
        structural="Let only a superior or a check that passed end the run.",
        edit=(Edit.STOP_RULE, Edit.TOPOLOGY),
        parts=("SuperiorCloses", "UntilVerified"),
    ),
    "verification.absent": Remedy(
        tactical="Ask whoever delivers to check the last version, and to say how.",
        structural="Put a verifier between the last change and the delivery; only it ends the run.",
        edit=(Edit.TOPOLOGY, Edit.STOP_RULE),
        parts=("Reviewed", "UntilVerified", "Vote"),
    ),
    "verification.weak": Remedy(
        tactical="Tell the verifier what to look at: edge cases, the task's own examples, the "
        "output as it is.",
        structural="Give the verifier tools that run the result (unit tests, the program itself), "
        "or several verifiers that vote.",
        edit=(Edit.TOOLS, Edit.PROMPT, Edit.TOPOLOGY),
        parts=("Reviewer", "Vote"),
    ),
}
"""What to do about each of the 14 modes."""


def remedy_for(mode: str) -> Remedy:
    """The remedy for a mode; for a mode of your own, what helps against its category.

    Raises `UnknownName` for a mode that there is not.
    """
    known = REMEDIES.get(get_mode(mode).id)
    if known is not None:
        return known
    named = CATEGORIES[get_mode(mode).category]
    return Remedy(
        tactical=_sentence(named.tactical),
        structural=_sentence(named.structural),
        edit=(Edit.PROMPT, Edit.TOPOLOGY),
    )


def _sentence(parts: tuple[str, ...]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
