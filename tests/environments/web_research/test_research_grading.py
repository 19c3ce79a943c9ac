"""What each check measures, on answers that are partly good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.web_research import (
    Corpus,
    Document,
    Question,
    Researcher,
    ResearchGrader,
    Web,
    WebResearchEnvironment,
)
from rolecraft.environments.web_research.examples.stand_ins import fenced_pieces, judgement
from rolecraft.environments.web_research.support import Pages
from rolecraft.environments.web_research.tools import MOST_STEPS
from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall, ScriptedModel
from rolecraft.scenarios.web_research import REWARD
from rolecraft.trajectories import Trajectory

TOWER, MAST = "https://www.tower.example/facts", "https://mast.example/facts"
CORPUS = Corpus(
    [
        Document(TOWER, "The tower", "It was not built of wood. The tower is 42 metres tall."),
        Document(MAST, "The mast", "The mast is 29 metres tall. Nobody lives there."),
    ]
)
QUESTION = Question("How much taller is the tower than the mast?", "13 metres", links=[TOWER, MAST])
FACTS = [("The tower is 42 metres tall.", TOWER), ("The mast is 29 metres tall.", MAST)]
CHAIN = [*FACTS, ("So it is 13 metres taller.", "")]


async def play(
    steps: list[tuple[str, str]],
    *,
    answer: str = "13 metres",
    read: tuple[str, ...] = (TOWER, MAST),
    judge: FunctionModel | None = None,
    corpus: Corpus = CORPUS,
    question: Question = QUESTION,
) -> Trajectory:
    submitted = [{"claim": claim, "source": source} for claim, source in steps]
    made: list[tuple[str, dict[str, Any]]] = [
        *(("read_page", {"address": address}) for address in read),
        ("submit_answer", {"answer": answer, "steps": submitted}),
    ]
    script = [
        Completion(text="", tool_calls=[ToolCall(tool, arguments, id=str(number))])
        for number, (tool, arguments) in enumerate(made)
    ]
    role = Researcher(model=ScriptedModel(script))
    web = Web(search=corpus, pages=corpus)
    return await WebResearchEnvironment(question.task(), [role], web=web, judge=judge).episode()


def measured(trajectory: Trajectory) -> dict[str, float]:
    return {signal.name: signal.value for signal in trajectory.signals}


@pytest.mark.parametrize(
    ("steps", "read", "supported", "quality", "chain"),
    [
        (CHAIN, (TOWER, MAST), 1.0, 1.0, 1.0),
        # One page of two, so one claim and one domain of two.
        (CHAIN, (TOWER,), 0.5, 0.75 * 0.5 + 0.25 * 0.5 * 0.5, 3 / 4),
        (CHAIN, (), 0.0, 0.0, 0.0),
        # All from one page: it is carried, and from one source of two; reading more is none.
        ([FACTS[0], CHAIN[2]], (TOWER, MAST), 1.0, 0.75 + 0.25 * 0.5, 1.0),
        ([FACTS[0], CHAIN[2]], (TOWER,), 1.0, 0.75 + 0.25 * 0.5, 1.0),
        # The page was read, and does not say so.
        ([("The tower is 24 metres tall.", TOWER), CHAIN[2]], (TOWER,), 0.0, 0.0, 1.0),
        ([("The tower was built of wood.", TOWER), CHAIN[2]], (TOWER,), 0.0, 0.0, 1.0),
        ([("The tower is 42 metres tall.", MAST), CHAIN[2]], (TOWER, MAST), 0.0, 0.0, 1.0),
        # The last step does not state the answer; a conclusion before any fact.
        (FACTS, (TOWER, MAST), 1.0, 1.0, 2 / 3),
        ([CHAIN[2], *FACTS], (TOWER, MAST), 1.0, 1.0, 2 / 4),
        ([CHAIN[2]], (TOWER, MAST), 0.0, 0.0, 0.0),
        ([], (TOWER, MAST), 0.0, 0.0, 0.0),
    ],
)
async def test_what_is_measured_without_a_judge(
    steps: list[tuple[str, str]],
    read: tuple[str, ...],
    supported: float,
    quality: float,
    chain: float,
) -> None:
    signals = measured(await play(steps, read=read))
    assert signals["information.supported"] == supported
    assert signals["information.quality"] == pytest.approx(quality)
    assert signals["reasoning.chain"] == pytest.approx(chain)
    assert signals["information.pages"] == signals["information.domains"] == len(read)


@pytest.mark.parametrize("links", [(), ("tower.md", "mast.txt"), (TOWER, MAST)])
async def test_a_perfect_run_over_files_without_a_url_has_all_of_each_part(
    tmp_path: Path, links: tuple[str, ...]
) -> None:
    """Files had no domain, so that nothing over them was ever worth more than 0.975."""
    (tmp_path / "tower.md").write_text("# The tower\n\nThe tower is 42 metres tall.")
    (tmp_path / "mast.txt").write_text("The mast is 29 metres tall.")
    chain = [(FACTS[0][0], "tower.md"), (FACTS[1][0], "mast.txt"), CHAIN[2]]
    trajectory = await play(
        chain,
        read=("tower.md", "mast.txt"),
        corpus=Corpus.of_folder(tmp_path),
        question=Question(QUESTION.question, "13 metres", links=links),
    )
    signals = measured(trajectory)
    assert signals["information.quality"] == signals["reasoning.chain"] == 1.0
    assert signals["information.domains"] == 2.0
    assert REWARD(trajectory).value == 1.0


async def test_a_judge_finds_what_other_words_say_and_a_chain_that_breaks() -> None:
    def judge(call: ModelCall) -> str:
        marker, pieces = fenced_pieces(call)
        said = judgement(pieces)
        if "claims" in said:
            said["claims"] = [
                {"claim": 1, "carried": True, "quote": "The tower is 42 metres tall"},
                {"claim": 2, "carried": True, "quote": "a mast of twenty-nine metres"},
            ]
        elif "links" in said:
            said["links"] = [{"step": 3, "follows": False}, {"step": 0, "follows": True}]
        return json.dumps({"marker": marker, **said})

    model = FunctionModel(judge, name="judge")
    steps = [
        ("In height it measures forty-two metres, the tower.", TOWER),
        ("The mast reaches up to twenty-nine metres.", MAST),
        ("So it is 13 metres taller.", ""),
    ]
    trajectory = await play(steps, answer="thirteen metres", judge=model)
    signals = measured(trajectory)
    assert signals["information.supported"] == 0.5  # the second quote stands nowhere
    assert signals["reasoning.chain"] == 3 / 4
    assert signals["answer.correct"] == 0.0  # the stand-in knows no words for numbers
    sources = {signal.name: signal.source for signal in trajectory.signals}
    assert sources["answer.correct"] == sources["reasoning.chain"] == "judge judge"
    assert sources["answer.given"] == sources["information.pages"] == "environment"


async def test_a_judge_is_not_asked_what_is_plain() -> None:
    """Equal answers and claims that stand there word for word cost nothing."""
    asked: list[ModelCall] = []

    def judge(call: ModelCall) -> str:
        asked.append(call)
        marker, pieces = fenced_pieces(call)
        return json.dumps({"marker": marker, **judgement(pieces)})

    await play(CHAIN, judge=FunctionModel(judge, name="judge"))
    assert len(asked) == 1  # whether it follows


async def test_words_in_another_order_are_a_matter_for_the_judge() -> None:
    """The same words can say the opposite: who is asked says so."""
    swapped = [("The 42 metres tall tower is.", TOWER), CHAIN[2]]
    alone = measured(await play(swapped))
    model = FunctionModel(
        lambda call: json.dumps(
            {"marker": fenced_pieces(call)[0], "claims": [], "reason": "", "links": []}
        ),
        name="judge",
    )
    judged = measured(await play(swapped, judge=model))
    assert alone["information.supported"] == 1.0
    assert judged["information.supported"] == 0.0


async def test_a_check_that_there_is_none_is_named() -> None:
    trajectory = await play(CHAIN)
    with pytest.raises(UsageError, match="answer, information, reasoning"):
        await ResearchGrader().check("style", QUESTION.task(), trajectory, answers="Researcher")  # type: ignore[arg-type]


WORDS = st.text(st.sampled_from("the not no 42 29 metres tall Tower . \n!?") | st.characters())


@settings(deadline=None)
@given(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=3))
def test_no_claim_and_no_page_make_it_raise_and_passages_are_of_the_page(
    claim: str, pages: list[tuple[str, str]]
) -> None:
    cut = Pages((str(number), title, text) for number, (title, text) in enumerate(pages))
    for passage in cut.best(claim):
        text = pages[int(passage.url)][1]
        assert set(passage.text.split()) <= set(text.split())
        assert 0.0 < passage.share <= 1.0


def test_the_number_of_steps_bounds_what_a_judge_is_asked() -> None:
    assert MOST_STEPS <= 12
