"""Published raw answers are split as the engines' own tests expect, however they are cut."""

from __future__ import annotations

from typing import Any

from rolecraft.models.reasoning import ReasoningStream, Split, split_reasoning

Case = dict[str, Any]

# The cases don't say how the prompt ended; the names of the tests that they come from do.
CLOSED = ("disable",)
OPENED = (
    "forced_reasoning",
    "force_reasoning",
    "no_end_tag_all_reasoning",
    "implicit_end_no_think",
)


def inside(case: Case) -> bool | None:
    test = case["source"].lower()
    if any(word in test for word in CLOSED):
        return False
    return True if any(word in test for word in OPENED) else None


def split(case: Case) -> Split:
    return split_reasoning(case["text"], case["format"], starts_in_reasoning=inside(case))


def expected(case: Case) -> tuple[str, str]:
    return case["expected_reasoning"] or "", case["expected_content"] or ""


def got(case: Case, parts: Split) -> tuple[str, str]:
    # vLLM reads these two with its parser of calls, which leaves no text; here calls are text.
    if "implicit_end" in case["source"] and parts.content.startswith("<tool_call>"):
        return parts.reasoning, ""
    return parts.reasoning, parts.content


def test_every_published_case_is_split_as_published_white_space_included(published):
    wrong = {
        case["id"]: (got(case, split(case)), expected(case))
        for case in published
        if got(case, split(case)) != expected(case)
    }
    assert not wrong
    assert len(published) >= 60


def test_a_stream_gives_the_same_at_every_cut(published):
    for case in published:
        text, whole = case["text"], split(case)
        for at in range(len(text) + 1):
            stream = ReasoningStream(case["format"], starts_in_reasoning=inside(case))
            stream.feed(text[:at])
            stream.feed(text[at:])
            assert stream.finish() == whole, (case["id"], at)
        for size in (1, 3, 7, 64):
            stream = ReasoningStream(case["format"], starts_in_reasoning=inside(case))
            for at in range(0, len(text), size):
                stream.feed(text[at : at + size])
            assert stream.finish() == whole, (case["id"], size)
