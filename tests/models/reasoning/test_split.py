"""Each family's way of writing reasoning is read, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.reasoning import (
    FORMATS,
    ReasoningFormat,
    ReasoningStream,
    split_reasoning,
    starts_in_reasoning,
)
from rolecraft.models.tool_calls import ContentPiece, ReasoningPiece, TakenBack, get_parser


def parts(text: str, form: str | None = None, inside: bool | None = None) -> tuple[str, str]:
    split = split_reasoning(text, form, starts_in_reasoning=inside)
    return split.reasoning, split.content


SHAPES = {
    "think": "<think>why</think>answer",
    "thinking": "<thinking>why</thinking>answer",
    "thought": "<thought>why</thought>answer",
    "reasoning": "<reasoning>why</reasoning>answer",
    "scratchpad": "<REASONING_SCRATCHPAD>why</REASONING_SCRATCHPAD>answer",
    "seed_oss": "<seed:think>why</seed:think>answer",
    "longcat": "<longcat_think>why</longcat_think>answer",
    "kimi": "◁think▷why◁/think▷answer",
    "mistral": "[THINK]why[/THINK]answer",
    "gemma4": "<|channel>thought\nwhy<channel|>answer",
    "apertus": "<|inner_prefix|>why<|inner_suffix|>answer",
    "granite": "Here is my thought process:why Here is my response:answer",
    "cohere": "<|START_THINKING|>why<|END_THINKING|><|START_RESPONSE|>answer<|END_RESPONSE|>",
    "hunyuan_a13b": "<think>\nwhy\n</think>\n<answer>\nanswer\n</answer>",
    "ernie45": "<think>\nwhy\n</think>\n\n<response>\nanswer\n</response>\n",
    "granite3_3": "<think>why</think><response>answer</response>",
    "gpt_oss": "<|channel|>analysis<|message|>why<|end|>"
    "<|start|>assistant<|channel|>final<|message|>answer<|return|>",
}


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_reads_what_its_models_write(form):
    text = SHAPES.get(form, SHAPES["think"])
    reasoning, content = parts(text, form)
    assert (reasoning.strip(), content) == ("why", "answer")


@pytest.mark.parametrize("tag", ["longcat_think", "think"])
def test_longcat_thinks_in_tags_of_its_own_or_in_the_usual_ones(tag):
    """The reader of its calls and the splitter of its thoughts have the same format."""
    text = f"<{tag}>why</{tag}>answer"
    assert parts(text, "longcat") == ("why", "answer")
    output = get_parser("longcat").parse(text)
    assert (output.reasoning, output.content) == ("why", "answer")
    assert parts(f"<{tag}>why<longcat_tool_call>", "longcat") == ("why", "<longcat_tool_call>")


@pytest.mark.parametrize("form", sorted(SHAPES))
def test_auto_finds_the_format_that_an_answer_begins_with(form):
    split = split_reasoning("\n" + SHAPES[form])
    assert split.reasoning.strip() == "why"
    assert "why" not in split.content


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_gives_the_same_in_pieces_of_one_character(form):
    text = SHAPES.get(form, SHAPES["think"]) * 2
    stream = ReasoningStream(form)
    for char in text:
        stream.feed(char)
    assert stream.finish() == split_reasoning(text, form)


# --- where reasoning begins and ends ------------------------------------------------------------


def test_a_block_that_the_template_opened_has_a_close_marker_only():
    assert parts("why</think>answer", "qwen3") == ("why", "answer")
    assert parts("why</think>answer", "qwen3", True) == ("why", "answer")


def test_with_thinking_switched_off_a_close_marker_is_data():
    assert parts("a </think> b", "qwen3", False) == ("", "a </think> b")


def test_a_block_that_is_not_closed_reaches_to_the_end():
    assert parts("<think>why", "qwen3") == ("why", "")
    assert parts("why", "qwen3", True) == ("why", "")
    assert parts("why", "deepseek_r1") == ("why", "")
    assert parts("answer", "qwen3") == ("", "answer")


def test_a_call_ends_a_block_that_is_never_closed():
    assert parts("<think>why<tool_call>{}</tool_call>", "glm45") == (
        "why",
        "<tool_call>{}</tool_call>",
    )


def test_a_call_quoted_in_a_block_that_is_closed_later_is_reasoning():
    text = "<think>say <tool_call>{}</tool_call>?</think>no"
    assert parts(text, "glm45") == ("say <tool_call>{}</tool_call>?", "no")


def test_repeated_open_markers_and_repeated_close_markers_are_dropped():
    assert parts("<think>\n<think>why</think></think>answer", "qwen3") == ("\nwhy", "answer")


def test_an_open_marker_within_a_block_is_data_and_the_first_close_marker_ends_it():
    assert parts("<think>a<think>b</think>c", "qwen3") == ("a<think>b", "c")


def test_a_block_may_come_after_content_and_more_than_once():
    text = "One.\n<think>a</think>\nTwo.<think>b</think>Three."
    assert parts(text, "qwen3") == ("ab", "One.\n\nTwo.Three.")


def test_a_marker_between_backticks_is_quoted():
    text = "Write `<think>` and `</think>` around it."
    assert parts(text, "qwen3") == ("", text)
    assert parts("<think>`</think>` ends it</think>yes", "qwen3") == ("`</think>` ends it", "yes")


def test_a_sentence_that_opens_reasoning_counts_at_the_beginning_only():
    text = "You ask how I work. Here is my thought process: none."
    assert parts(text, "granite") == ("", text)


def test_mistral_without_an_open_marker_loses_the_close_marker_only():
    assert parts("a[/THINK]b", "mistral") == ("", "ab")


def test_white_space_stays_and_a_block_of_nothing_else_is_none():
    assert parts("<think>\nwhy\n</think>\n\nanswer\n", "qwen3") == ("\nwhy\n", "\n\nanswer\n")
    assert parts("<think>\n\n</think>\n\nanswer", "qwen3") == ("", "\n\nanswer")


# --- auto and JSON ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The tag <think> opens, </think> closes.",
        "`<think>` opens a block.",
        "<thinker>a</thinker>",
        "a</think>b",
        "\0",
        "",
        "  \n",
        "<",
        "<thin",
    ],
)
def test_auto_leaves_a_text_that_begins_with_no_open_marker_as_it_is(text):
    split = split_reasoning(text)
    assert (split.reasoning, split.content.strip(), split.format) == ("", text.strip(), "")


def test_auto_takes_the_models_format_where_its_name_is_known():
    assert split_reasoning("why</think>yes", model="deepseek-ai/DeepSeek-R1").reasoning == "why"
    assert split_reasoning("why</think>yes", model="unheard-of").reasoning == ""


def test_json_is_split_where_the_whole_answer_is_one_object():
    assert parts('{"thinking": "why", "answer": "yes"}', "json") == ("why", "yes")
    reasoning, content = parts('{"thought": "why", "tool": "look", "n": 1}', "json")
    assert (reasoning, json.loads(content)) == ("why", {"tool": "look", "n": 1})
    for text in ('So: {"thinking": "why"}', '[{"thinking": "why"}]', '{"thinking": 3}', "{", ""):
        assert parts(text, "json") == ("", text)


# --- streaming ----------------------------------------------------------------------------------


def test_pieces_come_as_soon_as_they_are_certain():
    stream = ReasoningStream("qwen3")
    assert stream.feed("<thi") == []
    assert stream.feed("nk>why") == [ReasoningPiece("why")]
    assert stream.feed(" not</th") == [ReasoningPiece(" not")]
    assert stream.feed("ink>yes") == [ContentPiece("yes")]


def test_what_turns_out_to_be_reasoning_is_taken_back():
    stream = ReasoningStream("qwen3")
    assert stream.feed("why") == [ContentPiece("why")]
    assert stream.feed("</think>yes") == [TakenBack(), ContentPiece("yes")]
    assert stream.finish().reasoning == "why"


def test_no_text_is_an_empty_one_and_names_do_where_formats_do():
    assert split_reasoning(None) == split_reasoning("")
    assert starts_in_reasoning("Hm <think>\n", "qwen3")
    with pytest.raises(UnknownName):
        starts_in_reasoning("Hm", "qwen33")


def test_a_finished_stream_takes_no_more():
    stream = ReasoningStream("qwen3")
    stream.feed("yes")
    assert stream.finish() is stream.finish()
    with pytest.raises(UsageError, match="Begin another"):
        stream.feed("no")


MARKERS = st.sampled_from(
    sorted({mark for row in FORMATS.values() for mark in (*row.opens, *row.closes, *row.ends_at)})
)
TEXTS = st.lists(st.one_of(MARKERS, st.text(max_size=5), st.just("`")), max_size=8).map("".join)


@given(
    text=TEXTS,
    form=st.sampled_from(["auto", "json", *sorted(FORMATS)]),
    inside=st.sampled_from([None, False, True]),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_any_text_cut_anywhere_gives_what_the_whole_gives_and_loses_nothing(
    text, form, inside, cuts
):
    whole = split_reasoning(text, form, starts_in_reasoning=inside)
    stream = ReasoningStream(form, starts_in_reasoning=inside)
    last = 0
    for cut in [*sorted(cuts), len(text)]:
        stream.feed(text[last : max(cut, last)])
        last = max(cut, last)
    assert stream.finish() == whole
    if form != "json":  # whose escapes are read
        rest = text
        for part in (whole.reasoning, whole.content):
            for char in part:
                assert char in rest


@example(text="<|channel|>", form="auto", inside=None, size=1)
@given(
    text=TEXTS,
    form=st.sampled_from(["auto", *sorted(FORMATS)]),
    inside=st.sampled_from([None, False, True]),
    size=st.integers(1, 9),
)
def test_the_pieces_of_a_stream_make_up_its_end(text, form, inside, size):
    stream = ReasoningStream(form, starts_in_reasoning=inside)
    pieces = [
        piece for at in range(0, len(text), size) for piece in stream.feed(text[at : at + size])
    ]
    whole = stream.finish()
    content = reasoning = ""
    for piece in (*pieces, *stream.pieces):
        if isinstance(piece, TakenBack):
            reasoning, content = content, ""
        elif isinstance(piece, ContentPiece):
            content += piece.text
        else:
            reasoning += piece.text
    assert content == whole.content
    assert reasoning.strip() == whole.reasoning.strip()


@pytest.mark.parametrize(
    "unit", ["<", "<think>", "</think>", "◁", "<think><tool_call>", "`</think>`", " "]
)
@pytest.mark.parametrize(("size", "pieces"), [(1_000_000, 1), (160_000, 40_000)])
def test_a_megabyte_of_beginnings_of_markers_costs_time_in_proportion(growth, unit, size, pieces):
    def feeds(share):
        text = (unit * (size // len(unit) + 1))[: int(size * share)]
        piece = size // pieces if pieces > 1 else len(text)

        def work():
            stream = ReasoningStream("qwen3")
            for at in range(0, len(text), piece):
                stream.feed(text[at : at + piece])
            stream.finish()

        return work

    growth(feeds, 0.1, 1.0, at_most=40)


# --- formats of one's own -----------------------------------------------------------------------


def test_a_format_of_ones_own_is_used_as_it_is():
    mine = ReasoningFormat(name="mine", opens=("<<",), closes=(">>",))
    assert split_reasoning("<<why>>yes", mine).content == "yes"


def test_a_name_that_is_not_known_lists_the_known_ones():
    with pytest.raises(UnknownName, match="qwen3"):
        split_reasoning("", "qwen33")


@pytest.mark.parametrize("markers", [{"closes": ()}, {"closes": ("",)}, {"opens": ("",)}])
def test_a_format_without_an_end_or_with_an_empty_marker_is_refused(markers):
    with pytest.raises(UsageError, match="'mine'"):
        ReasoningFormat(**{"name": "mine", "opens": ("<",), "closes": (">",), **markers})
