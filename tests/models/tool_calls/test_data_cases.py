"""Published raw outputs, and cases that engines get wrong, give the calls that are expected.

Scores are as the data says: names equal in order, arguments equal (1 == 1.0, True != 1), content
compared without white space around it. A call that is incomplete is none: it is never executed.
`python -m pytest -rA -k scores` prints a table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from rolecraft.models.tool_calls import ParsedOutput, get_parser, parser_names

Case = dict[str, Any]

POLICY = {
    "qwen3_coder-048": "a call that was cut off is never run: it is kept as incomplete",
    "deepseek_v3-014": "a trailing comma is mended and recorded; arguments are never plain text",
    "llama3_json-035": "the marker before a call is accepted, as the Python engines do",
    "qwen3_coder-012": "a call of a tool that was not offered is told in a diagnostic",
}
"""Cases of tier B whose expectation we do not share, and why."""
OTHER_TEXT: dict[str, str] = {}
"""Cases of tier A whose calls are right and whose text is not the engines', and why."""


def parsed(case: Case) -> ParsedOutput:
    return get_parser(case["format"]).parse(
        case["text"],
        tools=case["tools"],
        starts_in_reasoning=bool(case.get("starts_in_reasoning")),
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def calls_of(output: ParsedOutput) -> list[Any]:
    return [[call.name, call.arguments] for call in output.tool_calls if not call.incomplete]


def right_calls(case: Case, output: ParsedOutput) -> bool:
    expected = [[call["name"], call["arguments"]] for call in case["expected_calls"]]
    if case.get("assertion") == "no_raise":
        return True
    if case.get("assertion") == "at_least_one_call":
        return bool(calls_of(output))
    return same(expected, calls_of(output))


def right_text(case: Case, output: ParsedOutput) -> bool:
    """Where nothing is said of a text, anything is right."""
    for expected, got in (
        (case["expected_content"], output.content),
        (case.get("expected_reasoning"), output.reasoning),
    ):
        if expected is not None and expected.strip() != (got or "").strip():
            return False
    return True


def of_tier(cases: list[Case], tier: str) -> list[Case]:
    found = [case for case in cases if case["tier"] == tier and case["format"] in parser_names()]
    if not found:
        pytest.skip(f"no case of tier {tier} for {', '.join(parser_names())}")
    return found


def told(case: Case, output: ParsedOutput) -> str:
    return (
        f"{case['id']}: {case['text']!r}\n  expected {case['expected_calls']}, "
        f"content {case['expected_content']!r}\n  got      {output}"
    )


def test_there_is_a_parser_for_each_format(published: list[Case], hard: list[Case]) -> None:
    assert {case["format"] for case in published + hard} <= set(parser_names())


def test_where_engines_agree_so_do_we(published: list[Case]) -> None:
    wrong = [
        told(case, output)
        for case in of_tier(published, "A")
        if not right_calls(case, output := parsed(case))
    ]
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(wrong)


def test_text_and_reasoning_are_those_on_which_engines_agree(published: list[Case]) -> None:
    wrong = {
        case["id"]: told(case, output)
        for case in of_tier(published, "A")
        if not right_text(case, output := parsed(case))
    }
    new = [text for name, text in wrong.items() if name not in OTHER_TEXT]
    assert not new, f"{len(new)} cases:\n" + "\n".join(new)
    assert not OTHER_TEXT.keys() - wrong.keys(), "these are right by now: take them out"


def test_where_engines_differ_we_mostly_follow_one_and_else_have_a_policy(
    published: list[Case],
) -> None:
    cases = of_tier(published, "B")
    wrong = {
        case["id"]: told(case, output)
        for case in cases
        if not right_calls(case, output := parsed(case))
    }
    new = [text for name, text in wrong.items() if name not in POLICY]
    assert not new, f"{len(new)} cases without a policy:\n" + "\n".join(new)
    assert not POLICY.keys() - wrong.keys(), "these are as an engine's by now: take them out"
    assert len(wrong) <= 0.2 * len(cases), wrong.keys()


def test_hard_cases(hard: list[Case]) -> None:
    wrong = [
        told(case, output)
        for case in hard
        if case["format"] in parser_names() and not right_calls(case, output := parsed(case))
    ]
    assert not wrong, f"{len(wrong)} of {len(hard)}:\n" + "\n".join(wrong)


def test_text_of_hard_cases_is_what_stands_outside_calls(hard: list[Case]) -> None:
    wrong = [
        told(case, output)
        for case in hard
        if case["format"] in parser_names() and not right_text(case, output := parsed(case))
    ]
    assert not wrong, f"{len(wrong)} of {len(hard)}:\n" + "\n".join(wrong)


def test_scores_by_format_and_tier(published: list[Case], hard: list[Case]) -> None:
    """Prints the table; the tests above say which cases must be right."""
    scores: dict[str, Counter[str]] = defaultdict(Counter)
    for case in [*published, *hard]:
        if case["format"] not in parser_names():
            continue
        output, tier = parsed(case), case.get("tier", "hard")
        for row in (case["format"], "all"):
            scores[row][tier] += 1
            scores[row][f"{tier} right"] += right_calls(case, output)
            scores[row][f"{tier} text"] += right_text(case, output)
    print(f"\n{'format':<16}" + "".join(f"{tier:>18}" for tier in ("A", "B", "C", "hard")))
    for name, score in sorted(scores.items()):
        cells = [
            f"{score[f'{t} right']}/{score[t]} ({score[f'{t} text']} text)" if score[t] else "-"
            for t in ("A", "B", "C", "hard")
        ]
        print(f"{name:<16}" + "".join(f"{cell:>18}" for cell in cells))
    assert scores["all"]["A right"]
