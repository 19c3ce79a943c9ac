"""Texts that are meant to hurt: nothing raises, nothing is lost or invented, no time explodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_call_texts import (
    EVERY_MARKER,
    FORMATS,
    MARKERS,
    chunks,
    everything,
    in_pieces,
    texts,
    tools_for,
    whole,
    words,
)

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls import get_parser

MANY = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MILLION = 1_000_000
STARTS = st.sampled_from((False, True, None))


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


# Nothing raises, nothing is lost, nothing is invented.


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data(), starts_in_reasoning=STARTS, repair=st.booleans())
def test_any_text_gives_an_output_of_the_declared_types(
    form: str, data: st.DataObject, starts_in_reasoning: bool | None, repair: bool
) -> None:
    text = data.draw(st.one_of(texts(form), st.text()))
    output = get_parser(form, repair=repair).parse(text, starts_in_reasoning=starts_in_reasoning)
    assert isinstance(output.content, str)
    assert isinstance(output.reasoning, str)
    for call in output.tool_calls:
        assert isinstance(call, ToolCall)
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)
        assert isinstance(call.arguments, dict)
        assert all(isinstance(key, str) for key in call.arguments)
        if call.incomplete:
            assert not call.arguments
            assert call.raw in text
        if not repair:
            assert not call.repairs
    for diagnostic in output.diagnostics:
        assert isinstance(diagnostic.kind, str)
        assert text[diagnostic.at :].startswith(diagnostic.text)


WORD = st.integers(0, 999_999).map("w{:06d}q".format)
"""Words that stand once in a text and in no marker."""


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(data=st.data(), starts_in_reasoning=STARTS)
def test_every_word_of_a_text_comes_out_once(
    form: str, data: st.DataObject, starts_in_reasoning: bool | None
) -> None:
    placed = st.lists(st.tuples(texts(form), WORD), max_size=5, unique_by=lambda part: part[1])
    parts = data.draw(placed)
    text = "".join(part + word for part, word in parts)
    output = get_parser(form).parse(text, starts_in_reasoning=starts_in_reasoning)
    came_out = everything(output)
    for _, word in parts:
        assert came_out.count(word) >= 1, f"{word} is lost: {text!r} -> {output}"


@pytest.mark.parametrize("form", FORMATS)
def test_every_word_of_published_texts_comes_out(
    form: str, published: list[dict[str, Any]], hard: list[dict[str, Any]]
) -> None:
    framing = set(words(" ".join(EVERY_MARKER))) | FRAMING
    for case in published + hard:
        if case["format"] == form:
            output = whole(form, case["text"], tools=case["tools"])
            came_out = everything(output)
            lost = [w for w in words(case["text"]) if w not in framing and w not in came_out]
            assert not lost, f"{case['id']}: {lost} of {case['text']!r} -> {output}"


FRAMING = {"name", "arguments", "parameters", "type", "function", "json", "think", "true", "false"}
FRAMING |= {"null", "None", "True", "False", "tool", "endoftext"}


# Sizes that hurt.

FLOODS = ("<", "{", "[", '"', "\\", " ", "\x00", "(")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("char", FLOODS)
def test_a_million_of_one_character_are_text(form: str, char: str) -> None:
    text = char * MILLION
    output = whole(form, text)  # what is quadratic in a million takes hours
    assert output.content == text or not text.strip() or output.diagnostics
    assert not output.tool_calls


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("char", ["{", '{"a":'])
def test_values_nested_deeper_than_python_reads_break_nothing(form: str, char: str) -> None:
    shell = ToolCall("f", {"a": ["DEEP"]})
    text = get_parser(form).render([shell]).replace('"DEEP"', char * 100_000)
    output = whole(form, text, tools=[{"type": "function", "function": {"name": "f"}}])
    assert all(call.incomplete or call.repairs or call.arguments for call in output.tool_calls)
    after = get_parser(form).render([ToolCall("g", {})])
    whole(form, text + after)


def long_call(form: str, length: int) -> str:
    return get_parser(form).render([ToolCall("f", {"code": LINE * (length // len(LINE))})])


LINE = "    if a < b:  # 'x' \"y\" \\ { [\n"


@pytest.mark.parametrize("form", FORMATS)
def test_a_long_argument_in_small_deltas_costs_at_most_ten_times_the_whole(
    growth: Any, form: str
) -> None:
    """Handing the deltas over counts as part of the whole.

    A megabyte at once takes one to four milliseconds, most of it in C. To call a function that
    does nothing with 250,000 deltas takes ten.
    """
    text = long_call(form, MILLION)
    deltas = chunks(text, 4)
    assert in_pieces(form, deltas, tools=WRITES) == whole(form, text, tools=WRITES)

    def at_once() -> None:
        whole(form, text, tools=WRITES)
        hand_over(deltas)

    def in_deltas() -> None:
        in_pieces(form, deltas, tools=WRITES)

    growth(lambda work: work, at_once, in_deltas, at_most=10)


WRITES = tools_for([ToolCall("f", {"code": ""})])


def hand_over(deltas: list[str]) -> None:
    taken: list[str] = []

    def feed(delta: str) -> None:
        taken.append(delta)

    for delta in deltas:
        feed(delta)


# Growth: twice the text, at most about twice the time.

REPEATED = ('{"a": "', '{"name": "f", "arguments": {"a": "', '"', "{", "[", "\\", "'", "x ", "\n")


def families(form: str) -> list[str]:
    """Units that are repeated: markers alone, two by two, and before values that never end.

    `fuzz/growth.py` looks through many more, and takes its time.
    """
    own = (*MARKERS.get(form, EVERY_MARKER), "<think>", "</think>")
    alone = [*own]
    pairs = [one + other for one in own for other in own if one != other][::2]
    unfinished = [one + value for one in own for value in REPEATED]
    thinking = ["<think>" + get_parser(form).render([ToolCall("f", {"a": 1})])]
    return alone + pairs + unfinished + thinking


def repeats(
    form: str, unit: str, *, size: int = 0, length: int = 6_000
) -> Callable[[int], Callable[[], Any]]:
    """Makes the reading of so many times `length` characters."""
    count = max(1, length // len(unit))

    def work(times: int) -> Callable[[], Any]:
        text = unit * (count * times)
        if not size:
            return lambda: whole(form, text)
        deltas = chunks(text, size)
        return lambda: in_pieces(form, deltas)

    return work


def looks_linear(work: Callable[[int], Callable[[], Any]]) -> bool:
    """Whether eight times the text takes at most twenty times as long, at first sight.

    There are hundreds; only what looks slow is measured with care.
    """
    return seconds(work(8)) <= 20 * seconds(work(1)) + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_time_grows_with_the_length_whatever_is_repeated(growth: Any, form: str) -> None:
    for unit in families(form):
        if not looks_linear(work := repeats(form, unit)):
            growth(work, 1, 8, at_most=20)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_time_grows_with_the_length_in_small_deltas_too(growth: Any, form: str) -> None:
    for unit in families(form)[::3]:
        if not looks_linear(work := repeats(form, unit, size=4, length=4_000)):
            growth(work, 1, 8, at_most=20)
