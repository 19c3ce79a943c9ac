"""Planted runs that go on when they are over, and runs that only look like it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rolecraft.failure_taxonomy.detectors import TerminationUnaware
from rolecraft.failure_taxonomy.planting import Check, Make, Note, Score, Script, Turn, Watched


def _work(draw: Any, coder: str, tester: str, name: str, rounds: int) -> list[Turn]:
    """Write and test, until the tests pass in the last round."""
    turns = []
    for number in range(1, rounds + 1):
        check = Check("tests", number == rounds)
        turns += [
            Turn(coder, "WriteCode", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[check], says=draw.say()),
        ]
    return turns


# --- the run goes on ------------------------------------------------------------------------------


def polish_after_the_tests_pass(draw: Any) -> Script:
    """The goal is met; coder and tester go on with versions that nobody needs."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    turns = _work(draw, coder, tester, name, draw.number(1, 3))
    for _ in range(draw.number(2, 5)):
        turns += [
            Turn(coder, "WriteCode", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", True)], says=draw.say()),
        ]
    return Script(turns, goal={"verify": "tests"}, stop=draw.one_of("idle", "rounds"))


def polish_breaks_what_was_right(draw: Any) -> Script:
    """They go on until the tests fail again."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    turns = _work(draw, coder, tester, name, draw.number(1, 2))
    for _ in range(2):
        turns.append(Turn(coder, "WriteCode", does=[Make(name, draw.say())], says=draw.say()))
        turns.append(Turn(tester, "Discuss", says=draw.say()))
    turns.append(Turn(tester, "RunTests", does=[Check("tests", False)], says=draw.say()))
    return Script(turns, goal={"verify": "tests"})


def thanks_without_end(draw: Any) -> Script:
    """Everybody thanks everybody, after the work is done."""
    coder, tester = draw.role(), draw.role()
    turns = [
        Turn(coder, "Chat", does=[Make(draw.file(), draw.say())], says=draw.say()),
        Turn(tester, "Chat", does=[Check("tests", True)], says=draw.say()),
    ]
    for _ in range(draw.number(2, 4)):
        turns += [Turn(coder, "Chat", says=draw.say()), Turn(tester, "Chat", says=draw.say())]
    return Script(turns, goal={"verify": "tests"}, stop=draw.one_of("idle", "rounds"))


def all_files_are_there(draw: Any) -> Script:
    """The goal's artifacts have their last form, and the author goes on writing about them."""
    coder, other = draw.role(), draw.role()
    names = [draw.file() for _ in range(draw.number(1, 3))]
    turns = [Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    for _ in range(draw.number(2, 4)):
        turns += [Turn(other, "Comment", says=draw.say()), Turn(coder, "Write", says=draw.say())]
    return Script(turns, goal={"artifacts": names})


def the_signal_has_reached_its_bound(draw: Any) -> Script:
    """What was measured at one message already met the goal."""
    coder, other = draw.role(), draw.role()
    turns = [Turn(coder, "Work", says=draw.say()), Turn(other, "Comment", says=draw.say())]
    reached = draw.number(0, 1)
    for _ in range(draw.number(2, 4)):
        turns += [Turn(coder, "Work", says=draw.say()), Turn(other, "Comment", says=draw.say())]
    value = {"name": "tests.failed", "value": 0.0}
    return Script(
        turns,
        goal={"signal": "tests.failed", "at_most": 0},
        watched=[Watched(reached, value, kind="signal")],
    )


def stuck_in_a_loop_until_the_limit(draw: Any) -> Script:
    """No goal is known, but nothing new was said for laps before the round limit."""
    one, two = draw.role(), draw.role()
    lap = [Turn(one, "Ask", says=draw.say()), Turn(two, "Refuse", says=draw.say())]
    return Script([*draw.chatter(one, two), *lap * draw.number(4, 6)], stop="rounds")


# --- the run ends in time -------------------------------------------------------------------------


def ends_when_the_tests_pass(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    turns = _work(draw, coder, tester, draw.file(), draw.number(1, 4))
    return Script(turns, goal={"verify": "tests"}, stop=draw.one_of("idle", "finished"))


def one_closing_report(draw: Any) -> Script:
    """The last word may be said with the action that the role always uses."""
    coder, tester = draw.role(), draw.role()
    turns = _work(draw, coder, tester, draw.file(), draw.number(1, 3))
    turns.append(Turn(coder, draw.one_of("WriteCode", "Report"), says=draw.say()))
    return Script(turns, goal={"verify": "tests"})


def everyone_says_goodbye_once(draw: Any) -> Script:
    """One more step of each role is no carrying on."""
    roles = [draw.role() for _ in range(draw.number(2, 4))]
    turns = [Turn(role, "Chat", says=draw.say()) for role in roles]
    turns.append(Turn(roles[0], "RunTests", does=[Check("tests", True)], says=draw.say()))
    turns += [Turn(role, "Chat", says=draw.say()) for role in roles[1:]]
    return Script(turns, goal={"verify": "tests"})


def wrapping_up(draw: Any) -> Script:
    """Work of a kind that was not done before: the summary, the release."""
    coder, tester = draw.role(), draw.role()
    turns = _work(draw, coder, tester, draw.file(), draw.number(1, 3))
    steps = ["Summarise", "Publish", "Archive"][: draw.number(2, 3)]
    turns += [Turn(coder, step, says=draw.say()) for step in steps]
    return Script(turns, goal={"verify": "tests"})


def the_user_wants_more(draw: Any) -> Script:
    """A second request makes the work go on, goal or no goal."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    turns = _work(draw, coder, tester, name, 1)
    turns.append(Turn("user", says=draw.say()))
    for _ in range(draw.number(2, 4)):
        turns.append(Turn(coder, "WriteCode", does=[Make(name, draw.say())], says=draw.say()))
        turns.append(Turn(tester, "Discuss", says=draw.say()))
    return Script(turns, goal={"verify": "tests"})


def a_pass_that_did_not_last(draw: Any) -> Script:
    """The tests fail again at once, so that the work has to go on."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    turns = _work(draw, coder, tester, name, 1)
    turns.append(Turn(tester, "RunTests", does=[Check("tests", False)], says=draw.say()))
    return Script([*turns, *_work(draw, coder, tester, name, 3)], goal={"verify": "tests"})


def checking_once_more(draw: Any) -> Script:
    """Checks after the goal is met are care, not carrying on."""
    coder, tester = draw.role(), draw.role()
    turns = _work(draw, coder, tester, draw.file(), 2)
    for _ in range(draw.number(2, 3)):
        turns.append(Turn(tester, "RunTests", does=[Check("tests", True)], says=draw.say()))
    return Script(turns, goal={"verify": "tests"})


def revisions_are_work(draw: Any) -> Script:
    """All files exist early on, and each step changes one of them."""
    coder, other = draw.role(), draw.role()
    names = [draw.file(), draw.file()]
    turns = [Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()) for name in names]
    for _ in range(draw.number(2, 4)):
        made = Make(draw.one_of(*names), draw.say())
        turns += [
            Turn(other, "Comment", says=draw.say()),
            Turn(coder, "Write", does=[made], says=draw.say()),
        ]
    return Script(turns, goal={"artifacts": names})


def cut_off_at_work(draw: Any) -> Script:
    """The round limit ends a run that was getting on."""
    coder, tester = draw.role(), draw.role()
    name, turns = draw.file(), []
    for _ in range(draw.number(3, 6)):
        turns += [
            Turn(coder, "WriteCode", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "RunTests", does=[Check("tests", False)], says=draw.say()),
        ]
    return Script(turns, goal={"verify": "tests"}, stop="rounds")


def no_goal_is_stated(draw: Any) -> Script:
    """Without a goal that can be checked, nobody can say that it was met."""
    coder, tester = draw.role(), draw.role()
    turns = _work(draw, coder, tester, draw.file(), 1)
    for _ in range(4):
        turns += [Turn(coder, "WriteCode", says=draw.say()), Turn(tester, "Talk", says=draw.say())]
    return Script(turns, goal=draw.one_of(None, "short, true headlines", {"answer": coder}))


def at_the_same_time(draw: Any) -> Script:
    """A role acts in the round in which the tests pass; it could not know."""
    coder, tester, third = draw.role(), draw.role(), draw.role()
    talk = [Turn(role, "Draft", says=draw.say()) for role in (tester, third, coder)]
    done = Turn(tester, "RunTests", does=[Check("tests", True)], says=draw.say())
    drafts = [Turn(third, "Draft", says=draw.say(), together=True) for _ in range(2)]
    return Script([*talk, done, *drafts], goal={"verify": "tests"})


def another_target_passes(draw: Any) -> Script:
    """The linter is content; the goal is that the tests pass."""
    coder, tester = draw.role(), draw.role()
    turns = [
        Turn(coder, "WriteCode", says=draw.say()),
        Turn(tester, "Lint", does=[Check("lint", True)], says=draw.say()),
    ]
    return Script([*turns, *_work(draw, coder, tester, draw.file(), 3)], goal={"verify": "tests"})


# --- chats whose importers mark farewells, and requests that cannot be met ------------------------


def bye(draw: Any, role: str, says: str = "") -> Turn:
    """A message that an importer marked as a farewell."""
    text = f"{says}\nTERMINATE" if says else "TERMINATE"
    return Turn(role, does=[Note("message", text, {"farewell": True})], says=draw.one_of("", " "))


def farewells_without_end(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    turns = [Turn(one, says=draw.say()), Turn(two, says=draw.say())]
    turns += [bye(draw, role) for role in [one, two] * draw.number(2, 4)]
    return Script(turns, stop=draw.one_of("idle", "rounds", None))


def asks_what_cannot_be_done(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    request = draw.say()
    no = draw.one_of(
        "I cannot proceed without the data.",
        "Sorry, that is not possible here.",
        "I don't have access to that file.",
        "We are unable to do that.",
    )
    turns = []
    for _ in range(draw.number(3, 6)):
        turns += [Turn(one, "Ask", says=request, to=two), Turn(two, "Refuse", says=no, to=one)]
    return Script(turns, stop=draw.one_of("idle", "rounds", None))


def one_farewell_each(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    return Script([Turn(one, says=draw.say()), bye(draw, two, draw.say()), bye(draw, one)])


def farewells_of_parts(draw: Any) -> Script:
    """Each closes a part of the work, and work lies in between."""
    one, two = draw.role(), draw.role()
    turns = []
    for _ in range(4):
        work = [Turn(one, does=[draw.writing()], says=draw.say()), Turn(one, says=draw.say() * 3)]
        turns += [draw.one_of(*work), bye(draw, two, draw.say())]
    return Script(turns)


def asks_again_with_what_was_missing(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    request = draw.say()
    turns = []
    for _ in range(3):
        turns += [
            Turn(one, "Ask", says=request, to=two),
            Turn(two, "Refuse", says="I cannot proceed without the data.", to=one),
            Turn(one, "Fetch", does=[draw.reading()], says=draw.say()),
        ]
    return Script(turns)


def asks_for_something_else_instead(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    turns = []
    for _ in range(4):
        turns += [
            Turn(one, "Ask", says=draw.say(), to=two),
            Turn(two, "Refuse", says="I can't do that.", to=one),
        ]
    return Script(turns)


POSITIVE = [
    farewells_without_end,
    asks_what_cannot_be_done,
    polish_after_the_tests_pass,
    polish_breaks_what_was_right,
    thanks_without_end,
    all_files_are_there,
    the_signal_has_reached_its_bound,
    stuck_in_a_loop_until_the_limit,
]
NEGATIVE = [
    one_farewell_each,
    farewells_of_parts,
    asks_again_with_what_was_missing,
    asks_for_something_else_instead,
    ends_when_the_tests_pass,
    one_closing_report,
    everyone_says_goodbye_once,
    wrapping_up,
    the_user_wants_more,
    a_pass_that_did_not_last,
    checking_once_more,
    revisions_are_work,
    cut_off_at_work,
    no_goal_is_stated,
    at_the_same_time,
    another_target_passes,
]


async def test_carrying_on_is_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    detector = TerminationUnaware()
    holds(await measure(detector, "termination_unaware", positive=POSITIVE, negative=NEGATIVE))
