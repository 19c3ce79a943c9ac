"""Reading a judge's answer. Nothing but a well-formed answer ever means "no failure".

The published annotator turned `None`, an empty text, a refusal and a cut-off answer into "0
failures", read `{"1.1": true, "1.2": false}` as both, and found a "no" inside "Ignored". Each of
these stands here, and each leaves the modes unknown.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.judging.answers import Answer, read_answer
from rolecraft.failure_taxonomy.judging.prompt import write_record, write_system
from rolecraft.failure_taxonomy.windows import Piece
from rolecraft.models import Completion

MARKER = "c0ffee"
ASKED = ["task_spec", "repetition", "verification.absent"]


def read(text: Any, *, finish: Any = "stop") -> Answer:
    return read_answer(
        Completion(text=text, finish_reason=finish), marker=MARKER, asked=ASKED, source="judge:x"
    )


def answer(*rows: Any, **fields: Any) -> str:
    good = {"marker": MARKER, "diagnosis": "They stopped early.", "findings": list(rows)}
    return json.dumps({**good, **fields})


ABSENT = [{"mode": mode, "verdict": "absent", "confidence": 0.9} for mode in ASKED]
PRESENT = {
    "mode": "repetition",
    "verdict": "present",
    "role": "coder",
    "events": [3, 1],
    "quote": "ls -l",
    "confidence": 0.7,
    "reason": "listed twice",
}
PIECES = [Piece("event 0: message, ada", "hi")]
SYSTEM = write_system(list(MODES.values()), marker=MARKER, shots=5)
PROMPT = SYSTEM + "\n" + write_record(list(MODES.values()), PIECES, marker=MARKER)

NO_ANSWERS: dict[str, Any] = {
    # the table of known misreadings
    "None": None,
    "empty": "",
    "white space": " \n\t ",
    "refusal": "I'm sorry, but I can't help with analysing this conversation.",
    "cut off after the summary": "A. The team failed.\nB. Whether the task is completed: no",
    "bare codes": '{"1.1": true, "1.2": false, "3.3": "yes"}',
    "echo of one line": "B. Whether the task is successfully completed or not: yes",
    "yes and no in one line": "1.1 Disobey task specification: no issue here but yes overall",
    "yes to all with names": "2.5 Ignored Other Agent's Input: yes\n"
    "3.2 No or Incorrect Verification: yes",
    # and others
    "echo of the prompt": PROMPT,
    "echo of the prompt in a fence": f"```\n{PROMPT}\n```",
    "no to all": "\n".join(f"{mode}: no" for mode in ASKED),
    "json null": "null",
    "json list": json.dumps(ABSENT),
    "json string": '"absent"',
    "rows without the answer around them": json.dumps(ABSENT[0]),
    "findings as a table": answer(findings=dict.fromkeys(ASKED, "absent")),
    "findings as text": answer(findings="none"),
    "findings is null": answer(findings=None),
    "no findings": answer(),
    "none_apply": json.dumps({"marker": MARKER, "diagnosis": "fine", "none_apply": True}),
    "another marker": answer(*ABSENT, marker="beef00"),
    "no marker": json.dumps({"diagnosis": "fine", "findings": ABSENT}),
    "marker is a number": answer(*ABSENT, marker=0),
    "no diagnosis": json.dumps({"marker": MARKER, "findings": ABSENT}),
    "empty diagnosis": answer(*ABSENT, diagnosis="  "),
    "diagnosis is a list": answer(*ABSENT, diagnosis=["fine"]),
    "two answers": answer(*ABSENT) + "\n" + answer(PRESENT),
    "a key twice": answer(*ABSENT)[:-1] + ', "findings": []}',
    "cut off in the middle": answer(*ABSENT)[:-20],
    "comma missing": answer(*ABSENT).replace('", "', '" "'),
    "single quotes": answer(*ABSENT).replace('"', "'"),
    "not a number": answer(*ABSENT).replace("0.9", "NaN"),
    "answer inside an answer": json.dumps({"answer": json.loads(answer(*ABSENT))}),
    "deeply nested": "[" * 100_000,
    "braces": "{" * 100_000,
    "verdict yes": answer(*[{**row, "verdict": "yes"} for row in ABSENT]),
    "verdict in capitals": answer(*[{**row, "verdict": "ABSENT"} for row in ABSENT]),
    "verdict is a bool": answer(*[{**row, "verdict": False} for row in ABSENT]),
    "verdict is null": answer(*[{**row, "verdict": None} for row in ABSENT]),
    "verdict left out": answer(*[{"mode": row["mode"]} for row in ABSENT]),
    "mode by code": answer({"mode": "1.1", "verdict": "absent"}),
    "mode by name": answer({"mode": "Step repetition", "verdict": "absent"}),
    "mode is a list": answer({"mode": ASKED, "verdict": "absent"}),
    "rows are texts": answer(*[f"{mode}: absent" for mode in ASKED]),
    "confidence above 1": answer(*[{**row, "confidence": 90} for row in ABSENT]),
    "confidence in words": answer(*[{**row, "confidence": "high"} for row in ABSENT]),
    "events as text": answer(*[{**row, "events": "3"} for row in ABSENT]),
    "events as texts": answer(*[{**row, "events": ["3"]} for row in ABSENT]),
    "contrary rows": answer(*ABSENT, *[{**row, "verdict": "unknown"} for row in ABSENT]),
    "present and absent": answer(*ABSENT, *[{**PRESENT, "mode": mode} for mode in ASKED]),
    "a tool call instead": '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
    "lone surrogate": "\ud800",
    # drafts that the judge gave up
    "a draft among thoughts, then a refusal": f"<think>Maybe {answer(*ABSENT)}</think> I can't.",
    "a draft among thoughts that were cut off": f"<think>Maybe {answer(*ABSENT)} No, wait:",
    "thoughts whose begin the template wrote": f"Maybe {answer(*ABSENT)} No.</think> I can't.",
    "an end of thoughts in a draft, then a refusal": (
        f"{answer(*ABSENT, diagnosis='</think>')} No.</think> I can't."
    ),
    "an end of thoughts in an answer that is cut off": (
        f"Hm.</think>{answer(*ABSENT, diagnosis='It says </think> early.')[:-30]}"
    ),
    "a draft among thoughts, then a cut-off answer": (
        f"<think>Maybe {answer(*ABSENT)}</think>\n{answer(PRESENT)[:-40]}"
    ),
    "an answer, then a cut-off correction": (
        f"{answer(*ABSENT)}\nWait. Corrected:\n{answer(PRESENT)[:-30]}"
    ),
    "an answer, then the first brace of a correction": answer(*ABSENT) + "\nCorrected:\n{",
    "a draft in an object with a key twice": (
        f'{{"draft": {answer(*ABSENT)}, "final": 1, "final": 2}}'
    ),
    "a draft in a cut-off object": f'{{"draft": {answer(*ABSENT)}, "final": {answer(PRESENT)[:50]}',
    "a draft in a table of another language": f"{{'draft': {answer(*ABSENT)}, 'final': None}}",
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_what_is_no_answer_leaves_every_mode_unknown(name: str) -> None:
    said = read(NO_ANSWERS[name])
    assert set(said.rows) == set(ASKED)
    for mode, rows in said.rows.items():
        assert isinstance(rows, str), f"{mode}: {rows}"
        assert rows
    assert not said.usable


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_cut_off_or_withheld_answer_is_none_even_if_it_parses(finish: str) -> None:
    assert not read(answer(*ABSENT), finish=finish).usable


def test_a_well_formed_answer_is_read() -> None:
    said = read(answer(ABSENT[0], PRESENT, {"mode": ASKED[2], "verdict": "unknown"}))
    rows = said.rows["repetition"]
    assert not isinstance(rows, str)
    (row,) = rows
    assert (row.verdict, row.role, row.events, row.quote) == ("present", "coder", (3, 1), "ls -l")
    assert (row.confidence, row.source, row.reason) == (0.7, "judge:x", "listed twice")
    assert said.diagnosis == "They stopped early."
    assert [rows[0].verdict for rows in said.rows.values() if not isinstance(rows, str)] == [
        "absent",
        "present",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```json\n", "\n```"),
        ("Here is my answer, as {asked} for:\n", "\nI hope {this} helps."),
        ("<think>The marker {x} is odd.</think>", ""),
        (f"<think>A draft: {answer()}. No.</think>\n", ""),
        ('<think>{"marker": and so on</think>', ""),
        ('An example: {"a": 1}. Now:\n', ""),
    ],
)
def test_words_and_fences_around_an_answer_do_no_harm(before: str, after: str) -> None:
    assert read(before + answer(*ABSENT) + after).usable


@pytest.mark.parametrize(
    "before", ["", "<think>A draft: {}. </think>\n", "Hm.</think>", "```json\n"]
)
def test_an_answer_may_quote_a_trace_that_has_the_mark_of_thoughts(before: str) -> None:
    after = "\n```" if before.startswith("```") else ""
    said = read(before + answer(ABSENT[0], {**PRESENT, "quote": "so </think> I do"}) + after)
    assert not isinstance(said.rows["repetition"], str)


def test_a_mode_that_is_left_out_is_unknown_and_the_others_count() -> None:
    said = read(answer(*ABSENT[:2]))
    assert said.rows["verification.absent"] == "the answer leaves the mode out"
    assert not isinstance(said.rows["task_spec"], str)


def test_one_bad_row_costs_its_own_mode() -> None:
    said = read(answer({**PRESENT, "events": [True]}, ABSENT[0], ABSENT[2]))
    assert isinstance(said.rows["repetition"], str)
    assert not isinstance(said.rows["task_spec"], str)


def test_rows_about_other_modes_are_named_and_ignored() -> None:
    said = read(answer(*ABSENT, {"mode": "reset", "verdict": "present"}))
    assert said.strays == ["reset"]
    assert set(said.rows) == set(ASKED)


def test_several_failures_of_one_mode_are_kept() -> None:
    said = read(answer(ABSENT[0], ABSENT[2], PRESENT, {**PRESENT, "events": [9]}))
    assert len(said.rows["repetition"]) == 2


def test_empty_fields_may_be_null_where_they_do_not_matter() -> None:
    row = {"mode": "repetition", "verdict": "absent", "role": None, "events": None, "quote": None}
    said = read(answer(ABSENT[0], row, ABSENT[2]))
    assert not isinstance(said.rows["repetition"], str)
