"""Planted runs in which nobody checked the result, and runs in which somebody did or may have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rolecraft.failure_taxonomy.detectors import VerificationAbsent
from rolecraft.failure_taxonomy.planting import (
    Check,
    Make,
    Note,
    Score,
    Script,
    Turn,
    Use,
    Watched,
)

# --- nobody checked -------------------------------------------------------------------------------


def no_check_at_all(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    names = [draw.file() for _ in range(draw.number(1, 3))]
    turns = [Turn(role, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    goal = draw.one_of(None, {"artifacts": names})
    return Script([*turns, *draw.chatter(role, other)], goal=goal)


def changed_after_the_check(draw: Any) -> Script:
    """The last version is another one than the checked one."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    check = Check(draw.one_of(name, "tests"), draw.one_of(True, False))
    return Script(
        [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[check], says=draw.say()),
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
        ],
        stop=draw.one_of("idle", "finished"),
    )


def one_of_the_files_unchecked(draw: Any) -> Script:
    """The goal names the files; a check of one of them is an incomplete check."""
    role = draw.role()
    names = [draw.file(), draw.file()]
    turns = [Turn(role, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    turns.append(Turn(role, "Proofread", does=[Check(draw.one_of(*names), True)], says=draw.say()))
    return Script(turns, goal={"artifacts": names})


def an_answer_nobody_checked(draw: Any) -> Script:
    one, solver = draw.role(), draw.role()
    turns = [*draw.chatter(one), Turn(solver, "Solve", says=str(draw.number(0, 99)))]
    return Script(turns, goal={"answer": draw.one_of(solver, True)}, stop="finished")


def only_the_environment_looked(draw: Any) -> Script:
    """What the environment verifies for a grade, or of a constraint, no role gets to see."""
    one, solver = draw.role(), draw.role()
    turns = [Turn(one, "Ask", says=draw.say()), Turn(solver, "Solve", says=draw.say())]
    data = {"target": "answer", "passed": draw.one_of(True, False)}
    return Script(turns, goal={"answer": solver}, watched=[Watched(1, data)], stop="finished")


def only_a_rule_was_watched(draw: Any) -> Script:
    """That a constraint was kept, whoever noted it, says nothing about the result."""
    one, solver = draw.role(), draw.role()
    turns = [Turn(one, "Ask", says=draw.say()), Turn(solver, "Solve", says=draw.say())]
    data = {"constraint": "in_one_sentence", "passed": draw.one_of(True, False)}
    watched = Watched(1, data, role=draw.one_of("environment", one, solver))
    return Script(turns, goal={"answer": solver}, watched=[watched], stop="finished")


# --- somebody checked, or may have ----------------------------------------------------------------


def checked_in_its_last_form(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    name, turns = draw.file(), []
    for _ in range(draw.number(1, 3)):
        check = Check(draw.one_of(name, "tests"), draw.one_of(True, False))
        turns += [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[check], says=draw.say()),
        ]
    return Script(turns, goal=draw.one_of(None, {"artifacts": [name]}))


def checked_by_its_author(draw: Any) -> Script:
    role = draw.role()
    name = draw.file()
    deeds = [Make(name, draw.say()), Check(name, True)]
    return Script([Turn(role, "Write", does=deeds, says=draw.say())], goal={"artifacts": [name]})


def a_check_without_result(draw: Any) -> Script:
    """An attempt that came to nothing is poor, not absent."""
    role = draw.role()
    name = draw.file()
    deeds = [Make(name, draw.say()), Check(name, None)]
    return Script([Turn(role, "Write", does=deeds, says=draw.say())])


def written_again_unchanged(draw: Any) -> Script:
    """The file is saved again after the check, with the same content."""
    coder, tester = draw.role(), draw.role()
    made = Make(draw.file(), draw.say())
    return Script(
        [
            Turn(coder, "Write", does=[made], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", True)], says=draw.say()),
            Turn(coder, "Save", does=[made], says=draw.say()),
        ]
    )


def a_tool_that_sounds_like_a_check(draw: Any) -> Script:
    """No `verify` event, but the tool's name speaks of testing: nobody can tell."""
    role = draw.role()
    tool = draw.one_of("run_tests", "lint", "CheckTypes", "validate_schema", "review-code")
    deeds = [Make(draw.file(), draw.say()), Use(tool, {}, "ok")]
    return Script([Turn(role, "Write", does=deeds, says=draw.say())])


def an_action_that_sounds_like_a_check(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    action = draw.one_of("ReviewCode", "RunUnitTests", "Proofread", "Verify", "QaRound")
    return Script(
        [
            Turn(role, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
            Turn(other, action, says=draw.say()),
        ]
    )


def a_role_that_sounds_like_checking(draw: Any) -> Script:
    role = draw.role()
    checker = draw.one_of("Reviewer", "tester_1", "QaEngineer", "critic", "Verification_Expert")
    return Script(
        [
            Turn(role, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
            Turn(checker, "Speak", says=draw.say()),
        ]
    )


def cut_off_before_a_check(draw: Any) -> Script:
    """A check might have come; a limit was quicker."""
    coder, other = draw.role(), draw.role()
    turns = [Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say())]
    turns += [Turn(other, "Talk", says=draw.say())]
    return Script(turns, stop=draw.one_of("rounds", "limit", "error", "cancelled"))


def nothing_is_handed_over(draw: Any) -> Script:
    """A talk without a result that the header asks for."""
    one, two = draw.role(), draw.role()
    turns = [Turn(draw.one_of(one, two), "Talk", says=draw.say()) for _ in range(4)]
    return Script(turns, goal=draw.one_of(None, "a nice talk"))


def one_of_several_checked(draw: Any) -> Script:
    """Which of the files count nobody has said; one of them was checked."""
    role = draw.role()
    names = [draw.file(), draw.file()]
    turns = [Turn(role, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    turns.append(Turn(role, "Proofread", does=[Check(names[0], True)], says=draw.say()))
    return Script(turns)


def an_answer_that_was_checked(draw: Any) -> Script:
    """Before it was given, or after."""
    solver, other = draw.role(), draw.role()
    solve = Turn(solver, "Solve", says=str(draw.number(0, 99)))
    check = Turn(other, "Recalculate", does=[Check("answer", True)], says=draw.say())
    turns = draw.one_of([solve, check], [check, solve])
    return Script(turns, goal={"answer": solver}, stop="finished")


def a_file_nobody_asked_for(draw: Any) -> Script:
    """The file that counts was checked; the note beside it need not be."""
    role = draw.role()
    name, note = draw.file(), draw.file()
    deeds = [Make(name, draw.say()), Check(name, True), Make(note, draw.say())]
    return Script([Turn(role, "Write", does=deeds, says=draw.say())], goal={"artifacts": [name]})


# --- logs of others, which record no checks as such -----------------------------------------------

LOG = {"format": "log", "records": ["action", "artifact", "message"]}


def a_log_without_any_check(draw: Any) -> Script:
    """Its actions have names, and none after the last version speaks of a check."""
    one, two = draw.role(), draw.role()
    farewell = Note("message", "TERMINATE", {"farewell": True})
    turns = [
        *draw.one_of([], [Turn(two, "ReviewPlan", says=draw.say())]),
        Turn(one, "WriteCode", does=[Make(draw.file(), draw.say())], says=draw.say()),
        Turn(two, "WriteManual", says=draw.say(), does=[Make(draw.file(), draw.say())]),
        Turn(one, "Close", does=[farewell]),
    ]
    return Script(turns, about=LOG, stop=draw.one_of(None, "finished"))


def a_log_with_a_review(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    action = draw.one_of("CodeReview", "TestErrorSummary", "RunTests")
    turns = [
        Turn(one, "WriteCode", does=[Make(draw.file(), draw.say())], says=draw.say()),
        Turn(two, action, says=draw.say()),
    ]
    return Script(turns, about=LOG, stop="finished")


def a_log_that_may_go_on(draw: Any) -> Script:
    """No stop, and no farewell at its end."""
    one = draw.role()
    turns = [Turn(one, "WriteCode", does=[Make(draw.file(), draw.say())], says=draw.say())]
    return Script(turns, about=LOG, stop=None)


POSITIVE = [
    a_log_without_any_check,
    no_check_at_all,
    changed_after_the_check,
    one_of_the_files_unchecked,
    an_answer_nobody_checked,
    only_the_environment_looked,
    only_a_rule_was_watched,
]
NEGATIVE = [
    a_log_with_a_review,
    a_log_that_may_go_on,
    checked_in_its_last_form,
    checked_by_its_author,
    a_check_without_result,
    written_again_unchanged,
    a_tool_that_sounds_like_a_check,
    an_action_that_sounds_like_a_check,
    a_role_that_sounds_like_checking,
    cut_off_before_a_check,
    nothing_is_handed_over,
    one_of_several_checked,
    an_answer_that_was_checked,
    a_file_nobody_asked_for,
]


async def test_missing_checks_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    score = await measure(
        VerificationAbsent(), "verification.absent", positive=POSITIVE, negative=NEGATIVE, seeds=10
    )
    holds(score)
