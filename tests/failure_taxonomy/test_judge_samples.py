"""Several samples, groups of modes and worked examples: how a judge can be asked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import MODES, Judge
from rolecraft.failure_taxonomy.evidence import verified
from rolecraft.failure_taxonomy.judging import VARIANTS
from rolecraft.failure_taxonomy.judging.answers import read_answer
from rolecraft.failure_taxonomy.judging.examples import EXAMPLES, FIRST_NUMBER, quotes_example
from rolecraft.failure_taxonomy.judging.merging import Said, of_samples, of_windows, with_search
from rolecraft.models import Completion, FunctionModel, ModelCall, Sampling
from rolecraft.trajectories import Event, FailureFinding, Trajectory

Make = Callable[..., Trajectory]
Says = Callable[..., FunctionModel]

PRESENT: dict[str, Any] = {
    "mode": "derailment",
    "verdict": "present",
    "role": "ben",
    "events": [1],
    "quote": "logo in blue",
    "confidence": 0.6,
}
ELSEWHERE = {**PRESENT, "role": "ada", "events": [0], "quote": "Which file"}
ABSENT = {"mode": "derailment", "verdict": "absent", "confidence": 0.99}
UNKNOWN = {"mode": "derailment", "verdict": "unknown", "reason": "too short to tell"}


@pytest.fixture
def talk(trace: Make) -> Trajectory:
    return trace(
        Event("message", role="ada", content="Which file is it in?"),
        Event("message", role="ben", content="First let us draw the logo in blue."),
    )


def taking_turns(*answers: Sequence[dict[str, Any]] | str) -> FunctionModel:
    """A model whose n-th call gets the n-th answer: rows, or a text that is no answer."""
    given = iter(answers)

    def reply(call: ModelCall) -> str:
        rows = next(given)
        if isinstance(rows, str):
            return rows
        found = re.search(r"The fence marker is (\w+)\.", call.messages[-1].content)
        assert found is not None
        return json.dumps({"marker": found[1], "diagnosis": "d", "findings": list(rows)})

    return FunctionModel(reply)


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "agree", "verdict", "confidence"),
    [
        ([[PRESENT]] * 3, 0.6, "present", 1.0),
        ([[PRESENT], [PRESENT], [ABSENT]], 0.6, "present", 2 / 3),
        ([[ABSENT], [ABSENT], [PRESENT]], 0.6, "absent", 2 / 3),
        ([[PRESENT], [PRESENT], [ABSENT]], 0.9, "unknown", None),
        ([[PRESENT], [ABSENT], [UNKNOWN]], 0.6, "unknown", None),
        ([[ABSENT], [ABSENT], "I cannot help."], 0.6, "absent", 2 / 3),
        ([[ABSENT], "I cannot help.", "I cannot help."], 0.6, "unknown", None),
        ([[PRESENT], [ABSENT]], 0.6, "unknown", None),
        ([[UNKNOWN]] * 3, 0.6, "unknown", None),
    ],
)
async def test_samples_vote_and_a_verdict_without_agreement_is_unknown(
    talk: Trajectory,
    answers: list[Any],
    agree: float,
    verdict: str,
    confidence: float | None,
) -> None:
    """What is no answer, or cannot tell, agrees with nobody."""
    model = taking_turns(*answers)
    judge = Judge(model, samples=len(answers), agree=agree)
    opinion = await judge.judge(talk, modes=["derailment"])
    (finding,) = opinion.findings
    assert finding.verdict == verdict
    assert finding.confidence == confidence
    assert len(model.calls) == opinion.usage.calls == len(answers)
    assert sum(opinion.votes["derailment"].values()) == len(answers)
    assert verdict != "unknown" or finding.reason


async def test_a_disagreement_is_kept(talk: Trajectory) -> None:
    judge = Judge(taking_turns([PRESENT], [ABSENT], [UNKNOWN]), samples=3)
    opinion = await judge.judge(talk, modes=["derailment"])
    assert opinion.votes == {"derailment": {"present": 1, "absent": 1, "unknown": 1}}
    assert opinion.findings[0].reason == (
        "of 3 samples 1 present, 1 absent, 1 unknown; 60% have to agree"
    )
    assert opinion.to_dict()["votes"]["derailment"]["absent"] == 1
    assert "3 samples, of which 60% have to agree" in opinion.summary()


async def test_one_sample_keeps_the_confidence_that_the_model_claims(talk: Trajectory) -> None:
    opinion = await Judge(taking_turns([PRESENT])).judge(talk, modes=["derailment"])
    assert opinion.findings[0].confidence == 0.6


async def test_of_several_failures_those_stay_that_enough_samples_name(talk: Trajectory) -> None:
    answers = [[PRESENT, ELSEWHERE], [PRESENT], [PRESENT]]
    opinion = await Judge(taking_turns(*answers), samples=3).judge(talk, modes=["derailment"])
    assert [(row.role, row.events) for row in opinion.findings] == [("ben", (1,))]
    answers = [[ELSEWHERE], [PRESENT], [PRESENT], [PRESENT, ELSEWHERE], [ELSEWHERE]]
    opinion = await Judge(taking_turns(*answers), samples=5).judge(talk, modes=["derailment"])
    assert [(row.role, row.events) for row in opinion.findings] == [("ada", (0,)), ("ben", (1,))]
    assert {row.confidence for row in opinion.findings} == {0.6}


async def test_the_confidence_of_a_finding_is_the_share_that_names_its_place(
    trace: Make,
) -> None:
    """All three found the mode, each somewhere else: nobody agrees on any of the places."""
    said = ["the logo in blue", "the logo in red", "the logo in green"]
    talk = trace(*(Event("message", role="ben", content=text) for text in said))
    answers = [[{**PRESENT, "events": [at], "quote": text}] for at, text in enumerate(said)]
    opinion = await Judge(taking_turns(*answers), samples=3).judge(talk, modes=["derailment"])
    assert opinion.votes["derailment"]["present"] == 3
    assert [row.events for row in opinion.findings] == [(0,), (1,), (2,)]
    assert [row.confidence for row in opinion.findings] == [pytest.approx(1 / 3)] * 3


async def test_findings_with_an_event_in_common_are_of_one_place(trace: Make) -> None:
    said = ["the logo in blue", "the logo in red", "the logo in green"]
    talk = trace(*(Event("message", role="ben", content=text) for text in said))
    events = [[0], [0, 1], [1]]
    answers = [[{**PRESENT, "events": at, "quote": said[at[0]]}] for at in events]
    opinion = await Judge(taking_turns(*answers), samples=3).judge(talk, modes=["derailment"])
    assert [(row.events, row.confidence) for row in opinion.findings] == [((0, 1), 1.0)]


async def test_two_quotes_of_one_event_are_two_findings(talk: Trajectory) -> None:
    """Those of one answer, that is; two samples may put the same thing in different words."""
    twice = [PRESENT, {**PRESENT, "quote": "First let us"}]
    opinion = await Judge(taking_turns(twice)).judge(talk, modes=["derailment"])
    assert {row.quote for row in opinion.findings} == {"logo in blue", "First let us"}
    same = [PRESENT, {**PRESENT, "quote": "draw the logo in blue"}]
    opinion = await Judge(taking_turns(same)).judge(talk, modes=["derailment"])
    assert len(opinion.findings) == 1
    answers = [[PRESENT], [twice[1]], [PRESENT]]
    opinion = await Judge(taking_turns(*answers), samples=3).judge(talk, modes=["derailment"])
    assert [(row.quote, row.confidence) for row in opinion.findings] == [("logo in blue", 1.0)]


async def test_made_up_evidence_is_no_vote(talk: Trajectory) -> None:
    made_up = {**PRESENT, "quote": "logo in red"}
    judge = Judge(taking_turns([made_up], [made_up], [PRESENT]), samples=3)
    opinion = await judge.judge(talk, modes=["derailment"])
    assert opinion.findings[0].verdict == "unknown"
    assert opinion.votes["derailment"] == {"present": 1, "absent": 0, "unknown": 2}
    assert len(opinion.dropped) == 2


async def test_samples_are_asked_the_same_with_seeds_of_their_own(
    talk: Trajectory,
) -> None:
    """So that a cache keeps them apart, and a provider's cache does not."""
    seeds = []
    prompts = []

    class Seeing(FunctionModel):
        async def _complete(self, session: Any, tools: Any, sampling: Any) -> Completion:
            seeds.append(session.seed)
            prompts.append([message.content for message in session.messages])
            return await super()._complete(session, tools, sampling)

    model = Seeing(lambda call: "no")
    await Judge(model, samples=4, seed=7).judge(talk)
    assert len(set(seeds)) == 4
    assert seeds[0] == 7
    assert all(prompt == prompts[0] for prompt in prompts)


async def test_samples_are_asked_at_the_same_time(talk: Trajectory) -> None:
    waiting = 0
    all_here = asyncio.Event()

    async def reply(call: ModelCall) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 3:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 60)
        return "no"

    await Judge(FunctionModel(reply), samples=3).judge(talk)
    assert waiting == 3


async def test_the_error_of_one_sample_stops_the_others(talk: Trajectory) -> None:
    asked, ended = [], []
    all_here = asyncio.Event()

    async def reply(call: ModelCall) -> str:
        asked.append(call)
        first = len(asked) == 1
        if len(asked) == 3:
            all_here.set()
        if first:
            await asyncio.wait_for(all_here.wait(), 60)
            raise KeyError("a bug in a model")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("stopped")
        return "no"

    with pytest.raises(KeyError):
        await Judge(FunctionModel(reply), samples=3).judge(talk)
    assert ended.count("stopped") == 2


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 0},
        {"samples": 3, "agree": 0.5},
        {"samples": 3, "agree": 1.5},
        {"samples": 3, "sampling": Sampling(temperature=0)},
        {"shots": -1},
        {"shots": 99},
        {"grouping": "stage"},
    ],
)
def test_a_judge_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Judge(FunctionModel(lambda call: ""), **options)


# --- grouping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grouping", "calls"), [("all", 1), ("category", 3), ("mode", 14)])
async def test_modes_are_asked_together_by_category_or_alone(
    talk: Trajectory, says: Says, grouping: Any, calls: int
) -> None:
    model = says(PRESENT)
    if grouping != "all":
        model = says()
    opinion = await Judge(model, grouping=grouping).judge(talk)
    assert len(model.calls) == calls
    assert [row.mode for row in opinion.findings] == list(MODES)
    described = [call.messages[0].content.count("Easily confused with:") for call in model.calls]
    assert sum(described) == 14
    assert opinion.coverage == 1.0
    assert opinion.to_dict()["grouping"] == grouping


async def test_a_group_without_an_answer_costs_its_own_modes_and_its_share_of_coverage(
    talk: Trajectory,
) -> None:
    def reply(call: ModelCall) -> str:
        if "verification.weak" in call.messages[-1].content:
            return "I cannot help with that."
        found = re.search(r"The fence marker is (\w+)\.", call.messages[-1].content)
        assert found is not None
        asked = call.messages[-1].content.rsplit("described above: ", 1)[1].rstrip(".").split(", ")
        rows = [{"mode": mode, "verdict": "absent"} for mode in asked]
        return json.dumps({"marker": found[1], "diagnosis": "d", "findings": rows})

    opinion = await Judge(FunctionModel(reply), grouping="category").judge(talk)
    unknown = [row.mode for row in opinion.findings if row.verdict == "unknown"]
    assert unknown == ["premature_end", "verification.absent", "verification.weak"]
    assert opinion.coverage == pytest.approx(11 / 14)


# --- worked examples ------------------------------------------------------------------------------


def test_every_worked_example_passes_the_checks_that_a_models_answer_must_pass() -> None:
    for number, example in enumerate(EXAMPLES, start=1):
        marker = f"example-{number}"
        text = json.dumps(example.answer(list(MODES), marker))
        answer = read_answer(
            Completion(text=text), marker=marker, asked=list(MODES), source="judge:x"
        )
        assert not answer.strays
        events = {event.seq: event for event in example.events}
        for mode, said in answer.rows.items():
            assert not isinstance(said, str), (number, mode, said)
            for row in said:
                assert isinstance(verified(row, events), FailureFinding), (number, mode)


def test_the_worked_examples_show_every_verdict_on_what_is_easily_confused() -> None:
    """Contrast: a mode that is explained as absent is present in another example."""
    shown = {mode for e in EXAMPLES for mode, row in e.findings.items() if row[0] == "present"}
    explained = {mode for e in EXAMPLES for mode, row in e.findings.items() if row[0] == "absent"}
    assert len(shown) >= 11
    assert len(explained & shown) >= 5
    assert not any(row[0] == "present" for row in EXAMPLES[-1].findings.values())
    seqs = [event.seq for example in EXAMPLES for event in example.events]
    assert len(set(seqs)) == len(seqs)
    assert min(seqs) == FIRST_NUMBER


async def test_worked_examples_stand_before_the_record_and_only_where_they_are_wanted(
    talk: Trajectory, says: Says
) -> None:
    model = says()
    for shots in VARIANTS.values():
        await Judge(model, shots=shots).judge(talk, modes=["derailment", "reset"])
    zero, few = (call.messages for call in model.calls)
    assert "Worked examples" not in zero[0].content
    assert few[0].content.count("<<< example-") == len(EXAMPLES)
    assert few[0].content.index("example-5 end >>>") < few[0].content.index("# The fence")
    assert '"mode": "reset"' in few[0].content
    assert '"mode": "task_spec"' not in few[0].content  # nobody asked about it
    assert zero[1].content.split("end >>>")[1] == few[1].content.split("end >>>")[1]


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
async def test_a_finding_that_cites_a_worked_example_is_dropped(
    talk: Trajectory, says: Says, example: int
) -> None:
    """The example's own numbers and roles, and its words under numbers of the trace."""
    event = EXAMPLES[example].events[0]
    row = {**PRESENT, "role": event.role, "events": [event.seq], "quote": event.content}
    for change in ({}, {"events": [1], "role": "ben"}, {"events": [1, event.seq]}):
        opinion = await Judge(says({**row, **change}), shots=5).judge(talk, modes=["derailment"])
        assert opinion.findings[0].verdict == "unknown"
        assert len(opinion.dropped) == 1


async def test_words_of_an_example_are_no_evidence_even_if_the_trace_repeats_them(
    trace: Make, says: Says
) -> None:
    words = "I gave the second half more swing myself."
    talk = trace(Event("message", role="ben", content=f"Hear this: {words}"))
    row = {**PRESENT, "events": [0], "quote": words}
    few = await Judge(says(row), shots=5).judge(talk, modes=["derailment"])
    assert few.findings[0].verdict == "unknown"
    assert few.dropped == ["the finding `derailment` quotes a worked example"]
    zero = await Judge(says(row)).judge(talk, modes=["derailment"])
    assert zero.findings[0].verdict == "present"
    assert not quotes_example("myself.", 5)  # a word that anybody may say


# --- one verdict out of many ----------------------------------------------------------------------


def said(mode: str, verdict: str, at: int = 0) -> Said:
    if verdict == "none":
        return "the answer is empty"
    events = (at,) if verdict == "present" else ()
    return [FailureFinding(mode, verdict, events=events, role="ada", reason="r")]  # type: ignore[arg-type]


VERDICTS = st.lists(st.sampled_from(["present", "absent", "unknown", "none"]), min_size=1)
ANY_MODE = st.sampled_from(list(MODES))


@given(ANY_MODE, VERDICTS)
def test_windows_make_a_mode_absent_only_if_all_of_them_say_so(
    mode: str, verdicts: list[str]
) -> None:
    merged = of_windows(mode, [said(mode, verdict, at) for at, verdict in enumerate(verdicts)])
    if not isinstance(merged, str) and merged[0].verdict == "absent":
        assert set(verdicts) == {"absent"}
    if set(verdicts) == {"absent"}:
        assert not isinstance(merged, str)


@given(ANY_MODE, VERDICTS, st.sampled_from([0.51, 0.6, 0.75, 1.0]))
def test_samples_make_a_verdict_only_if_enough_of_them_have_it(
    mode: str, verdicts: list[str], agree: float
) -> None:
    rows, votes = of_samples(
        mode, [said(mode, verdict) for verdict in verdicts], agree=agree, source="judge"
    )
    verdict = rows[0].verdict
    assert sum(votes.values()) == len(verdicts)
    if verdict != "unknown":
        assert verdicts.count(verdict) / len(verdicts) > agree - 1e-9
    for other in ("present", "absent"):
        if verdicts.count(other) / len(verdicts) > agree + 1e-9:
            assert verdict == other


@given(
    ANY_MODE,
    st.sampled_from(["present", "absent", "unknown", "none"]),
    st.sampled_from(["present", "absent", "unknown", "none"]),
    st.booleans(),
)
def test_a_search_settles_confirms_or_contradicts_but_never_silently_clears(
    mode: str, before: str, after: str, complete: bool
) -> None:
    merged = of_windows(mode, [said(mode, before)])
    result = with_search(mode, merged, said(mode, after), complete=complete)
    verdict = "unknown" if isinstance(result, str) else result[0].verdict
    if before == "present":
        assert verdict == ("unknown" if after == "absent" else "present")
    if verdict == "absent":
        assert after == "absent" or before == "absent"
        assert complete or before == "absent"
