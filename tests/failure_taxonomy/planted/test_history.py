"""Planted losses of history: after a truncation, and things that look like one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rolecraft.failure_taxonomy.detectors import HistoryLoss
from rolecraft.failure_taxonomy.planting import Check, Make, Note, Score, Script, Turn

MODE = "history_loss"
CUT = Note("truncate", data={"dropped": 12})


def _versions(draw: Any, role: str, *contents: str, name: str) -> list[Turn]:
    return [Turn(role, "Write", does=[Make(name, text)], says=draw.say()) for text in contents]


def _question(draw: Any) -> str:
    asked: str = draw.one_of(
        f"Which currency does {draw.file()} use?",
        f"Do you want {draw.file()} in two columns?",
        f"Soll {draw.file()} auf Deutsch sein?",
        f"{draw.file()} 的单位是什么，您能告诉我吗？",
    )
    return asked


# --- something is lost ----------------------------------------------------------------------------


def back_to_the_first_form(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    newer = [draw.say() for _ in range(draw.number(1, 3))]
    return Script(
        [
            *_versions(draw, role, old, *newer, name=name),
            *draw.chatter(other),
            Turn(role, "Write", does=[CUT, Make(name, old)], says=draw.say()),
            *draw.chatter(other),
        ]
    )


def back_some_turns_after_the_cut(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    return Script(
        [
            *_versions(draw, role, old, draw.say(), name=name),
            Turn(role, "Read", does=[draw.reading(), CUT], says=draw.say()),
            Turn(other, "Talk", says=draw.say()),
            Turn(role, "Write", does=[Make(name, old)], says=draw.say()),
            Turn(other, "Close", says="Merged."),
        ],
        stop=draw.one_of("idle", "finished", "rounds"),
    )


def overwrites_a_colleagues_version(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    return Script(
        [
            *_versions(draw, role, old, name=name),
            *_versions(draw, other, draw.say(), name=name),
            Turn(role, "Write", does=[CUT, Make(name, old)], says=draw.say()),
        ]
    )


def asks_again(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    asked = _question(draw)
    return Script(
        [
            Turn(role, "Ask", says=asked, to=draw.one_of(other, "<all>")),
            Turn(other, "Answer", says=draw.say()),
            *draw.chatter(role, other),
            Turn(role, "Work", does=[CUT], says=draw.say()),
            *draw.chatter(role, other),
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Answer", says="I told you before."),
        ]
    )


def asks_again_in_the_turn_of_the_cut(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    asked = _question(draw)
    return Script(
        [
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
            Turn(role, "Ask", does=[CUT], says=f" {asked}\n", to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
        ],
        stop=draw.one_of("idle", "finished", None),
    )


# --- nothing is -----------------------------------------------------------------------------------


def back_without_a_cut(draw: Any) -> Script:
    """Nothing was dropped: the role may have thought better of it."""
    role, old = draw.role(), draw.say()
    return Script(_versions(draw, role, old, draw.say(), old, name=draw.file()))


def goes_forward_after_a_cut(draw: Any) -> Script:
    role = draw.role()
    name = draw.file()
    last = Turn(role, "Write", does=[CUT, Make(name, draw.say())], says=draw.say())
    return Script([*_versions(draw, role, draw.say(), draw.say(), name=name), last])


def takes_it_back_on_purpose(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    why = draw.one_of(
        "Please go back to the first version.",
        "Let us revert that.",
        "The earlier form was better.",
        "Undo the last change, would you.",
    )
    return Script(
        [
            *_versions(draw, role, old, draw.say(), name=name),
            Turn(other, "Review", says=why),
            Turn(role, "Write", does=[CUT, Make(name, old)], says=draw.say()),
        ]
    )


def says_so_afterwards(draw: Any) -> Script:
    role = draw.role()
    name, old = draw.file(), draw.say()
    says = draw.one_of("I restored it as it was before.", "I rolled back to the original.")
    return Script(
        [
            *_versions(draw, role, old, draw.say(), name=name),
            Turn(role, "Write", does=[CUT, Make(name, old)], says=says),
        ]
    )


def the_newer_form_failed(draw: Any) -> Script:
    role, tester = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    return Script(
        [
            *_versions(draw, role, old, draw.say(), name=name),
            Turn(tester, "RunTests", does=[Check(name, False)], says=draw.say()),
            Turn(role, "Write", does=[CUT, Make(name, old)], says=draw.say()),
        ]
    )


def another_role_was_cut(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    return Script(
        [
            *_versions(draw, role, old, draw.say(), name=name),
            Turn(other, "Read", does=[CUT], says=draw.say()),
            Turn(role, "Write", does=[Make(name, old)], says=draw.say()),
        ]
    )


def saves_the_same_again(draw: Any) -> Script:
    role = draw.role()
    name, text = draw.file(), draw.say()
    again = Turn(role, "Write", does=[CUT, Make(name, text)], says=draw.say())
    return Script([*_versions(draw, role, draw.say(), text, name=name), again])


def nobody_had_answered(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    asked = _question(draw)
    return Script(
        [
            Turn(role, "Ask", says=asked),
            Turn(role, "Work", does=[CUT], says=draw.say()),
            Turn(role, "Ask", says=asked),
            Turn(other, "Answer", says=draw.say()),
        ]
    )


def a_question_came_back(draw: Any) -> Script:
    """What was said to the question was a question."""
    role, other = draw.role(), draw.role()
    asked = _question(draw)
    return Script(
        [
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Ask", says="What do you need it for?", to=role),
            Turn(role, "Work", does=[CUT], says=draw.say()),
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
        ]
    )


def asks_again_without_a_cut(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    asked = _question(draw)
    return Script(
        [
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
            Turn(role, "Ask", says=asked, to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
        ]
    )


def asks_something_else(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    return Script(
        [
            Turn(role, "Ask", says=_question(draw), to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
            Turn(role, "Work", does=[CUT], says=draw.say()),
            Turn(role, "Ask", says=_question(draw), to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
        ]
    )


def a_short_question(draw: Any) -> Script:
    """ "Done?" is another question each time."""
    role, other = draw.role(), draw.role()
    turns = []
    for _ in range(2):
        turns += [
            Turn(role, "Ask", does=[CUT], says=draw.one_of("Done?", "Why?", "OK?"), to=other),
            Turn(other, "Answer", says=draw.say(), to=role),
        ]
    return Script(turns)


POSITIVE = [
    back_to_the_first_form,
    back_some_turns_after_the_cut,
    overwrites_a_colleagues_version,
    asks_again,
    asks_again_in_the_turn_of_the_cut,
]
NEGATIVE = [
    back_without_a_cut,
    goes_forward_after_a_cut,
    takes_it_back_on_purpose,
    says_so_afterwards,
    the_newer_form_failed,
    another_role_was_cut,
    saves_the_same_again,
    nobody_had_answered,
    a_question_came_back,
    asks_again_without_a_cut,
    asks_something_else,
    a_short_question,
]


async def test_lost_history_is_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(HistoryLoss(), MODE, positive=POSITIVE, negative=NEGATIVE))


async def test_while_the_run_goes_on_a_role_may_still_say_why_it_went_back() -> None:
    cut = [CUT, Make("a.md", "one")]
    turns = [
        Turn("ada", does=[Make("a.md", text)], says=f"Version {text}.") for text in ("one", "two")
    ]
    whole = await Script([*turns, Turn("ada", does=cut, says="Here it is.")], stop=None).play()
    at = next(e.seq for e in reversed(whole.events) if e.kind == "artifact")
    (finding,) = HistoryLoss().judge(whole)
    assert (finding.verdict, finding.events[0]) == ("present", at)
    del whole.events[at + 1 :]
    (finding,) = HistoryLoss().judge(whole)
    assert finding.verdict == "unknown"
