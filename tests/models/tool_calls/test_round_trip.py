"""What a format's `render` writes, its parser reads as the same calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tool_call_texts import FORMATS, calls, chunks, in_pieces, tools_for, typed_alike, whole

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import ParsedOutput, get_parser

MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def plain(calls: list[ToolCall]) -> str:
    """By `repr`, so that 1, 1.0 and True differ."""
    return repr([(call.name, call.arguments) for call in calls])


def assert_good(output: ParsedOutput, expected: list[ToolCall], text: str) -> None:
    assert plain(output.tool_calls) == plain(expected), text
    assert not output.diagnostics, text
    assert not any(call.incomplete or call.repairs for call in output.tool_calls), text


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data())
def test_calls_come_back(form: str, data: st.DataObject) -> None:
    asked = data.draw(calls(form))
    assume(typed_alike(asked))
    text = get_parser(form).render(asked)
    output = whole(form, text, tools=tools_for(asked))
    assert_good(output, asked, text)
    assert not (output.content or "").strip()
    assert not output.reasoning


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data(), before=st.sampled_from(("Let me see.\n\n", "x < y: ", "1. [a] {b}\n")))
def test_calls_come_back_after_text_and_in_deltas(
    form: str, data: st.DataObject, before: str
) -> None:
    asked = data.draw(calls(form, most=2))
    assume(typed_alike(asked))
    parser: Any = get_parser(form)
    text = before + parser.render(asked)
    output = in_pieces(form, chunks(text, 5), tools=tools_for(asked))
    assert_good(output, asked, text)
    assert (output.content or "").strip() == before.strip()
