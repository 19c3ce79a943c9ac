"""Planted comments that nobody took up, and comments that were met, answered or overtaken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rolecraft.failure_taxonomy.detectors import IgnoredInput
from rolecraft.failure_taxonomy.planting import Deed, Make, Score, Script, Turn
from rolecraft.roles import Role
from rolecraft.trajectories import Event

MODE = "ignored_input"
HANDS_IN = ("Here is the next version.", "Done.", "Ready for review again.", "Please merge it.")


@dataclass(frozen=True, slots=True)
class Reject(Deed):
    """A check that fails and says what is wrong."""

    target: str
    said: str

    def do(self, role: Role) -> None:
        data = {"target": self.target, "passed": False}
        role._write(Event("verify", content=self.said, data=data, cause=role._cause()))


def code(draw: Any, name: str) -> str:
    lines = "\n".join(f"    value_{n} = {draw.number(1, 10**6)}" for n in range(draw.number(3, 9)))
    return f"`{name}`:\n```python\ndef parse_input(text):\n{lines}\n```"


def demand(draw: Any, name: str) -> str:
    said: str = draw.one_of(
        f"{name} crashes on empty input; please fix the crash.",
        f"To change: line 12 of {name} must be removed, it divides by zero.",
        f"In {name}, the header is missing.",
        f"Not accepted. {name} does not handle negative amounts.",
    )
    return said


def reviewed(draw: Any, name: str, author: str, first: str) -> list[Turn]:
    """An artifact is made and a reviewer objects, in a check or in a message."""
    says = demand(draw, name)
    reviewer = draw.one_of("Reviewer", "Tester", "QaEngineer")
    deeds = [Reject(draw.one_of(name, "work"), says)] if draw.one_of(True, False) else []
    return [
        Turn(author, "Write", does=[Make(name, first)], says=draw.say()),
        Turn(reviewer, "Review", does=deeds, says=says),
    ]


# --- ignored --------------------------------------------------------------------------------------


def handed_in_unchanged(draw: Any) -> Script:
    author = draw.role()
    name, first = draw.file(), draw.say()
    again = Turn(author, "Write", does=[Make(name, first)], says=draw.one_of(*HANDS_IN))
    turns = [*reviewed(draw, name, author, first), again]
    return Script([*turns, Turn("Manager", "Merge", says="Merged.")])


def only_another_file_was_changed(draw: Any) -> Script:
    author = draw.role()
    name, other, first = draw.file(), draw.file(), draw.say()
    deeds = [Make(other, draw.say()), Make(name, first)]
    return Script(
        [
            *reviewed(draw, name, author, first),
            Turn(author, "Write", does=deeds, says=draw.one_of(*HANDS_IN)),
        ],
        stop=draw.one_of("idle", "finished", "rounds"),
    )


def some_turns_later(draw: Any) -> Script:
    author, other = draw.role(), draw.role()
    name, first = draw.file(), draw.say()
    return Script(
        [
            *reviewed(draw, name, author, first),
            *[Turn(other, "Talk", says=f"Number {draw.number(0, 99)}.") for _ in range(2)],
            Turn(author, "Write", does=[Make(name, first)], says=draw.one_of(*HANDS_IN)),
            Turn(other, "Talk", says="Thank you."),
        ]
    )


def the_same_code_again(draw: Any) -> Script:
    """A chat without artifacts: the code in the messages is the same, but for its indentation."""
    author = draw.role()
    name = draw.file()
    first = code(draw, name)
    again = draw.one_of(first, first.replace("    ", "  "), f"{first}\n\n")
    part = draw.one_of(name, "`parse_input`", "`def parse_input(text):`")
    return Script(
        [
            Turn(author, "Write", says=first),
            Turn(draw.one_of("Reviewer", "CodeTester"), "Review", says=demand(draw, part)),
            Turn(author, "Write", says=f"{draw.one_of(*HANDS_IN)}\n{again}"),
            Turn("Manager", "Merge", says="Merged."),
        ]
    )


def the_same_words_again(draw: Any) -> Script:
    """What it says was said before the comment: that answers nothing."""
    author = draw.role()
    name, first, says = draw.file(), draw.say(), "It handles every amount, header and input."
    turns = reviewed(draw, name, author, first)
    turns[0] = Turn(author, "Write", does=[Make(name, first)], says=says)
    again = Turn(author, "Write", does=[Make(name, first)], says=says)
    return Script([*turns, again, Turn("Manager", "Merge", says="Merged.")])


# --- not ignored ----------------------------------------------------------------------------------


def the_change_was_made(draw: Any) -> Script:
    author = draw.role()
    name = draw.file()
    again = Turn(author, "Write", does=[Make(name, draw.say())], says=draw.one_of(*HANDS_IN))
    turns = reviewed(draw, name, author, draw.say())
    return Script([*turns, again, Turn("Manager", "Merge", says="Merged.")])


def the_author_says_why_not(draw: Any) -> Script:
    author = draw.role()
    name, first = draw.file(), draw.say()
    why = draw.one_of(
        f"{name} cannot get empty input, so there is no crash.",
        "The header is in the other file, and negative amounts or zero never reach line 12.",
    )
    turn = draw.one_of(
        [
            Turn(
                author,
                "Write",
                does=[Make(name, first)],
                says=f"{why} I handed in {name} as it was.",
            )
        ],
        [
            Turn(author, "Reply", says=f"{why} See {name}."),
            Turn(author, "Write", does=[Make(name, first)], says="Handed in."),
        ],
        [
            Turn(author, "Write", does=[Make(name, first)], says="Handed in."),
            Turn(author, "Reply", says=f"{why} See {name}."),
        ],
    )
    turns = [*reviewed(draw, name, author, first), *turn]
    return Script([*turns, Turn("Manager", "Merge", says="Merged.")])


def another_file_is_meant(draw: Any) -> Script:
    author = draw.role()
    name, other, first = draw.file(), draw.file(), draw.say()
    turns = [
        Turn(author, "Write", does=[Make(other, first)], says=draw.say()),
        *reviewed(draw, name, author, draw.say()),
        Turn(author, "Write", does=[Make(other, first)], says=draw.one_of(*HANDS_IN)),
    ]
    return Script([*turns, Turn("Manager", "Merge", says="Merged.")])


def the_comment_was_praise(draw: Any) -> Script:
    author = draw.role()
    name, first = draw.file(), draw.say()
    says = draw.one_of(
        f"{name} looks good.", f"Accepted: {name} should be used as it is.", f"I read {name}."
    )
    return Script(
        [
            Turn(author, "Write", does=[Make(name, first)], says=draw.say()),
            Turn("Reviewer", "Review", says=says),
            Turn(author, "Save", does=[Make(name, first)], says="Saved."),
            Turn("Manager", "Merge", says="Merged."),
        ]
    )


def nothing_was_handed_in(draw: Any) -> Script:
    """The run ends: something is open, and nobody disregarded it."""
    author = draw.role()
    name = draw.file()
    return Script(reviewed(draw, name, author, draw.say()))


def the_reviewer_took_it_back(draw: Any) -> Script:
    author = draw.role()
    name, first = draw.file(), draw.say()
    says = demand(draw, name)
    return Script(
        [
            Turn(author, "Write", does=[Make(name, first)], says=draw.say()),
            Turn("Reviewer", "Review", does=[Reject(name, says)], says=says),
            Turn("Reviewer", "Review", does=[Accept(name)], says="No, it is fine."),
            Turn(author, "Save", does=[Make(name, first)], says="Saved."),
            Turn("Manager", "Merge", says="Merged."),
        ]
    )


def another_role_saved_it(draw: Any) -> Script:
    """Who writes the file again is not who was to change it."""
    author, other = draw.role(), draw.role()
    name, first = draw.file(), draw.say()
    return Script(
        [
            *reviewed(draw, name, author, first),
            Turn(other, "Copy", does=[Make(name, first)], says="Copied."),
            Turn(author, "Talk", says=draw.say()),
        ]
    )


def met_and_then_saved_again(draw: Any) -> Script:
    author = draw.role()
    name, better = draw.file(), draw.say()
    return Script(
        [
            *reviewed(draw, name, author, draw.say()),
            Turn(author, "Write", does=[Make(name, better)], says=draw.one_of(*HANDS_IN)),
            Turn("Manager", "Talk", says="Thank you."),
            Turn(author, "Save", does=[Make(name, better)], says="Saved."),
        ]
    )


def other_code(draw: Any) -> Script:
    author = draw.role()
    name = draw.file()
    return Script(
        [
            Turn(author, "Write", says=code(draw, name)),
            Turn("Reviewer", "Review", says=demand(draw, name)),
            Turn(author, "Write", says=code(draw, name)),
            Turn("Manager", "Merge", says="Merged."),
        ]
    )


@dataclass(frozen=True, slots=True)
class Accept(Deed):
    """A check that passes."""

    target: str

    def do(self, role: Role) -> None:
        data = {"target": self.target, "passed": True}
        role._write(Event("verify", content="Accepted.", data=data, cause=role._cause()))


POSITIVE = [
    handed_in_unchanged,
    only_another_file_was_changed,
    some_turns_later,
    the_same_code_again,
    the_same_words_again,
]
NEGATIVE = [
    the_change_was_made,
    the_author_says_why_not,
    another_file_is_meant,
    the_comment_was_praise,
    nothing_was_handed_in,
    the_reviewer_took_it_back,
    another_role_saved_it,
    met_and_then_saved_again,
    other_code,
]


async def test_ignored_comments_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(IgnoredInput(), MODE, positive=POSITIVE, negative=NEGATIVE, seeds=10))
