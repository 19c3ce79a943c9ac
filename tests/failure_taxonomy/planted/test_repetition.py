"""Planted repetitions of steps, and runs that only look like it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from rolecraft.failure_taxonomy.detectors import Repetition
from rolecraft.failure_taxonomy.planting import Check, Make, Score, Script, Swap, Turn, Use

# --- a step is repeated ---------------------------------------------------------------------------


def same_call_within_an_action(draw: Any) -> Script:
    """A tool is asked the same thing again, and the answer is the same."""
    role, other = draw.role(), draw.role()
    call = draw.one_of(draw.reading(), draw.writing())
    calls = [call] * draw.number(2, 4)
    return Script([*draw.chatter(role, other), Turn(role, "Research", does=calls, says=draw.say())])


def same_call_in_the_next_action(draw: Any) -> Script:
    """The listing is read, and in the next action read again, with nothing in between."""
    role = draw.role()
    call = draw.reading()
    return Script(
        [
            Turn(role, "Look", does=[call], says=draw.say()),
            Turn(role, "Plan", does=[call], says=draw.say()),
        ]
    )


def same_reading_after_another_reading(draw: Any) -> Script:
    """A, B, A: both only look, so nothing can have changed for the second A."""
    role = draw.role()
    first, second = draw.reading(), draw.reading()
    return Script([Turn(role, "Explore", does=[first, second, first], says=draw.say())])


def arguments_in_other_order(draw: Any) -> Script:
    """The order of the arguments and white space in them make no other call."""
    role = draw.role()
    call = draw.reading()
    text = draw.say()
    spaced = text.replace(" ", "  ")
    return Script(
        [
            Turn(
                role,
                "Search",
                does=[
                    replace(call, arguments={"text": text, "n": 1}),
                    replace(call, arguments={"n": 1, "text": f" {spaced}\n"}),
                ],
                says=draw.say(),
            )
        ]
    )


def two_roles_in_a_loop(draw: Any) -> Script:
    """Each says again what it said, the other answers as before."""
    one, two = draw.role(), draw.role()
    lap = [Turn(one, "Ask", says=draw.say()), Turn(two, "Answer", says=draw.say())]
    return Script([*draw.chatter(one, two), *lap * draw.number(2, 4)])


def three_roles_in_a_loop(draw: Any) -> Script:
    """A loop of three needs no other rule than a loop of two."""
    roles = [draw.role() for _ in range(3)]
    lap = [Turn(role, "Pass", says=draw.say()) for role in roles]
    return Script(lap * draw.number(2, 3))


def loop_with_tools(draw: Any) -> Script:
    """Search and edit, search and edit: from the second lap on nothing is new."""
    role, other = draw.role(), draw.role()
    calls = [draw.reading(), draw.writing()]
    return Script([*draw.chatter(role, other), Turn(role, "Fix", does=calls * 3, says=draw.say())])


def failing_call_over_and_over(draw: Any) -> Script:
    """The same call fails with the same error, and is made again and again."""
    role = draw.role()
    call = Use("deploy", {"to": draw.file()}, f"Error: {draw.say()}", ok=False)
    return Script([Turn(role, "Deploy", does=[call] * draw.number(3, 6), says=draw.say())])


def failing_call_once_more(draw: Any) -> Script:
    """The command failed, nothing was changed, and the same command fails in the same way."""
    role = draw.role()
    call = Use("fetch", {"url": draw.file()}, "Error: no such host", ok=False)
    return Script([Turn(role, "Fetch", does=[call, call], says=draw.say())])


def result_that_differs_in_its_times(draw: Any) -> Script:
    """How long it took, and when it was, make no other outcome."""
    role = draw.role()
    told = draw.say()
    call = Use("run_tests", {"all": True}, f"{told} 3 passed in 0.12s at 10:31:07", ok=True)
    again = replace(call, result=f"{told} 3 passed in 1.4 s at 10:33:58")
    return Script([Turn(role, "Check", does=[call, again], says=draw.say())])


def artifact_written_again_unchanged(draw: Any) -> Script:
    """The same file with the same content is written by the same action a second time."""
    role, other = draw.role(), draw.role()
    turn = Turn(role, "WriteFile", does=[Make(draw.file(), draw.say())], says=draw.say())
    nod = Turn(other, "Nod", says=turn.says)
    return Script([turn, nod, turn])


def stuck_until_a_limit(draw: Any) -> Script:
    """A role goes on with one step until the round limit ends the run."""
    one, two = draw.role(), draw.role()
    lap = [Turn(one, "Greet", says=draw.say()), Turn(two, "Greet", says=draw.say())]
    return Script(lap * 5, stop="rounds")


# --- no step is repeated --------------------------------------------------------------------------


def plain_work(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    turns = [
        Turn(draw.one_of(one, two), "Work", does=[draw.reading(), draw.writing()], says=draw.say())
        for _ in range(draw.number(3, 8))
    ]
    return Script(turns)


def same_call_after_a_change(draw: Any) -> Script:
    """The tests are run again because a file was changed in between; they fail as before."""
    role = draw.role()
    name = draw.file()
    tests = Use("run_tests", {"all": True}, "1 failed: test_total")
    return Script(
        [
            Turn(
                role,
                "Fix",
                does=[Make(name, draw.say()), tests, Make(name, draw.say()), tests],
                says=draw.say(),
            )
        ]
    )


def same_call_after_a_tool_that_writes(draw: Any) -> Script:
    """No artifact is recorded, but a shell may have changed anything."""
    role = draw.role()
    tests = Use("run_tests", {"all": True}, "1 failed: test_total")
    return Script([Turn(role, "Fix", does=[tests, draw.writing(), tests], says=draw.say())])


def same_call_with_another_answer(draw: Any) -> Script:
    """The clock is asked twice and tells two times."""
    role = draw.role()
    call = draw.reading()
    return Script(
        [Turn(role, "Look", does=[call, replace(call, result=draw.say())], says=draw.say())]
    )


def waiting(draw: Any) -> Script:
    """A job is asked for its state until it is done."""
    role = draw.role()
    pending = Use("job_state", {"id": draw.number(1, 99)}, "pending")
    calls = [*[pending] * draw.number(2, 6), replace(pending, result="done")]
    return Script([Turn(role, "Wait", does=calls, says=draw.say())])


def one_retry_that_works(draw: Any) -> Script:
    """What failed is tried once more, and works."""
    role = draw.role()
    call = Use("fetch", {"url": draw.file()}, "Error: timed out", ok=False)
    second = replace(call, result=draw.say(), ok=True)
    return Script([Turn(role, "Fetch", does=[call, second], says=draw.say())])


def retry_after_a_change(draw: Any) -> Script:
    """The command failed, something was mended, and the same command fails once more."""
    role = draw.role()
    call = Use("deploy", {"to": "test"}, "Error: port is taken", ok=False)
    mend = draw.one_of(draw.writing(), Make(draw.file(), draw.say()))
    return Script([Turn(role, "Deploy", does=[call, mend, call], says=draw.say())])


def same_words_for_other_work(draw: Any) -> Script:
    """Repeated text is no repeated step: each "Done." is about another file."""
    one, two = draw.role(), draw.role()
    says = draw.one_of("Done.", "I have finished the file that you asked for, as always.")
    turns = []
    for _ in range(draw.number(2, 4)):
        turns += [
            Turn(one, "Order", says=draw.say()),
            Turn(two, "WriteFile", does=[Make(draw.file(), draw.say())], says=says),
        ]
    return Script(turns)


def the_user_asks_again(draw: Any) -> Script:
    """Whoever is asked again may answer again."""
    role = draw.role()
    call = draw.reading()
    turn = Turn(role, "Answer", does=[call], says=draw.say())
    again = Turn("user", says=draw.one_of(draw.say(), "Once more, please."))
    return Script([turn, *[again, turn] * draw.number(2, 3)])


def a_colleague_asks_for_it(draw: Any) -> Script:
    """A new message to the role is a reason to look again."""
    one, two = draw.role(), draw.role()
    call = draw.reading()
    return Script(
        [
            Turn(one, "Look", does=[call], says=draw.say()),
            Turn(two, "Doubt", says=draw.say(), to=one),
            Turn(one, "Look", does=[call], says=draw.say()),
        ]
    )


def two_roles_do_the_same(draw: Any) -> Script:
    """Each of two roles reads the file for itself, once."""
    one, two = draw.role(), draw.role()
    call = draw.reading()
    says = draw.say()
    return Script(
        [Turn(one, "Read", does=[call], says=says), Turn(two, "Read", does=[call], says=says)]
    )


def other_arguments(draw: Any) -> Script:
    """The pages of one document, one after the other."""
    role = draw.role()
    pages = range(draw.number(2, 6))
    calls = [Use("read_page", {"page": page}, "(empty page)") for page in pages]
    return Script([Turn(role, "Read", does=calls, says=draw.say())])


def same_question_answered_anew(draw: Any) -> Script:
    """A model is asked for three drafts; each is another one."""
    role, other = draw.role(), draw.role()
    drafts = [Turn(role, "Draft", says=draw.say(), fields={"style": "short"}) for _ in range(3)]
    return Script([*drafts, Turn(other, "Choose", says=draw.say())])


def a_new_list_of_actions(draw: Any) -> Script:
    """After its action list was replaced a role begins anew."""
    role = draw.role()
    call = draw.reading()
    return Script(
        [
            Turn(role, "Look", does=[call], says=draw.say()),
            Turn(role, "Replan", does=[Swap(("Look",))], says=draw.say()),
            Turn(role, "Look", does=[call], says=draw.say()),
        ]
    )


def checked_again_with_another_result(draw: Any) -> Script:
    """A check that failed and now passes tells everybody something."""
    role, other = draw.role(), draw.role()
    call = draw.reading()
    return Script(
        [
            Turn(role, "Look", does=[Check("tests", False), call], says=draw.say()),
            Turn(other, "Verify", does=[Check("tests", True)], says="ok"),
            Turn(role, "Look", does=[call], says="ok"),
        ]
    )


def call_that_never_came_back(draw: Any) -> Script:
    """A step that was not finished is not done again; it is done."""
    role = draw.role()
    call = draw.reading()
    return Script([Turn(role, "Look", does=[replace(call, result=None), call], says=draw.say())])


def review_in_rounds(draw: Any) -> Script:
    """The reviewer says the same each time, about another version."""
    one, two = draw.role(), draw.role()
    name, turns = draw.file(), []
    for _ in range(draw.number(2, 4)):
        turns += [
            Turn(one, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(two, "Review", does=[Check(name, False)], says="This is not good enough yet."),
        ]
    return Script(turns)


def standup(draw: Any) -> Script:
    """The same question every morning, and other news every time."""
    one, two = draw.role(), draw.role()
    turns = []
    for _ in range(draw.number(2, 5)):
        turns += [Turn(one, "Ask", says="How far are you?"), Turn(two, "Tell", says=draw.say())]
    return Script(turns)


def still_building(draw: Any) -> Script:
    """A role that is asked for something unfinished says so, until it is finished."""
    one, two = draw.role(), draw.role()
    turns = []
    for state in ["Still building.", "Still building.", draw.say()]:
        turns += [Turn(one, "Ask", says=draw.say(), to=two), Turn(two, "Tell", says=state)]
    return Script(turns)


def silent_actions(draw: Any) -> Script:
    """An action that leaves nothing has finished nothing."""
    role = draw.role()
    return Script([*[Turn(role, "Listen")] * 3, Turn(role, "Speak", says=draw.say())])


POSITIVE = [
    same_call_within_an_action,
    same_call_in_the_next_action,
    same_reading_after_another_reading,
    arguments_in_other_order,
    two_roles_in_a_loop,
    three_roles_in_a_loop,
    loop_with_tools,
    failing_call_over_and_over,
    failing_call_once_more,
    result_that_differs_in_its_times,
    artifact_written_again_unchanged,
    stuck_until_a_limit,
]
NEGATIVE = [
    plain_work,
    same_call_after_a_change,
    same_call_after_a_tool_that_writes,
    same_call_with_another_answer,
    waiting,
    one_retry_that_works,
    retry_after_a_change,
    same_words_for_other_work,
    the_user_asks_again,
    a_colleague_asks_for_it,
    two_roles_do_the_same,
    other_arguments,
    same_question_answered_anew,
    a_new_list_of_actions,
    checked_again_with_another_result,
    call_that_never_came_back,
    review_in_rounds,
    standup,
    still_building,
    silent_actions,
]


async def test_repetitions_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(Repetition(), "repetition", positive=POSITIVE, negative=NEGATIVE))
