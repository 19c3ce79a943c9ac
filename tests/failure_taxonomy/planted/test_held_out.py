"""Families that were written after the rules, in words that no rule had been made for.

They were counted once before any rule was changed for them; docs/annotation-quality.md has both
counts. Recall is not held to a bound here, because rules that read prose know some wordings and not
others; false positives are held to the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy.detectors import (
    Detector,
    HistoryLoss,
    IgnoredInput,
    ReasonAction,
    RoleSpec,
    TaskSpec,
)
from rolecraft.failure_taxonomy.planting import Make, Note, Script, Turn, Use

Family = Callable[[Any], Script]


def model(role: str, says: str) -> Turn:
    return Turn(role, does=[Note("model_call", says)], says=says)


# --- reason_action --------------------------------------------------------------------------------


def reports_results(draw: Any) -> Script:
    says = draw.one_of(
        "Test results: 14 passed, 0 failed.",
        "I went ahead and ran pytest on the module; everything is green.",
        "Execution finished without errors, and the output matches.",
        "I verified the function by running it on three inputs.",
        "The test suite passes.",
        "After running the tests I can confirm that they pass.",
        "Ran the tests: all good.",
        "All unit tests pass successfully.",
        "I've run the code and the output is 42.",
        "We executed all tests and they passed.",
    )
    return Script([model("Coder", draw.say()), model("Tester", f"{draw.say()} {says}")])


def talks_about_tests(draw: Any) -> Script:
    says = draw.one_of(
        "The tests cover the empty list.",
        "I wrote five tests; somebody has to run them.",
        "Tests that pass today may fail tomorrow.",
        "A run of the tests is still to come.",
        "My code passes the list to the tests.",
        "Running the tests takes a minute.",
        "The next step is to see all tests pass.",
        "I propose that we run the code on the server.",
    )
    return Script([model("Coder", draw.say()), model("Tester", f"{draw.say()} {says}")])


# --- role_spec ------------------------------------------------------------------------------------


def plays_both_parts(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    says = draw.one_of(
        f"{two}: Thanks! I will take it from here.",
        f"**{two}**\nSure, here is my review: it is correct.",
        f"(as {two}) I have looked at it and approve.",
        f"{two} (reviewing): I see no problem.",
        f"{two}: Looks correct to me. Approved.",
        f"{two} -> {one}: I am done with my part.",
    )
    return Script([Turn(one, says=f"{draw.say()}\n{says}"), Turn(two, says=draw.say())])


def mentions_a_colleague(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    says = draw.one_of(
        f"{two}: over to you.",
        f"cc {two}: I have the numbers.",
        f"{two}: the parser, {one}: the report",
        f"Thank you, {two}. I am glad.",
        f"To {two}: I am done, it is your turn.",
        f"Roles\n- {two}: tests\n- {one}: code",
    )
    return Script([Turn(one, says=f"{draw.say()}\n{says}"), Turn(two, says=draw.say())])


# --- task_spec ------------------------------------------------------------------------------------


def _answer(draw: Any, task: str, answer: str) -> Script:
    role = draw.role()
    turns = [Turn(role, says=draw.say()), Turn(role, says=answer)]
    return Script(turns, goal={"answer": role}, about={"task": task}, stop="finished")


def breaks_a_plain_demand(draw: Any) -> Script:
    long = " ".join(["word"] * 60)
    task, answer = draw.one_of(
        ("Summarise the text in at most 50 words.", long),
        ("Keep your answer under 50 words.", long),
        ("Your final answer should be a single integer.", "It is about 12 or 13."),
        ("Output JSON only.", "Sure! Here is the JSON: {}"),
        ("Answer with one word.", "It is blue."),
        ("Please reply with no more than 50 words.", long),
        ("Respond only with valid JSON.", "The result is as follows."),
        ("Give only the number as your answer.", "The answer is twelve."),
    )
    return _answer(draw, task, answer)


def demands_nothing_of_the_kind(draw: Any) -> Script:
    long = " ".join(["word"] * 60)
    task = draw.one_of(
        "Count the words. There may be at most 50 words in a line.",
        "The answer in the book has no more than 50 words; explain it.",
        "Write a function that answers in JSON only.",
        "Say which number is larger, and why.",
        "Answer in your own words.",
        "Users reply with one word; analyse their replies.",
        "Answer the question of each child in at most 50 words.",
        "Explain why the answer must be a number.",
    )
    return _answer(draw, task, long)


# --- history_loss and ignored_input ---------------------------------------------------------------


def forgets_and_rewrites(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    says = draw.one_of(
        "I have written the file.", "Here is the draft you asked for.", "The module is ready now."
    )
    return Script(
        [
            *[Turn(role, does=[Make(name, text)], says=draw.say()) for text in (old, draw.say())],
            Turn(other, says=draw.say()),
            Turn(role, does=[Note("truncate"), Make(name, old)], says=says),
            Turn(other, says=draw.say()),
        ]
    )


def returns_with_a_reason(draw: Any) -> Script:
    role, other = draw.role(), draw.role()
    name, old = draw.file(), draw.say()
    says = draw.one_of(
        "The second form broke the build, so the first version is in place again.",
        "I have reverted my change.",
        "Back to the original, as we agreed.",
    )
    return Script(
        [
            *[Turn(role, does=[Make(name, text)], says=draw.say()) for text in (old, draw.say())],
            Turn(role, does=[Note("truncate"), Make(name, old)], says=says),
            Turn(other, says=draw.say()),
        ]
    )


def shrugs_a_review_off(draw: Any) -> Script:
    role = draw.role()
    name, text = draw.file(), draw.say()
    comment = draw.one_of(
        f"There is a bug in {name}: an empty list makes it crash.",
        f"Could you rename the function in {name}? Its name is misleading.",
        f"{name} fails for n = 0. Please handle that case.",
        f"I found two problems in {name} that need to be fixed.",
        f"{name} should use the new interface.",
    )
    says = draw.one_of("Updated version attached.", "Here you go!", "v2", "Resubmitting.")
    return Script(
        [
            Turn(role, does=[Make(name, text)], says=draw.say()),
            Turn("Reviewer", says=comment),
            Turn(role, does=[Make(name, text)], says=says),
            Turn("Manager", says="Thanks."),
        ]
    )


def takes_a_review_up(draw: Any) -> Script:
    role = draw.role()
    name, text = draw.file(), draw.say()
    comment = draw.one_of(
        f"{name} fails for n = 0. Please handle that case.",
        f"{name} should use the new interface.",
    )
    says = draw.one_of(
        "That case is excluded by the interface, see the docstring.",
        "The interface rules the case n = 0 out.",
    )
    return Script(
        [
            Turn(role, does=[Make(name, text)], says=draw.say()),
            Turn("Reviewer", says=comment),
            Turn(role, does=[Make(name, text), Use("lint", {}, "ok")], says=says),
            Turn("Manager", says="Thanks."),
        ]
    )


HELD_OUT: list[tuple[Detector, str, Family, Family]] = [
    (ReasonAction(), "reason_action", reports_results, talks_about_tests),
    (RoleSpec(), "role_spec", plays_both_parts, mentions_a_colleague),
    (TaskSpec(), "task_spec", breaks_a_plain_demand, demands_nothing_of_the_kind),
    (HistoryLoss(), "history_loss", forgets_and_rewrites, returns_with_a_reason),
    (IgnoredInput(), "ignored_input", shrugs_a_review_off, takes_a_review_up),
]
"""A detector, its mode, a family with the failure and one without."""


@pytest.mark.parametrize(("detector", "mode", "_", "clean"), HELD_OUT, ids=[h[1] for h in HELD_OUT])
async def test_nothing_is_invented_in_words_that_no_rule_was_made_for(
    detector: Detector, mode: str, _: Family, clean: Family, draw_for: Callable[[str], Any]
) -> None:
    invented = []
    for seed in range(40):
        said = detector.judge(await clean(draw_for(f"{clean.__name__}/{seed}")).play())
        invented += [f.reason for f in said if f.mode == mode and f.verdict == "present"]
    assert not invented
