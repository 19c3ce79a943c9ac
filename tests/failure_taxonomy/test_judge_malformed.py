"""Answers that are none, through the whole judge: whatever is wrong with one, nothing is "clean".

The misreadings of the published annotator stand in `test_answers.py`; these are others, seen in the
wild or made up to be worse. Every one leaves all modes unknown, with a reason. Then the odd ones
that are well formed and must count, and a property: no accident turns a `present` or an `unknown`
into an `absent` without a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import BadModelResponse, ModelUnavailable
from rolecraft.failure_taxonomy import MAST_V3, MODES, Judge
from rolecraft.failure_taxonomy.judging.answers import read_answer
from rolecraft.failure_taxonomy.judging.examples import EXAMPLES, worked_examples
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.trajectories import Event, Trajectory

Make = Callable[..., Trajectory]

M = "MARKERMARK"
"""Stands for the marker; the test puts in the real one."""
ROWS = [{"mode": mode, "verdict": "absent", "confidence": 0.9} for mode in MODES]
CLEAN: dict[str, Any] = {"marker": M, "diagnosis": "Nothing went wrong.", "findings": ROWS}
GOOD = json.dumps(CLEAN)
SAID = "First let us draw the logo in blue."
PRESENT = {
    "mode": "derailment",
    "verdict": "present",
    "role": "ben",
    "events": [1],
    "quote": "draw the logo",
    "confidence": 0.8,
    "reason": "Nobody asked for a logo.",
}


def rows(**change: Any) -> str:
    return json.dumps({**CLEAN, "findings": [{**row, **change} for row in ROWS]})


def without(key: str) -> str:
    return json.dumps({name: value for name, value in CLEAN.items() if name != key})


CODES = [MAST_V3.code(mode) for mode in MODES]
NESTED: Any = "absent"
for _ in range(400):
    NESTED = {"findings": NESTED}

MALFORMED: dict[str, Any] = {
    # refusals
    "a refusal in German": "Es tut mir leid, dabei kann ich nicht helfen. Kein Fehler.",
    "a refusal in French": "Je suis désolé, mais je ne peux pas analyser cette conversation.",
    "a refusal in Spanish": "Lo siento, no puedo ayudar con eso. No hay fallos.",
    "a refusal in Chinese": "抱歉，我无法分析这段对话。没有发现失败。",
    "a refusal in Japanese": "申し訳ありませんが、お手伝いできません。",
    "a refusal in Arabic": "عذرًا، لا أستطيع المساعدة في هذا الطلب.",
    "a refusal as JSON": '{"error": "I cannot assist with that request."}',
    "a refusal in the schema's words": json.dumps({"refusal": "no", "findings": None}),
    "an apology after an open brace": '{"marker": I am sorry, I cannot continue.',
    "an error page": "<html><body><h1>502 Bad Gateway</h1></body></html>",
    "a rate limit as text": "Rate limit reached for requests. Please try again in 20s.",
    "one word": "no",
    "one number": "0",
    "a boolean": "false",
    "an empty object": "{}",
    "an empty list": "[]",
    "only the marker": M,
    "only a fence": "```json\n```",
    "ellipsis": "...",
    "a null byte": "\x00",
    "a byte order mark": "\ufeff",
    "replacement characters": "\ufffd" * 500,
    "words without end": "absent " * 20_000,
    # lists of yes and no
    "no to all codes": "\n".join(f"{code} no" for code in CODES),
    "yes to all codes": "\n".join(f"{code}: yes" for code in CODES),
    "codes as JSON": json.dumps(dict.fromkeys(CODES, False)),
    "modes as JSON": json.dumps(dict.fromkeys(MODES, False)),
    "modes as JSON in findings": json.dumps({**CLEAN, "findings": dict.fromkeys(MODES, False)}),
    "names with no in them": "\n".join(f"{mode.name}: yes" for mode in MODES.values()),
    "the published form": "@@\nA. Fine.\nB. yes\nC.\n1.1 no\n3.3 no\n@@",
    "a table in Markdown": "| mode | verdict |\n|---|---|\n" + "| reset | absent |\n" * 14,
    "YAML": "marker: " + M + "\nfindings:\n" + "".join(f"  - {mode}: absent\n" for mode in MODES),
    "XML": f"<answer><marker>{M}</marker><findings/></answer>",
    "prose": "I looked for all 14 modes and found none. The run is clean.",
    # echoes
    "an echo of the definitions": "\n".join(mode.definition for mode in MODES.values()),
    "an echo of the examples": worked_examples(list(MODES), len(EXAMPLES)),
    "an example's answer": json.dumps(EXAMPLES[4].answer(list(MODES), "example-5")),
    "an echo of the trace": f"{M} event 1: message, ben\n{SAID}",
    "an echo of the form": '{"marker": "", "diagnosis": "", "findings": []}',
    "the form with its descriptions": json.dumps({**CLEAN, "findings": [{"mode": "(its id)"}]}),
    # cut off and withheld
    "cut off at the limit": Completion(text=GOOD, finish_reason="length"),
    "withheld": Completion(text=GOOD, finish_reason="content_filter"),
    "cut off before the last brace": GOOD[:-1],
    "cut off in the marker": GOOD[:14],
    "the first half is missing": GOOD[len(GOOD) // 2 :],
    "a hole in the middle": GOOD[:40] + GOOD[80:],
    # JSON, nearly
    "a comment": GOOD.replace('"findings"', '/* none */ "findings"'),
    "a comment to the line's end": GOOD.replace("[{", "[ // all clear\n{"),
    "a comma too many": GOOD[:-2] + ",]}",
    "Python's words": rows(role=None).replace("null", "None"),
    "undefined": rows(role=None).replace("null", "undefined"),
    "typographic quotes": GOOD.replace('"', "\u201d"),
    "full-width colons": GOOD.replace(":", "\uff1a"),
    "infinity": GOOD.replace("0.9", "Infinity"),
    "minus nothing": GOOD.replace("0.9", "-"),
    "a leading zero": GOOD.replace("0.9", "00.9"),
    "a newline in a string": GOOD.replace("Nothing went", "Nothing\nwent"),
    "a wrong escape": GOOD.replace("Nothing", "\\xNothing"),
    "two objects without a comma": GOOD.replace("}, {", "} {"),
    "an object inside a string": json.dumps(GOOD),
    "an object inside a string inside an object": json.dumps({"answer": GOOD}),
    "findings inside a string": json.dumps({**CLEAN, "findings": json.dumps(ROWS)}),
    "one object a line": "\n".join(map(json.dumps, ROWS)),
    "the call of a function": json.dumps({"name": "answer", "arguments": CLEAN}),
    "a verdict twice in a row": GOOD.replace(
        '"verdict": "absent"', '"verdict": "present", "verdict": "absent"'
    ),
    "a marker twice": GOOD.replace('{"marker"', '{"marker": "x", "marker"', 1),
    "a diagnosis twice": GOOD.replace('"diagnosis"', '"diagnosis": "no", "diagnosis"', 1),
    # two answers
    "two equal answers": GOOD + GOOD,
    "an answer and its opposite": GOOD + json.dumps({**CLEAN, "findings": [PRESENT]}),
    "an answer, then one with another marker": GOOD + GOOD.replace(M, "x"),
    "a list of two answers": f"[{GOOD}, {GOOD}]",
    "an answer, then a cut-off one": GOOD + GOOD[:100],
    "a draft in an unclosed fence": f"```json\n{GOOD}\n```\n```json\n{GOOD[:50]}",
    # the marker
    "no marker": without("marker"),
    "a marker in capitals": GOOD.replace(M, M + " "),
    "a marker in a list": json.dumps({**CLEAN, "marker": [M]}),
    "the fence's line as the marker": json.dumps({**CLEAN, "marker": f"<<< {M} begin"}),
    "no diagnosis": without("diagnosis"),
    "no findings": without("findings"),
    "findings under another name": GOOD.replace('"findings"', '"Findings"'),
    "findings in look-alikes": GOOD.replace('"findings"', '"f\u0456ndings"'),
    # rows
    "verdict none": rows(verdict="none"),
    "verdict no": rows(verdict="no"),
    "verdict 0": rows(verdict=0),
    "verdict with a space": rows(verdict="absent "),
    "verdict in look-alikes": rows(verdict="\u0430bsent"),
    "verdict not present": rows(verdict="not present"),
    "verdict as a list": rows(verdict=["absent"]),
    "confidence 7": rows(confidence=7),
    "confidence -1": rows(confidence=-1),
    "confidence as text": rows(confidence="0.9"),
    "confidence as a percentage": rows(confidence="90%"),
    "confidence as a list": rows(confidence=[0.9]),
    "confidence true": rows(confidence=True),
    "an endless confidence": rows().replace("0.9", "1e999"),
    "events as one number": rows(events=3),
    "events as floats": rows(events=[1.0]),
    "events as ranges": rows(events=["1-3"]),
    "events as objects": rows(events=[{"event": 1}]),
    "a role as a list": rows(role=["ada"]),
    "a quote as a number": rows(quote=42),
    "a reason as an object": rows(reason={"text": "fine"}),
    "modes in capitals": GOOD.replace("_", "-").upper(),
    "modes in look-alikes": json.dumps(
        {**CLEAN, "findings": [{**r, "mode": f"\u200b{r['mode']}"} for r in ROWS]}
    ),
    "modes with a code before": json.dumps(
        {**CLEAN, "findings": [{**r, "mode": f"1.1 {r['mode']}"} for r in ROWS]}
    ),
    "rows nested in lists": json.dumps({**CLEAN, "findings": [ROWS]}),
    "rows by mode": json.dumps({**CLEAN, "findings": {row["mode"]: row for row in ROWS}}),
    "rows are null": json.dumps({**CLEAN, "findings": [None] * 14}),
    "modes in one row": json.dumps(
        {**CLEAN, "findings": [{"mode": ", ".join(MODES), "verdict": "absent"}]}
    ),
    "all but one": json.dumps({**CLEAN, "findings": [{"mode": "all", "verdict": "absent"}]}),
    # sizes
    "nested deeply": json.dumps({**CLEAN, "findings": NESTED}),
    "nested too deeply": '{"findings":' * 50_000 + "1" + "}" * 50_000,
    "megabytes of open braces": "{" * 3_000_000,
    "megabytes of closed braces": "{}" * 1_500_000,
    "megabytes of quotes": '{"' * 1_000_000,
    "megabytes of escapes": '{"' + '\\"' * 1_500_000,
    "megabytes of words in braces": "{x} " * 700_000,
    # tools, thoughts
    "a call of a tool": Completion(
        text="", tool_calls=[ToolCall("submit", CLEAN, "1")], finish_reason="tool_calls"
    ),
    "a call of a tool beside an answer": Completion(
        text=GOOD, tool_calls=[ToolCall("search_events", {"text": "x"}, "1")]
    ),
    "only reasoning": Completion(text="", reasoning=GOOD),
    "an answer in thoughts that do not end": f"<think>\n{GOOD}",
    "an answer in thoughts, then prose": f"<think>{GOOD}</think>\nSo nothing is wrong.",
    "a draft in thoughts, then another one cut off": f"<think>{GOOD}</think>{GOOD[:200]}",
    # no answer at all
    "an unreachable model": ModelUnavailable("gone"),
    "no completion": BadModelResponse("no choices"),
}


def real(answer: Any, marker: str) -> Any:
    """The answer with the real marker in place of ours."""
    if isinstance(answer, Completion):
        answer.text = answer.text.replace(M, marker)
        return answer
    if isinstance(answer, Exception):
        raise answer
    return answer.replace(M, marker)


def judge_that_says(answer: Any) -> Judge:
    def reply(call: ModelCall) -> Any:
        found = re.search(r"The fence marker is (\w+)\.", call.messages[-1].content)
        assert found is not None
        return real(answer, found[1])

    return Judge(FunctionModel(reply))


@pytest.fixture
def talk(trace: Make) -> Trajectory:
    return trace(
        Event("message", role="user", content="Find the bug in the parser."),
        Event("message", role="ben", content=SAID),
    )


def test_there_are_enough_of_them() -> None:
    assert len(MALFORMED) >= 100


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_answer_decides_nothing(talk: Trajectory, name: str) -> None:
    opinion = await judge_that_says(MALFORMED[name]).judge(talk)
    assert {row.mode for row in opinion.findings} == set(MODES)
    assert {row.verdict for row in opinion.findings} == {"unknown"}
    assert all(row.reason for row in opinion.findings)
    assert opinion.coverage == 0.0


async def test_the_table_itself_would_be_clean_if_it_were_in_form(talk: Trajectory) -> None:
    """Otherwise every case above could be unknown for another reason."""
    opinion = await judge_that_says(GOOD).judge(talk)
    assert {row.verdict for row in opinion.findings} == {"absent"}


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\n",
        f"\ufeff{GOOD}",
        json.dumps(CLEAN, indent=4),
        json.dumps(CLEAN, ensure_ascii=True),
        json.dumps({**CLEAN, "note": {"anything": [1, 2]}}),
        json.dumps(dict(reversed(CLEAN.items()))),
        rows(role="", events=[], quote="", reason=""),
        rows(role=None, events=None, quote=None, reason=None, confidence=None),
        rows(confidence=1),
        rows(reason='He said "no" {twice}.'),
        json.dumps({**CLEAN, "diagnosis": 'Said: {"findings": []} and }{ and "'}),
        f"<think>Is {{this}} it? {GOOD[:60]}</think>{GOOD}",
        f"Reasoning: the {{parser}} works, set {{1, 2}} too.\n\n{GOOD}",
        f"{GOOD}\n\nThis is my answer.",
        Completion(text=GOOD, reasoning="They did well.", finish_reason="unknown"),
    ],
)
async def test_a_well_formed_answer_counts_however_it_is_wrapped(
    talk: Trajectory, answer: Any
) -> None:
    opinion = await judge_that_says(answer).judge(talk)
    assert {row.verdict for row in opinion.findings} == {"absent"}
    assert opinion.coverage == 1.0


async def test_a_repeated_row_of_one_verdict_counts_once(talk: Trajectory) -> None:
    twice = json.dumps({**CLEAN, "findings": [*ROWS, *ROWS]})
    opinion = await judge_that_says(twice).judge(talk)
    assert [row.mode for row in opinion.findings] == list(MODES)


async def test_a_mode_with_rows_of_two_verdicts_is_unknown_and_the_others_count(
    talk: Trajectory,
) -> None:
    opinion = await judge_that_says(json.dumps({**CLEAN, "findings": [*ROWS, PRESENT]})).judge(talk)
    verdicts = {row.mode: row.verdict for row in opinion.findings}
    assert verdicts.pop("derailment") == "unknown"
    assert set(verdicts.values()) == {"absent"}
    assert 0.9 < opinion.coverage < 1


async def test_half_of_an_answer_closed_by_hand_counts_for_its_half(talk: Trajectory) -> None:
    half = json.dumps({**CLEAN, "findings": ROWS[:7]})
    opinion = await judge_that_says(half).judge(talk)
    assert [row.verdict for row in opinion.findings] == ["absent"] * 7 + ["unknown"] * 7
    assert opinion.coverage == 0.5


@pytest.mark.parametrize("unit", ['{"', '\\"{', '{"a":', "{x} ", '{"marker"} ', '{{"', '"{\\'])
def test_no_answer_takes_long_to_read(growth: Any, unit: str) -> None:
    """Twice the text takes about twice the time, also where every brace could begin an answer."""

    def reads(count: int) -> Callable[[], object]:
        said = Completion(text=unit * count)
        return lambda: read_answer(said, marker=M, asked=list(MODES), source="judge")

    growth(reads, 20_000, 160_000, at_most=24)


# --- accidents ------------------------------------------------------------------------------------

MIXED = {
    **CLEAN,
    "findings": [
        {**PRESENT, "mode": mode}
        if at % 3 == 0
        else {"mode": mode, "verdict": ("absent", "unknown")[at % 3 - 1], "reason": "seen"}
        for at, mode in enumerate(MODES)
    ],
}
VALID = json.dumps(MIXED)
BEFORE = {row["mode"]: row["verdict"] for row in MIXED["findings"]}
PLACE = st.integers(0, len(VALID))
INSERTED = st.sampled_from(
    [
        *("", '"', "{", "}", "[", "]", ",", ":", "\\", "\n", "//", "/*", "```", "\u0430"),
        *("present", "unknown", "no", "null", "0", "findings"),
        *("<think>", "</think>", M, VALID),
    ]
)


def is_silent(text: str) -> list[str]:
    """Modes that the changed text calls absent, although nothing about it says it was changed."""
    answer = read_answer(Completion(text=text), marker=M, asked=list(MODES), source="judge")
    told = answer.strays or any(isinstance(said, str) for said in answer.rows.values())
    turned = [
        mode
        for mode, said in answer.rows.items()
        if not isinstance(said, str) and said[0].verdict == "absent" and BEFORE[mode] != "absent"
    ]
    return [] if told else turned


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(PLACE, st.integers(0, 400), INSERTED), min_size=1, max_size=3))
def test_no_accident_turns_a_finding_into_its_absence_silently(
    edits: list[tuple[int, int, str]],
) -> None:
    """Cuts, holes and insertions anywhere. What is lost leaves its mode unknown."""
    text = VALID
    for at, length, inserted in edits:
        text = text[:at] + inserted + text[at + length :]
    assert is_silent(text) == []


@settings(max_examples=300, deadline=None)
@given(PLACE, PLACE, PLACE)
def test_a_part_that_is_moved_or_doubled_turns_nothing_into_its_absence_silently(
    at: int, end: int, to: int
) -> None:
    part = VALID[min(at, end) : max(at, end)]
    rest = VALID.replace(part, "", 1) if part else VALID
    assert is_silent(VALID[:to] + part + VALID[to:]) == []
    assert is_silent(rest[:to] + part + rest[to:]) == []


def test_wherever_an_answer_is_cut_off_nothing_is_absent() -> None:
    """Every prefix of a clean answer; also where nobody says that it was cut."""
    for end in range(len(GOOD)):
        answer = read_answer(
            Completion(text=GOOD[:end]), marker=M, asked=list(MODES), source="judge"
        )
        assert not answer.usable, GOOD[:end]


def test_a_changed_character_never_turns_a_finding_into_its_absence() -> None:
    for at in range(len(VALID)):
        for new in ('"', "}", ",", "x", "0", ""):
            assert is_silent(VALID[:at] + new + VALID[at + 1 :]) == []
