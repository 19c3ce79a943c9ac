"""Planted checks that pass what is wrong, and checks that are right, absent or late."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy import annotate
from rolecraft.failure_taxonomy.detectors import WeakVerification
from rolecraft.failure_taxonomy.formats import FORMATS, Format
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.planting import Check, Make, Score, Script, Turn, Watched

MODE = "verification.weak"
SOLVED = {"outcome": {"signal": "solved", "at_least": 1}}


def _measured(value: float, turn: int = 0) -> Watched:
    return Watched(turn, {"name": "solved", "value": value}, kind="signal")


def _made_and_checked(draw: Any, *verdicts: bool | None, target: str = "") -> list[Turn]:
    """A file is written and checked, as often as there are verdicts."""
    coder, tester = draw.role(), draw.role()
    name, turns = draw.file(), []
    for passed in verdicts:
        check = Check(target or draw.one_of("tests", name), passed)
        turns += [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "Examine", does=[check], says=draw.say()),
        ]
    return [*turns, *draw.chatter(coder, tester)]


# --- the verifier passed what is wrong ------------------------------------------------------------


def hidden_tests_fail(draw: Any) -> Script:
    turns = _made_and_checked(draw, *[False] * draw.number(0, 2), True, target="tests")
    hidden = Watched(0, {"target": draw.one_of("tests", "hidden tests"), "passed": False})
    return Script(turns, watched=[hidden], stop=draw.one_of("idle", "finished"))


def the_signal_says_no(draw: Any) -> Script:
    turns = _made_and_checked(draw, True)
    return Script(turns, about=SOLVED, watched=[_measured(0.0)])


def a_wrong_answer_is_accepted(draw: Any) -> Script:
    solver, verifier = draw.role(), draw.role()
    turns = [
        *draw.chatter(solver),
        Turn(solver, "Solve", says=str(draw.number(0, 99))),
        Turn(verifier, "Verify", does=[Check("answer", True)], says="Accepted."),
    ]
    goal = draw.one_of({"answer": solver}, {"answer": verifier, "verify": "answer"})
    return Script(turns, goal=goal, about=SOLVED, watched=[_measured(0.0)], stop="finished")


def the_author_checks_himself_and_errs(draw: Any) -> Script:
    role = draw.role()
    name = draw.file()
    deeds = [Make(name, draw.say()), Check(name, True)]
    turns = [Turn(role, "Write", does=deeds, says=draw.say()), *draw.chatter(role)]
    return Script(turns, watched=[Watched(0, {"target": name, "passed": False})])


def the_goals_own_signal(draw: Any) -> Script:
    """Without an outcome of its own, the header's goal says what is measured."""
    goal = {"signal": "failures", "at_most": 0}
    failures = Watched(0, {"name": "failures", "value": float(draw.number(1, 9))}, kind="signal")
    return Script(_made_and_checked(draw, True), goal=goal, watched=[failures])


def only_the_goals_check_counts(draw: Any) -> Script:
    turns = _made_and_checked(draw, True, target="answer")
    turns.insert(1, Turn(turns[0].role, "Try", does=[Check("draft", False)], says=draw.say()))
    return Script(turns, goal={"verify": "answer"}, about=SOLVED, watched=[_measured(0.0)])


# --- none of that ---------------------------------------------------------------------------------


def passed_and_right(draw: Any) -> Script:
    hidden = Watched(0, {"target": "hidden tests", "passed": True})
    watched, about = draw.one_of(([hidden], {}), ([_measured(1.0)], SOLVED))
    return Script(_made_and_checked(draw, True), about=about, watched=watched)


def nobody_knows_the_outcome(draw: Any) -> Script:
    return Script(_made_and_checked(draw, True), about=draw.one_of({}, SOLVED))


def the_verifier_saw_it(draw: Any) -> Script:
    """The check failed as well: it found what there was to find."""
    turns = _made_and_checked(draw, *draw.one_of([False], [True, False]), target="tests")
    return Script(turns, about=SOLVED, watched=[_measured(0.0)])


def nobody_checked(draw: Any) -> Script:
    """Then verification is absent rather than weak."""
    one, two = draw.role(), draw.role()
    turns = [Turn(one, "Solve", says=draw.say()), Turn(two, "Thank", says=draw.say())]
    return Script(turns, goal={"answer": one}, about=SOLVED, watched=[_measured(0.0)])


def changed_after_the_check(draw: Any) -> Script:
    """What was checked may have been right; the last change was not looked at."""
    coder, tester = draw.role(), draw.role()
    name = draw.file()
    return Script(
        [
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
            Turn(tester, "Examine", does=[Check(draw.one_of(name, "all"), True)], says=draw.say()),
            Turn(coder, "Write", does=[Make(name, draw.say())], says=draw.say()),
        ],
        about=SOLVED,
        watched=[_measured(0.0)],
    )


def another_file_is_wrong(draw: Any) -> Script:
    """The checked file is fine; the other one was never checked."""
    role, tester = draw.role(), draw.role()
    good, bad = draw.file(), draw.file()
    turns = [
        Turn(role, "Write", does=[Make(good, draw.say()), Make(bad, draw.say())], says=draw.say()),
        Turn(tester, "Examine", does=[Check(good, True)], says=draw.say()),
    ]
    watched = draw.one_of(Watched(0, {"target": bad, "passed": False}), _measured(0.0))
    return Script(turns, about=SOLVED if watched.kind == "signal" else {}, watched=[watched])


def a_check_without_result(draw: Any) -> Script:
    return Script(_made_and_checked(draw, None), about=SOLVED, watched=[_measured(0.0)])


def cut_off(draw: Any) -> Script:
    """A part passed, and a limit ended the run before the rest was done."""
    turns = _made_and_checked(draw, True)
    return Script(turns, about=SOLVED, watched=[_measured(0.0)], stop=draw.one_of("limit", "error"))


def a_rule_is_broken(draw: Any) -> Script:
    """That a constraint was broken says nothing about the outcome."""
    broken = Watched(0, {"constraint": "short", "passed": False})
    return Script(_made_and_checked(draw, True), watched=[broken])


def another_signal(draw: Any) -> Script:
    """Not every measurement is the outcome."""
    other = Watched(0, {"name": "code.failed", "value": 0.0}, kind="signal")
    return Script(_made_and_checked(draw, True), about=SOLVED, watched=[other, _measured(1.0)])


POSITIVE = [
    hidden_tests_fail,
    the_signal_says_no,
    a_wrong_answer_is_accepted,
    the_author_checks_himself_and_errs,
    the_goals_own_signal,
    only_the_goals_check_counts,
]
NEGATIVE = [
    passed_and_right,
    nobody_knows_the_outcome,
    the_verifier_saw_it,
    nobody_checked,
    changed_after_the_check,
    another_file_is_wrong,
    a_check_without_result,
    cut_off,
    a_rule_is_broken,
    another_signal,
]


async def test_weak_checks_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(WeakVerification(), MODE, positive=POSITIVE, negative=NEGATIVE))


async def test_a_check_that_was_right_is_said_to_be_right() -> None:
    script = Script(
        [Turn("ada", does=[Check("answer", True)], says="12")],
        about=SOLVED,
        watched=[_measured(1.0)],
    )
    (finding,) = WeakVerification().judge(await script.play())
    assert (finding.verdict, finding.confidence) == ("absent", 0.95)


@pytest.fixture
def labelled() -> Any:
    """A format whose files say whether the task was done."""
    said = lambda trajectory: [Labels(outcome=trajectory.about["labels"]["right"])]  # noqa: E731
    form = Format("labelled", "for a test", lambda s: False, lambda s: [], labels=said)
    FORMATS[form.name] = form
    yield form.name
    del FORMATS[form.name]


async def test_an_outcome_in_labels_is_read_only_if_the_caller_wants_it(labelled: str) -> None:
    about = {"format": labelled, "labels": {"right": False}}
    script = Script([Turn("ada", does=[Check("answer", True)], says="12")], about=about)
    trajectory = await script.play()
    (unasked,) = WeakVerification().judge(trajectory)
    assert (unasked.verdict, unasked.source) == ("unknown", "detector.verification_weak")
    report = await annotate(trajectory, detectors=[WeakVerification(labelled=True)])
    (finding,) = report.present
    assert (finding.mode, finding.role) == (MODE, "ada")
    assert finding.source == "detector.verification_weak+outcome"
