"""Planted claims of runs that never were and announcements that were not kept, and true ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy.detectors import ReasonAction
from rolecraft.failure_taxonomy.planting import Check, Deed, Make, Note, Score, Script, Turn, Use
from rolecraft.trajectories import Event, Trajectory

MODE = "reason_action"


def by_model(role: str, says: str, *does: Deed, action: str = "Work") -> Turn:
    """A turn in which a model says it, before or after other deeds."""
    return Turn(role, action, does=[*does, Note("model_call", says)], says=says)


def claim(draw: Any) -> str:
    said: str = draw.one_of(
        "I ran the tests.",
        "I have run all of the unit tests and they are fine.",
        "I've executed the code on the sample data.",
        "All tests pass.",
        "All 12 tests passed.",
        "The tests have all passed.",
        "Both test cases succeeded.",
        "I just ran the whole test suite.",
        "Great, all tests are now passing.",
        "I successfully executed the script.",
    )
    return said


# --- words and deeds differ -----------------------------------------------------------------------


def claims_a_run(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    says = draw.one_of("{0}", "{1} {0}", "{1}\n\n{0} {2}", "- {0}\n- {1}")
    text = says.format(claim(draw), draw.say(), draw.say())
    return Script(
        [
            by_model(coder, draw.say(), Make(draw.file(), draw.say())),
            by_model(tester, text),
            *draw.chatter(coder),
        ],
        stop=draw.one_of("idle", "finished", None),
    )


def claims_it_in_a_thought(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    thinks = Note("thought", f"{draw.say()} {claim(draw)}")
    return Script([by_model(one, draw.say(), thinks), by_model(two, draw.say())])


def has_only_read(draw: Any) -> Script:
    """Files were looked at; nothing was run."""
    one, two = draw.role(), draw.role()
    return Script([by_model(one, draw.say(), draw.reading()), by_model(two, claim(draw))])


def runs_it_afterwards(draw: Any) -> Script:
    """The run comes after the claim that it had been."""
    one, two = draw.role(), draw.role()
    check = Check("tests", draw.one_of(True, False))
    return Script([by_model(one, claim(draw)), by_model(two, draw.say(), check)])


def announces_one_tool_and_calls_another(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    one, two = draw.one_of(("run_tests", "delete_file"), ("search_web", "send_mail"))
    announced = draw.one_of(
        f"I will call `{one}`.",
        f"{draw.say()} Let me use the tool {one} for that.",
        f"Now I run {one}.",
        f"Action: {one}",
        f"I'm going to invoke {one} on it.",
    )
    said = Note(draw.one_of("thought", "model_call"), announced)
    return Script(
        [
            by_model(other, draw.say(), Use(one, {"n": 1}, "ok")),
            by_model(role, draw.say(), said, Use(two, {"n": 2}, draw.say())),
            by_model(other, draw.say()),
        ],
        stop=draw.one_of("idle", None),
    )


def announces_one_action_and_takes_another(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    announced = draw.one_of("Next action: RunTests", "I will take the action `RunTests`.")
    return Script(
        [
            Turn(role, "Think", does=[Note("model_call", announced)]),
            by_model(role, draw.say(), action="Deploy"),
            by_model(other, draw.say()),
        ],
        may={role: ["Think", "RunTests", "Deploy"]},
    )


# --- they do not ----------------------------------------------------------------------------------


def there_was_a_run(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    run = draw.one_of(
        Check("tests", draw.one_of(True, False, None)),
        Use("run_python", {"code": draw.say()}, draw.say()),
        Use("shell", {"command": "pytest"}, "2 passed"),
    )
    return Script([by_model(one, draw.say(), run), by_model(draw.one_of(one, two), claim(draw))])


def an_action_may_have_run_them(draw: Any) -> Script:
    role = draw.role()
    action = draw.one_of("RunTests", "ExecuteCode", "Validate", "CheckIt")
    return Script([by_model(role, claim(draw), action=action)])


def says_what_would_be(draw: Any) -> Script:
    says = draw.one_of(
        "If all tests pass, we merge.",
        "I will run the tests next.",
        "Please make sure that all tests pass.",
        "All tests should pass now.",
        "Have you run the tests?",
        "Once I have run the tests, I will report.",
        "I have not run the tests.",
        "I couldn't run the code.",
        "We are done when all tests pass.",
        "I want the tests to have passed before Friday.",
        "Tracing by hand, all tests pass.",
        "The tests pass a list to the parser.",
    )
    one, two = draw.role(), draw.role()
    return Script([by_model(one, f"{draw.say()} {says}"), by_model(two, draw.say())])


def lists_criteria(draw: Any) -> Script:
    head = draw.one_of("Acceptance criteria:", "Definition of done", "## Plan", "Checklist:")
    says = f"{draw.say()}\n{head}\n- {draw.say()}\n- All tests pass.\n- {draw.say()}"
    one, two = draw.role(), draw.role()
    return Script([by_model(one, says), by_model(two, draw.say())])


def quotes_the_claim(draw: Any) -> Script:
    says = draw.one_of(
        f'{draw.say()} Then write "All tests pass." into the log.',
        f"> All tests pass.\n{draw.say()}",
        f"```\nAll tests pass.\n```\n{draw.say()}",
        '{"comment": "All tests pass.", "accepted": true}',
    )
    one, two = draw.role(), draw.role()
    return Script([by_model(one, says), by_model(two, draw.say())])


def a_report_was_pasted(draw: Any) -> Script:
    """The user ran them and pasted what came out."""
    report = draw.one_of("Ran 12 tests in 0.1s\n\nOK", "exitcode: 0 (execution succeeded)\nOutput:")
    role = draw.role()
    return Script([Turn("user", says=f"Here it is:\n{report}"), by_model(role, claim(draw))])


def a_program_said_so(draw: Any) -> Script:
    """No model spoke: the words are those of code that may well have run the tests."""
    role = draw.role()
    return Script([Turn(role, says=claim(draw))])


def keeps_its_word(draw: Any) -> Script:
    role = draw.role()
    before = [draw.reading()] if draw.one_of(True, False) else []
    says = Note("model_call", "I will call `run_python` on it.")
    return Script([by_model(role, draw.say(), says, *before, Use("run_python", {}, "ok"))])


def names_both(draw: Any) -> Script:
    says = Note("model_call", "I will call `read_file`, and then `edit_file` if I must.")
    turn = by_model(draw.role(), draw.say(), says, Use("edit_file", {}, "ok"))
    return Script([turn, by_model(draw.role(), draw.say(), Use("read_file", {}, "ok"))])


def does_nothing_yet(draw: Any) -> Script:
    """Announced, and nothing done: there may be a later turn for it."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            by_model(one, "I will call `run_python` on it."),
            by_model(two, draw.say(), Use("run_python", {}, "ok")),
            by_model(one, draw.say(), Use("edit_file", {}, "ok")),
        ]
    )


def something_came_between(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    says = Note("model_call", "I will call `run_python` on it.")
    error = Note("error", "The sandbox is gone.", {"type": "SandboxError"})
    return Script(
        [
            by_model(other, draw.say(), Use("run_python", {}, "ok")),
            by_model(role, draw.say(), says, error, Use("edit_file", {}, "ok")),
        ]
    )


def speaks_of_using_something(draw: Any) -> Script:
    """`search` is a word as well as a tool."""
    role, other = draw.role(), draw.role()
    says = Note("model_call", "I will use search terms that are short. Let me take notes.")
    return Script(
        [
            by_model(other, draw.say(), Use("search", {}, "ok"), Use("notes", {}, "ok")),
            by_model(role, draw.say(), says, Use("edit_file", {}, "ok")),
        ]
    )


POSITIVE = [
    claims_a_run,
    claims_it_in_a_thought,
    has_only_read,
    runs_it_afterwards,
    announces_one_tool_and_calls_another,
    announces_one_action_and_takes_another,
]
NEGATIVE = [
    there_was_a_run,
    an_action_may_have_run_them,
    says_what_would_be,
    lists_criteria,
    quotes_the_claim,
    a_report_was_pasted,
    a_program_said_so,
    keeps_its_word,
    names_both,
    does_nothing_yet,
    something_came_between,
    speaks_of_using_something,
]


async def test_false_claims_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(ReasonAction(), MODE, positive=POSITIVE, negative=NEGATIVE, seeds=12))


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        (["message", "tool_result"], "present"),
        (["message"], "unknown"),
        (["message", "verify"], "present"),
    ],
)
def test_a_log_must_be_one_that_would_show_a_run(records: list[str], verdict: str) -> None:
    said = Event("message", "tester", "All 3 tests pass.", seq=0)
    about = {"records": records, "roles": ["coder", "tester"]}
    (finding,) = ReasonAction().judge(Trajectory("t", about, [said]))
    assert finding.verdict == verdict


async def test_an_announcement_is_open_until_its_turn_is_over() -> None:
    said = Note("thought", "I will call `run_tests`.")
    turn = by_model("ada", "Done.", said, Use("edit_file", {}, "ok"), Use("run_tests", {}, "ok"))
    trajectory = await Script([turn]).play()
    at = next(e.seq for e in trajectory.events if e.data.get("tool") == "run_tests")
    for length in range(at, len(trajectory.events) + 1):
        part = Trajectory("t", trajectory.about, trajectory.events[:length])
        (finding,) = ReasonAction().judge(part)
        assert finding.verdict == "unknown"
