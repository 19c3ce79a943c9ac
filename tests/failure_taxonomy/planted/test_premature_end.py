"""Planted runs that end too early, and runs that end when they may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rolecraft.failure_taxonomy.detectors import PrematureEnd
from rolecraft.failure_taxonomy.planting import (
    Check,
    Make,
    Note,
    Score,
    Script,
    Swap,
    Turn,
    Use,
    Watched,
)

CHAT = {"format": "chat", "records": ["message", "tool_call", "tool_result"]}

# --- something is open ----------------------------------------------------------------------------


def a_file_is_missing(draw: Any) -> Script:
    names = [draw.file() for _ in range(draw.number(2, 4))]
    role, other = draw.role(), draw.role()
    made = names[: draw.number(0, len(names) - 1)]
    turns = [Turn(role, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in made]
    turns.append(Turn(other, "Declare", says="The project is done."))
    return Script(turns, goal={"artifacts": names}, stop=draw.one_of("idle", "finished"))


def nobody_answers(draw: Any) -> Script:
    """The one who was to give the answer never speaks."""
    one, two, solver = draw.role(), draw.role(), draw.role()
    turns = [Turn(draw.one_of(one, two), "Discuss", says=draw.say()) for _ in range(3)]
    return Script(turns, goal={"answer": solver}, silent=[solver], stop="finished")


def ended_on_a_failed_check(draw: Any) -> Script:
    """The tests fail, nothing is changed, and the run is declared finished."""
    coder, tester = draw.role(), draw.role()
    turns = [
        Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
        Turn(tester, "RunTests", does=[Check("tests", False)], says=draw.say()),
    ]
    turns += draw.chatter(coder, tester)
    return Script(turns, goal=draw.one_of(None, {"verify": "tests"}), stop="finished")


def half_of_a_plan(draw: Any) -> Script:
    """A role sets itself a list of actions and stops before its end."""
    role, other = draw.role(), draw.role()
    plan = ["WriteIntro", "WriteBody", "WriteEnd"]
    done = plan[: draw.number(0, 2)]
    turns = [Turn(role, "Plan", does=[Swap(tuple(plan))], says=draw.say())]
    turns += [Turn(role, name, says=draw.say()) for name in done]
    turns.append(Turn(other, "Praise", says=draw.say()))
    return Script(turns, stop=draw.one_of("idle", "finished"))


def a_question_is_left_open(draw: Any) -> Script:
    """One role asks another, which does not get to answer any more."""
    one, two = draw.role(), draw.role()
    question = draw.one_of("Which currency do you use?", "Ist das so gemeint?", "单位是什么？")
    turns = [*draw.chatter(one), Turn(one, "Ask", says=question, to=two)]
    return Script(turns, silent=[two], stop="finished")


def the_goals_check_was_never_run(draw: Any) -> Script:
    """The goal is that the tests pass, and the run ends without any."""
    coder, other = draw.role(), draw.role()
    turns = [
        Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
        *draw.chatter(coder, other),
        Turn(other, "Declare", says=draw.one_of("Done, all good.", draw.say())),
    ]
    return Script(turns, goal={"verify": "tests"}, stop=draw.one_of("idle", "finished"))


def another_file_after_a_failed_check(draw: Any) -> Script:
    """What is written after a failed check is a file that the check is not about."""
    coder, tester, other = draw.role(), draw.role(), draw.role()
    asked, added = draw.file(), draw.file()
    target, goal = draw.one_of(("tests", [asked]), (asked, [asked]), (asked, [asked, added]))
    return Script(
        [
            Turn(coder, "Write", does=[Make(asked, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check(target, False)], says=draw.say()),
            Turn(other, "WriteChangelog", does=[Make(added, draw.say())], says="We are done."),
        ],
        goal={"artifacts": goal},
        stop="finished",
    )


def a_bare_farewell_to_an_error(draw: Any) -> Script:
    """A chat without stops: the last code failed, and all that is said to it is TERMINATE."""
    one, two = draw.role(), draw.role()
    run = Use("run_python", {"code": draw.say()}, "exitcode: 1", ok=False)
    farewell = Note("message", draw.one_of("TERMINATE", "Sorry. TERMINATE"), {"farewell": True})
    turns = [
        *draw.chatter(one, two),
        Turn(one, does=[run], says=draw.say()),
        Turn(two, does=[farewell]),
    ]
    return Script(turns, about=CHAT, stop=draw.one_of(None, "finished"))


# --- nothing is open ------------------------------------------------------------------------------


def everything_is_there(draw: Any) -> Script:
    names = [draw.file() for _ in range(draw.number(1, 4))]
    role = draw.role()
    turns = [Turn(role, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    return Script(turns, goal={"artifacts": names})


def cut_off_by_rounds(draw: Any) -> Script:
    """A limit ended the run: the roles did not."""
    role, other = draw.role(), draw.role()
    turns = [Turn(draw.one_of(role, other), "Write", says=draw.say()) for _ in range(4)]
    return Script(turns, goal={"artifacts": [draw.file()]}, stop="rounds")


def cut_off_otherwise(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    turns = [
        Turn(role, "Write", does=[Check("tests", False)], says=draw.say()),
        Turn(role, "Ask", says="Shall I go on?", to=other),
    ]
    why = draw.one_of("limit", "error", "cancelled")
    return Script(turns, goal={"artifacts": [draw.file()]}, silent=[other], stop=why)


def repaired_and_checked(draw: Any) -> Script:
    """A check failed, and then passed."""
    coder, tester = draw.role(), draw.role()
    name, turns = draw.file(), []
    for passed in (False, True):
        turns += [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", passed)], says=draw.say()),
        ]
    return Script(turns, goal={"verify": "tests"})


def repaired_and_not_checked(draw: Any) -> Script:
    """After the failed check the file was changed: what is missing is a check, not the work."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    return Script(
        [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", False)], says=draw.say()),
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
        ],
        goal={"artifacts": [name]},
    )


def the_whole_plan(draw: Any) -> Script:
    role = draw.role()
    plan = ["WriteIntro", "WriteBody", "WriteEnd"][: draw.number(1, 3)]
    turns = [Turn(role, "Plan", does=[Swap(tuple(plan))], says=draw.say())]
    turns += [Turn(role, name, says=draw.say()) for name in plan]
    return Script(turns)


def a_plan_that_was_replaced(draw: Any) -> Script:
    """The first list gave way to a second one, and that was worked off."""
    role = draw.role()
    return Script(
        [
            Turn(role, "Plan", does=[Swap(("Dig", "Build"))], says=draw.say()),
            Turn(role, "Dig", does=[Swap(("Paint",))], says=draw.say()),
            Turn(role, "Paint", says=draw.say()),
        ]
    )


def the_question_is_answered(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    return Script(
        [Turn(one, "Ask", says="Which unit?", to=two), Turn(two, "Answer", says=draw.say())]
    )


def a_question_to_everyone(draw: Any) -> Script:
    """Whoever asks all of them asks nobody in particular."""
    one, two = draw.role(), draw.role()
    return Script([Turn(two, "Talk", says=draw.say()), Turn(one, "Ask", says="All happy?")])


def the_last_word_is_no_question(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    says = draw.one_of("Looks good to me.", "Merged. Thank you!", draw.say())
    return Script([Turn(two, "Write", says=draw.say()), Turn(one, "Approve", says=says, to=two)])


def the_answer_was_given(draw: Any) -> Script:
    """A wrong answer is an answer."""
    one, solver = draw.role(), draw.role()
    turns = [*draw.chatter(one), Turn(solver, "Solve", says=str(draw.number(0, 99)))]
    return Script(turns, goal={"answer": draw.one_of(solver, True)}, stop="finished")


def it_never_ended(draw: Any) -> Script:
    """A trace without a stop tells nothing about its end."""
    role = draw.role()
    turns = [Turn(role, "Write", says=draw.say())]
    return Script(turns, goal={"artifacts": [draw.file()]}, stop=None)


def a_check_without_result(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    return Script(
        [
            Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
            Turn(tester, "Verify", does=[Check("tests", None)], says=draw.say()),
        ]
    )


def a_polite_close(draw: Any) -> Script:
    """The work is handed over with a question that nobody has to answer."""
    writer, boss = draw.role(), draw.role()
    close = draw.one_of("Any questions?", "Anything else?", "Do you like it?", "Gefällt es dir?")
    turns = [*draw.chatter(writer), Turn(writer, "Write", says=f"{draw.say()} {close}", to=boss)]
    goal = draw.one_of(None, {"answer": writer})
    return Script(turns, goal=goal, silent=[boss], stop="finished")


def a_close_after_the_delivery(draw: Any) -> Script:
    """The question stands alone, and all that the goal asks for has been made."""
    writer, boss = draw.role(), draw.role()
    name = draw.file()
    turns = [
        Turn(writer, "Write", does=[Make(name, draw.say())], says=draw.say()),
        Turn(writer, "Close", says=draw.one_of("Any questions?", "Do you like it?"), to=boss),
    ]
    return Script(turns, goal={"artifacts": [name]}, silent=[boss])


def the_goals_check_came_to_no_result(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    return Script(
        [
            Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", None)], says=draw.say()),
        ],
        goal={"verify": "tests"},
    )


def the_failed_file_was_changed(draw: Any) -> Script:
    """What failed was changed once more, and so was another file."""
    coder, tester = draw.role(), draw.role()
    asked, added = draw.file(), draw.file()
    again = [Make(name, draw.say()) for name in (asked, added)]
    return Script(
        [
            Turn(coder, "Write", does=[Make(asked, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check(asked, False)], says=draw.say()),
            Turn(coder, "Write", does=again, says=draw.say()),
        ],
        goal=draw.one_of({"artifacts": [asked]}, {"verify": asked}),
    )


def hidden_tests_failed(draw: Any) -> Script:
    """The environment's own check failed after the end: no role could know."""
    coder, other = draw.role(), draw.role()
    turns = [
        Turn(coder, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
        *draw.chatter(coder, other),
    ]
    hidden = Watched(0, {"target": "tests", "passed": False})
    return Script(turns, goal={"verify": "tests"}, watched=[hidden], stop="finished")


def a_farewell_after_a_success(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    runs = [
        Use("run_python", {"code": draw.say()}, "exitcode: 1", ok=False),
        Use("run_python", {"code": draw.say()}, "exitcode: 0"),
    ]
    farewell = Note("message", "TERMINATE", {"farewell": True})
    turns = [Turn(one, does=runs, says=draw.say()), Turn(two, does=[farewell])]
    return Script(turns, about=CHAT, stop=None)


def an_answer_after_a_failure(draw: Any) -> Script:
    """The code failed; the answer was found without it."""
    one, two = draw.role(), draw.role()
    run = Use("run_python", {"code": draw.say()}, "exitcode: 1", ok=False)
    farewell = Note("message", f"{draw.say()} So it is 12.\nTERMINATE", {"farewell": True})
    turns = [Turn(one, does=[run], says=draw.say()), Turn(two, does=[farewell])]
    return Script(turns, about=CHAT, stop=None)


def worked_out_in_words(draw: Any) -> Script:
    """After the failure the team goes on without code, and then closes."""
    one, two = draw.role(), draw.role()
    run = Use("run_python", {"code": draw.say()}, "exitcode: 1", ok=False)
    farewell = Note("message", "TERMINATE", {"farewell": True})
    talk = " ".join(draw.say() for _ in range(3))
    turns = [
        Turn(one, does=[run], says="It failed."),
        Turn(two, says=talk),
        Turn(one, does=[farewell]),
    ]
    return Script(turns, about=CHAT, stop=draw.one_of(None, "finished"))


def a_chat_that_may_go_on(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    run = Use("run_python", {"code": draw.say()}, "exitcode: 1", ok=False)
    farewell = Note("message", "TERMINATE", {"farewell": True})
    turns = [Turn(one, does=[run], says=draw.say()), Turn(two, does=[farewell], says=draw.say())]
    return Script(turns, about=CHAT, stop=None)


POSITIVE = [
    a_bare_farewell_to_an_error,
    a_file_is_missing,
    nobody_answers,
    ended_on_a_failed_check,
    half_of_a_plan,
    a_question_is_left_open,
    the_goals_check_was_never_run,
    another_file_after_a_failed_check,
]
NEGATIVE = [
    a_farewell_after_a_success,
    an_answer_after_a_failure,
    worked_out_in_words,
    a_chat_that_may_go_on,
    everything_is_there,
    cut_off_by_rounds,
    cut_off_otherwise,
    repaired_and_checked,
    repaired_and_not_checked,
    the_whole_plan,
    a_plan_that_was_replaced,
    the_question_is_answered,
    a_question_to_everyone,
    the_last_word_is_no_question,
    the_answer_was_given,
    it_never_ended,
    a_check_without_result,
    a_polite_close,
    a_close_after_the_delivery,
    the_goals_check_came_to_no_result,
    the_failed_file_was_changed,
    hidden_tests_failed,
]


async def test_early_ends_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    score = await measure(
        PrematureEnd(), "premature_end", positive=POSITIVE, negative=NEGATIVE, seeds=10
    )
    holds(score)
