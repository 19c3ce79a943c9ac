"""Exactly the answers are trained, and each is seen as at inference time, whatever the template."""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.models.chat_template import ChatTemplate
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.sft.encoding import Encoded, Encoder, NotEncodable
from rolecraft.training.sft.pieces import NOT_TRAINED, mask_pieces
from rolecraft.training.sft.samples import Sample, TextSample, Turn

FAMILIES = [
    *("hermes", "qwen25", "qwen3", "qwen3_coder", "deepseek_v3", "deepseek_v3_1", "glm45", "glm47"),
    *("kimi_k2", "llama3", "llama4", "longcat", "mistral", "mistral_v3", "gpt_oss"),
]
REWRITES = {"qwen3", "gpt_oss"}
"""Those that write an answer otherwise once another question follows."""
TOOL = {
    "name": "look",
    "description": "Look at a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
}


def turn(role: str, content: str, **more: Any) -> Turn:
    return Turn(role, content, sampled=role == "assistant", **more)


def talk(*contents: str) -> Sample:
    """Questions and answers in turns."""
    return Sample(
        turns=[turn(("user", "assistant")[at % 2], text) for at, text in enumerate(contents)]
    )


def with_calls(call_id: str = "call00000") -> Sample:
    call = {"id": call_id, "name": "look", "arguments": {"place": "aab"}}
    turns = [
        turn("user", "one"),
        turn("assistant", "", tool_calls=[call]),
        turn("tool", "res", tool_call_id=call_id, name="look"),
        turn("assistant", "fin"),
    ]
    return Sample(turns=turns, tools=[TOOL])


def encoder(families: ModuleType, name: str, **more: Any) -> tuple[Any, Encoder]:
    tokenizer = families.tokenizer_of(name)
    ends = tokenizer.convert_tokens_to_ids(families.FAMILIES[name].ends)
    return tokenizer, Encoder(tokenizer, name=name, ends=ends, **more)


def trained(encoded: Encoded, tokenizer: Any) -> list[str]:
    return [
        text
        for sequence in encoded.sequences
        for text, is_trained in mask_pieces(sequence.ids, sequence.labels, tokenizer)
        if is_trained
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_and_their_end_tokens_are_trained_and_nothing_else(
    families: ModuleType, name: str
) -> None:
    tokenizer, encode = encoder(families, name)
    encoded = encode.encode(talk("one", "first", "two", "second"))
    answers = trained(encoded, tokenizer)
    ends = tuple(families.FAMILIES[name].ends)
    assert len(answers) == 2
    for answer, content in zip(answers, ("first", "second"), strict=True):
        assert answer.endswith(ends)
        bare = re.sub(r"</?think>|<\|channel\|>final<\|message\|>|\s", "", answer)
        assert bare in {content + end for end in ends}
    assert len(encoded.sequences) == 1 + (name in REWRITES)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_trained_turn_is_seen_as_at_inference_time(families: ModuleType, name: str) -> None:
    """What stands before an answer is the prompt that the template writes for it."""
    tokenizer, encode = encoder(families, name)
    contents = ["one", "first", "two", "second", "three", "third"]
    encoded = encode.encode(talk(*contents))
    seen = []
    for sequence in encoded.sequences:
        before = ""
        for text, is_trained in mask_pieces(sequence.ids, sequence.labels, tokenizer):
            if is_trained:
                seen.append(before)
            before += text
    for at, prompt in zip((1, 3, 5), seen, strict=True):
        messages = [
            {"role": ("user", "assistant")[n % 2], "content": text}
            for n, text in enumerate(contents[:at])
        ]
        written = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        assert prompt == written


@pytest.mark.parametrize("name", FAMILIES)
def test_calls_of_tools_are_trained_and_their_results_are_not(
    families: ModuleType, name: str
) -> None:
    tokenizer, encode = encoder(families, name)
    encoded = encode.encode(with_calls("functions.look:0" if name == "kimi_k2" else "call00000"))
    calls, last = trained(encoded, tokenizer)
    assert "look" in calls
    assert "aab" in calls
    assert "fin" in last
    assert "res" not in calls + last
    assert "one" not in calls + last
    assert calls.endswith(tuple(families.FAMILIES[name].ends))


@pytest.mark.parametrize("name", ["qwen3", "glm45", "glm47", "gpt_oss"])
def test_reasoning_is_trained_where_the_template_writes_it(families: ModuleType, name: str) -> None:
    tokenizer, encode = encoder(families, name)
    sample = talk("one", "first")
    sample.turns[1].reasoning = "hmm"
    encoded = encode.encode(sample)
    (answer,) = trained(encoded, tokenizer)
    assert answer.index("hmm") < answer.index("first")
    assert encoded.lost_reasoning == 0


def test_reasoning_that_a_template_does_not_write_is_counted(families: ModuleType) -> None:
    tokenizer, encode = encoder(families, "llama3")
    sample = talk("one", "first")
    sample.turns[1].reasoning = "hmm"
    encoded = encode.encode(sample)
    assert trained(encoded, tokenizer) == ["first<|eot_id|>"]
    assert encoded.lost_reasoning == 1


def test_a_prompt_that_switches_reasoning_off_is_followed_by_none(families: ModuleType) -> None:
    tokenizer, encode = encoder(families, "qwen3", template={"enable_thinking": False})
    sample = talk("one", "first")
    sample.turns[1].reasoning = "hmm"
    encoded = encode.encode(sample)
    assert trained(encoded, tokenizer) == ["first<|im_end|>"]
    assert encoded.lost_reasoning == 1


def test_qwen3_drops_earlier_reasoning_and_every_answer_still_has_its_own(
    families: ModuleType,
) -> None:
    """A conversation becomes one sequence for each answer that the template would rewrite."""
    tokenizer, encode = encoder(families, "qwen3")
    sample = talk("one", "first", "two", "second")
    sample.turns[1].reasoning, sample.turns[3].reasoning = "hmm", "aha"
    encoded = encode.encode(sample)
    assert trained(encoded, tokenizer) == [
        "<think>\nhmm\n</think>\n\nfirst<|im_end|>",
        "<think>\naha\n</think>\n\nsecond<|im_end|>",
    ]
    later = tokenizer.decode(encoded.sequences[1].ids)
    assert "hmm" not in later
    assert "first" in later


def chat(template: str, *, eos: str = "<|im_end|>") -> Any:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    tokenizer.eos_token = eos
    return tokenizer


DEEPSEEK_R1 = """\
{%- for m in messages %}{%- if m.role == 'assistant' %}
{{- '<|im_start|>A' + m.content.split('</think>')[-1] + '<|im_end|>' }}
{%- else %}{{- '<|im_start|>U' + m.content }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>A<think>\\n' }}{%- endif %}"""


@pytest.mark.parametrize("reasoning", ["hmm", ""])
def test_reasoning_that_the_prompt_opens_and_the_history_drops_is_closed(reasoning: str) -> None:
    """As DeepSeek-R1's template does: what a model writes stands in no rendering at all."""
    tokenizer = chat(DEEPSEEK_R1)
    sample = talk("one", "first", "two", "second")
    sample.turns[1].reasoning = sample.turns[3].reasoning = reasoning
    encoded = Encoder(tokenizer, name="r1").encode(sample)
    assert trained(encoded, tokenizer) == [
        f"{reasoning}\n</think>\n\nfirst<|im_end|>",
        f"{reasoning}\n</think>\n\nsecond<|im_end|>",
    ]
    assert tokenizer.decode(encoded.sequences[1].ids).startswith(
        "<|im_start|>Uone<|im_start|>Afirst<|im_end|><|im_start|>Utwo<|im_start|>A<think>\n"
    )


def test_a_template_that_writes_no_answer_behind_its_prompt_refuses() -> None:
    template = (
        "{% if add_generation_prompt %}GO: {% endif %}"
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    )
    with pytest.raises(NotEncodable, match="does not write the answer behind the prompt"):
        Encoder(chat(template), name="odd").encode(talk("one", "first"))


def test_a_template_that_changes_or_leaves_out_what_is_said_refuses() -> None:
    shouts = "{% for m in messages %}{{ m.role + m.content | upper }}{% endfor %}" + (
        "{% if add_generation_prompt %}assistant{% endif %}"
    )
    with pytest.raises(NotEncodable, match="changes the text of an answer"):
        Encoder(chat(shouts), name="odd").encode(talk("one", "first"))
    mute = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}" + (
        "{% if add_generation_prompt %}assistant{% endif %}"
    )
    with pytest.raises(NotEncodable, match="leaves calls of tools out"):
        Encoder(chat(mute), name="odd").encode(with_calls())


def test_a_template_without_any_end_gets_the_tokenizers_end_token() -> None:
    template = (
        "{% for m in messages %}{{ '\n' + m.role + ': ' + m.content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\nassistant: ' }}{% endif %}"
    )
    tokenizer = chat(template)
    encoded = Encoder(tokenizer, name="plain").encode(talk("one", "first", "two", "second"))
    assert trained(encoded, tokenizer) == ["first<|im_end|>", "second<|im_end|>"]
    assert len(encoded.sequences) == 1


def test_the_token_that_a_template_ends_turns_with_need_not_be_the_tokenizers_end() -> None:
    """As with a base model's tokenizer and the template of its instructed sibling."""
    from tokenizers import AddedToken

    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("<|eot_id|>", special=True)])
    assert "<|eot_id|>" not in tokenizer.all_special_tokens
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_end|>", "<|eot_id|>")
    encoded = Encoder(tokenizer, name="base", ends=[10**9]).encode(talk("one", "first"))
    assert trained(encoded, tokenizer) == ["first<|eot_id|>"]


def test_a_call_that_is_no_object_is_refused() -> None:
    sample = with_calls()
    sample.turns[1].tool_calls[0]["raw"] = '{"place": '
    with pytest.raises(NotEncodable, match="arguments are no object"):
        Encoder(byte_tokenizer(), name="chat").encode(sample)


def test_a_tokenizer_without_end_token_is_refused() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(UsageError, match="has no end token"):
        Encoder(tokenizer, name="endless")


# --- templates with markers --------------------------------------------------------------------

MARKED = {
    "chatml": """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{- m.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{- m.content + '<|im_end|>' }}{%- endif %}{{- '\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    "llama-like": """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '|\\n\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{- m.content | trim + '<|im_end|>' }}\
{% endgeneration %}
{%- else %}{{- m.content | trim + '<|im_end|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant|\\n\\n' }}{%- endif %}""",
    "mistral-like": """\
{%- for m in messages %}{%- if m.role == 'user' %}{{- '[INST] ' + m.content + ' [/INST]' }}
{%- else %}{% generation %}{{- ' ' + m.content + '<|im_end|>' }}{% endgeneration %}{%- endif %}
{%- endfor %}""",
}


@pytest.mark.parametrize("name", MARKED)
def test_markers_of_a_template_say_the_same_as_the_encoder(name: str) -> None:
    tokenizer = chat(MARKED[name])
    sample = talk("one?", "first", "two?", "é漢🙂", "three", "third")
    (sequence,) = Encoder(tokenizer, name=name).encode(sample).sequences
    messages = [{"role": each.role, "content": each.content} for each in sample.turns]
    theirs = tokenizer.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True
    )
    count = len(sequence.ids)
    assert sequence.ids == theirs["input_ids"][:count]
    ours = [int(label != NOT_TRAINED) for label in sequence.labels]
    assert ours == theirs["assistant_masks"][:count]
    assert not any(theirs["assistant_masks"][count:])


# --- texts ---------------------------------------------------------------------------------------


def base(**more: Any) -> Any:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    return tokenizer


def test_a_base_model_learns_completions_without_a_template() -> None:
    tokenizer = base()
    encoded = Encoder(tokenizer, name="base").encode(TextSample(prompt="2+2=", completion="4"))
    (sequence,) = encoded.sequences
    assert mask_pieces(sequence.ids, sequence.labels, tokenizer) == [
        ("2+2=", False),
        ("4<|im_end|>", True),
    ]


def test_a_base_model_needs_a_template_for_conversations() -> None:
    with pytest.raises(UsageError, match="--template FILE"):
        Encoder(base(), name="base").encode(talk("one", "first"))


def test_a_text_for_a_chat_model_is_a_question_and_its_answer() -> None:
    tokenizer = byte_tokenizer()
    encoded = Encoder(tokenizer, name="chat").encode(TextSample(prompt="2+2=", completion="4"))
    (sequence,) = encoded.sequences
    assert tokenizer.decode(sequence.ids) == (
        "<|im_start|>user\n2+2=<|im_end|>\n<|im_start|>assistant\n4<|im_end|>"
    )


def test_half_a_character_is_refused_and_not_the_end_of_the_run() -> None:
    with pytest.raises(NotEncodable, match="cannot spell"):
        Encoder(byte_tokenizer(), name="chat").encode(talk("one", "\ud83d"))


@cache
def sentencepiece_like() -> Any:
    """A tokenizer that puts a space before every text, as Llama 2's does; with a first token."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    letters = [*"abcdefghijklmnopqrstuvwxyz:"]
    vocabulary = {token: at for at, token in enumerate(["<s>", "</s>", "▁", "\n", *letters])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>"
    )


def test_no_space_comes_between_a_prompt_and_its_completion() -> None:
    """Where a tokenizer puts one before every text, what goes on has none of its own."""
    tokenizer = sentencepiece_like()
    encode = Encoder(tokenizer, name="base")
    (sequence,) = encode.encode(TextSample(prompt="ab:", completion="cd ef")).sequences
    tokens = tokenizer.convert_ids_to_tokens(sequence.ids)
    assert tokens == ["<s>", "▁", "a", "b", ":", "c", "d", "▁", "e", "f", "</s>"]
    assert [label != NOT_TRAINED for label in sequence.labels] == [False] * 5 + [True] * 6


# --- properties ----------------------------------------------------------------------------------

CONTROL = ["<|im_start|>", "<|im_end|>", "\n", "assistant", " ", "é", "🙂", "</think>", "user"]
TEXTS = st.lists(st.sampled_from(CONTROL) | st.text(max_size=8), min_size=1, max_size=5).map(
    "".join
)
SAID = TEXTS.filter(lambda text: bool(text.strip()))


@settings(max_examples=80, deadline=None)
@given(st.lists(SAID, min_size=2, max_size=6))
def test_labels_are_exactly_the_answers_whatever_is_said(contents: list[str]) -> None:
    """Text that spells a control token stays text: only the template's own tokens are control."""
    tokenizer = byte_tokenizer()
    sample = talk(*contents)
    (sequence,) = Encoder(tokenizer, name="chat").encode(sample).sequences
    pieces = mask_pieces(sequence.ids, sequence.labels, tokenizer)
    assert "".join(text for text, _ in pieces) == tokenizer.decode(sequence.ids)
    answers = [text for text, is_trained in pieces if is_trained]
    assert answers == [f"{text}<|im_end|>" for text in contents[1::2]]
    ends = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    # One beginning for each turn, and one end for each but a question that nothing answers.
    turns = len(contents) // 2 * 2
    assert [token for token in sequence.ids if token in ends] == [*ends] * turns


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_family_trains_what_was_said_and_no_control_token_that_was_not_its_own(
    families: ModuleType, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(FAMILIES))
    family = families.FAMILIES[name]
    tokenizer, encode = encoder(families, name)
    words = st.sampled_from([*family.special, *family.added, "aa", "ab ", "b\n", "é", "🙂"])
    text = st.lists(words, min_size=1, max_size=4).map(lambda parts: "x" + "".join(parts) + "x")
    contents = data.draw(st.lists(text, min_size=2, max_size=4))
    encoded = encode.encode(talk(*contents))
    assert len(trained(encoded, tokenizer)) == len(contents) // 2
    bare = encode.encode(talk(*(["x"] * len(contents))))
    control = {*tokenizer.all_special_ids, *tokenizer.convert_tokens_to_ids(family.added)}
    for ours, plain in zip(encoded.sequences, bare.sequences, strict=True):
        assert [i for i in ours.ids if i in control] == [i for i in plain.ids if i in control]
    for answer, content in zip(trained(encoded, tokenizer), contents[1::2], strict=True):
        assert content in answer


def test_tokens_that_end_in_the_middle_of_a_character_make_pieces_all_the_same() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("a🙂b", add_special_tokens=False)
    labels = [NOT_TRAINED] * 3 + ids[3:]
    pieces = mask_pieces(ids, labels, tokenizer)
    assert pieces == [("a", False), ("🙂b", True)]


def test_the_chat_template_is_the_one_that_sessions_use(families: ModuleType) -> None:
    _, encode = encoder(families, "qwen25")
    assert isinstance(encode.template, ChatTemplate)
