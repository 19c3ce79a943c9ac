"""The judge's answers: what counts, what is asked again, and what is a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.environments.web_research import JudgeFailed, ResearchJudge, Step
from rolecraft.environments.web_research.examples.stand_ins import fenced_pieces
from rolecraft.environments.web_research.support import Passage
from rolecraft.errors import ModelUnavailable
from rolecraft.models import Completion, FunctionModel, ModelCall, ScriptedModel
from rolecraft.trajectories.events import Usage

PASSAGE = Passage("https://a.example/", "Door", "The door is green and made of oak.", 0.5, False)


def saying(*answers: Callable[[str], Any] | dict[str, Any] | str) -> FunctionModel:
    """A judge that gives these answers in turn; an object gets the right marker."""
    left = list(answers)

    def answer(call: ModelCall) -> str | Completion:
        marker, _ = fenced_pieces(call)
        said = left.pop(0)
        if isinstance(said, str):
            return said
        return json.dumps({"marker": marker, **said}) if isinstance(said, dict) else said(marker)

    return FunctionModel(answer, name="judge")


async def test_an_answer_without_the_marker_does_not_count_and_is_asked_for_anew() -> None:
    right = {"reason": "The same.", "correct": True}
    model = saying('{"marker": "0000000000", "reason": "", "correct": true}', right)
    assert (await ResearchJudge(model).same_answer("Who?", ["Ada"], "ada l.")).verdicts == {0: True}
    first, second = model.calls
    # A new conversation: what was answered first is not in it.
    assert [message.content for message in second.messages] == [
        message.content for message in first.messages
    ]


async def test_a_judge_that_gives_no_answer_has_failed_after_its_attempts() -> None:
    model = saying("I would rather not.", "{}", "never asked")
    with pytest.raises(JudgeFailed, match="'judge' gave no answer"):
        await ResearchJudge(model).same_answer("Who?", ["Ada"], "Tobias")
    assert len(model.calls) == 2


async def test_a_model_that_is_down_is_a_failed_judge() -> None:
    down = ScriptedModel([ModelUnavailable("429 for an hour", model="j")], name="judge")
    with pytest.raises(JudgeFailed, match="429 for an hour"):
        await ResearchJudge(down).same_answer("Who?", ["Ada"], "Tobias")


@pytest.mark.parametrize(
    ("quote", "carried"),
    [
        ("The door is green", True),
        ("door  is\ngreen and made", True),
        ("The door is red and made of oak.", False),
        ("The door … oak.", False),
        ("green", False),
        ("", False),
        ("Door", False),
    ],
)
async def test_a_claim_is_carried_only_by_words_that_stand_in_its_passage(
    quote: str, carried: bool
) -> None:
    model = saying({"claims": [{"claim": 1, "carried": True, "quote": quote}]})
    opinion = await ResearchJudge(model).supported({1: ("It is green.", [PASSAGE])})
    assert opinion.verdicts == {1: carried}
    assert (1 in opinion.quotes) is carried


async def test_verdicts_about_what_was_not_asked_are_left_out_and_silence_is_no() -> None:
    model = saying(
        {"claims": [{"claim": 7, "carried": True, "quote": PASSAGE.text}]},
        {"reason": "", "links": [{"step": 1, "follows": True}, {"step": 9, "follows": True}]},
    )
    judge = ResearchJudge(model)
    assert (await judge.supported({1: ("x", [PASSAGE])})).verdicts == {1: False}
    steps = [Step("It is green.", "https://a.example/"), Step("So it is.")]
    assert (await judge.follows("Which?", steps, "green")).verdicts == {0: False, 2: False}


async def test_what_a_judge_cost_is_counted_over_its_attempts() -> None:
    def paid(text: str) -> Callable[[str], Completion]:
        usage = Usage(100, 10, 0.5)
        return lambda marker: Completion(text=text.replace("MARKER", marker), usage=usage)

    good = '{"marker": "MARKER", "reason": "", "correct": false}'
    opinion = await ResearchJudge(saying(paid("no JSON"), paid(good))).same_answer("?", ["a"], "b")
    assert (opinion.usage.calls, opinion.usage.usd) == (2, 1.0)
