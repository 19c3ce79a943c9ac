"""However a text is cut into deltas, the end result is that of parsing it whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_call_texts import FORMATS, chunks, in_pieces, texts, whole

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ContentPiece, ReasoningPiece, TakenBack, get_parser

SIZES = (1, 3, 7, 64)
STARTS = st.sampled_from((False, True, None))
MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def assert_cuts_change_nothing(
    form: str, text: str, *, sizes: Sequence[int] = SIZES, everywhere: bool = True, **how: Any
) -> None:
    # By `repr`, because a NaN is not equal to itself.
    expected = repr(whole(form, text, **how))
    for size in sizes:
        got = repr(in_pieces(form, chunks(text, size), **how))
        assert got == expected, f"{form}: {text!r} in chunks of {size}"
    for at in range(len(text) + 1) if everywhere else ():
        got = repr(in_pieces(form, (text[:at], text[at:]), **how))
        assert got == expected, f"{form}: {text!r} cut at {at}: {text[:at]!r} | {text[at:]!r}"


@pytest.mark.parametrize("form", FORMATS)
def test_published_and_hard_texts(
    form: str, published: list[dict[str, Any]], hard: list[dict[str, Any]]
) -> None:
    for case in published + hard:
        if case["format"] == form:
            for repair in (True, False):
                assert_cuts_change_nothing(
                    form,
                    case["text"],
                    tools=case["tools"],
                    starts_in_reasoning=bool(case.get("starts_in_reasoning")),
                    everywhere=repair,
                )


def test_what_stood_in_code_does_not_once_it_is_reasoning() -> None:
    """Found by fuzzing: content that became reasoning still counted for its open backtick."""
    text = "N`✿RETURN✿</think>\n✿✿RETURN✿`"
    assert_cuts_change_nothing("qwen", text, starts_in_reasoning=None)
    assert whole("qwen", text, starts_in_reasoning=None).content == "\n✿`"


def test_a_bracket_in_a_code_fence_begins_no_call_before_it_is_known_what_follows() -> None:
    """Found by fuzzing: all that came after the bracket was code, `<think>` too."""
    text = "Look:\n```[<think>"
    assert_cuts_change_nothing("llama4_pythonic", text)
    assert whole("llama4_pythonic", text).content == "Look:\n```["


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data(), starts_in_reasoning=STARTS)
def test_any_text(form: str, data: st.DataObject, starts_in_reasoning: bool | None) -> None:
    text = data.draw(texts(form))
    assert_cuts_change_nothing(form, text, starts_in_reasoning=starts_in_reasoning)


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data())
def test_any_text_in_pieces_of_any_length(form: str, data: st.DataObject) -> None:
    text = data.draw(texts(form))
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert repr(in_pieces(form, pieces)) == repr(whole(form, text)), pieces


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data(), size=st.sampled_from((1, 4, 9)), starts_in_reasoning=STARTS)
def test_what_is_told_while_streaming_adds_up_to_the_end_result(
    form: str, data: st.DataObject, size: int, starts_in_reasoning: bool | None
) -> None:
    text = data.draw(texts(form))
    stream = get_parser(form).stream(starts_in_reasoning=starts_in_reasoning)
    pieces = [piece for delta in chunks(text, size) for piece in stream.feed(delta)]
    output = stream.finish()
    pieces += stream.pieces
    content, reasoning = "", ""
    calls: list[ToolCall] = []
    for piece in pieces:
        if isinstance(piece, ContentPiece):
            content += piece.text
        elif isinstance(piece, ReasoningPiece):
            reasoning += piece.text
        elif isinstance(piece, TakenBack):  # what was told as content turns out to be reasoning
            content, reasoning = "", reasoning + content
        else:
            assert piece.index == len(calls)
            calls.append(piece.call)
    assert (content, reasoning) == (output.content, output.reasoning)
    assert repr(calls) == repr(output.tool_calls)
