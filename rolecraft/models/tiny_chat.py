"""A tiny chat model for any text, with tools, that can learn conversations by heart.

For tests of whole scenarios without a download: what it was taught it says at temperature 0, token
for token, in the place where it was taught it; anywhere else it says anything. It spells text byte
by byte, and writes calls of tools as Hermes does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import ModelError
from rolecraft.messages import Message
from rolecraft.models.base import Tool
from rolecraft.models.tiny import small_llama
from rolecraft.models.torch_extra import torch, transformers
from rolecraft.models.transformers_model import TransformersModel

_START, _END = "<|im_start|>", "<|im_end|>"

_TEMPLATE = """\
{%- if tools %}{{ "<|im_start|>system\\nTools:" }}
{%- for tool in tools %}{{ " " + tool.function.name }}{% endfor %}{{ "<|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
{{- "<|im_start|>" + message.role + "\\n" + message.content }}
{%- for call in message.tool_calls or [] %}
{%- if message.content or not loop.first %}{{ "\\n" }}{% endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ "}\\n</tool_call>" }}
{%- endfor %}
{{- "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}"""


def byte_tokenizer() -> Any:
    """A tokenizer with one token for each byte, and a chat template with tools."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    specials = [_END, _START]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: index for index, text in enumerate([*specials, *alphabet])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        eos_token=_END,
        pad_token=_END,
        additional_special_tokens=[_START],
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_chat_model(
    *,
    name: str = "tiny-chat",
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 2048,
    max_tokens: int = 256,
    for_adapters: bool = False,
) -> TransformersModel:
    """An untrained model; about 0.1 M parameters by default, float32, on the CPU.

    `seed` sets the initial weights and the sampling. `context` is the longest conversation in
    tokens, which are bytes. `for_adapters` draws larger weights than is usual for large models: an
    adapter leaves the output layer as it is, and could make no token likely by a very small one.
    """
    tokenizer = byte_tokenizer()
    module = small_llama(
        tokenizer,
        seed=seed,
        hidden=hidden,
        layers=layers,
        heads=heads,
        context=context,
        initialise=_draw_large if for_adapters else None,
    )
    return TransformersModel(
        module, tokenizer, name=name, seed=seed, max_tokens=max_tokens, parser="hermes"
    )


def _draw_large(module: Any, width: int) -> None:
    for weight in module.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=width**-0.5)
    torch.nn.init.normal_(module.lm_head.weight, std=2 * width**-0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What to say at one point of a conversation."""

    messages: Sequence[Message]
    """The conversation before, the system prompt first, as a session would hold it."""
    answer: str
    """The answer as the model writes it, calls of tools included: see `ToolCallParser.render`."""
    tools: Sequence[Tool] = ()
    """What is on offer."""


def teach(
    model: TransformersModel,
    lessons: Sequence[Lesson],
    *,
    most_steps: int = 1000,
    rate: float = 3e-3,
) -> int:
    """Train until at temperature 0 every lesson's answer is given; returns the steps it took.

    All weights are trained, with Adam at the learning rate `rate`, on the answers' tokens. Not
    while the model is in use. Raises `ModelError` if `most_steps` were not enough.
    """
    module = model.module
    rows = [_row(model, lesson) for lesson in lessons]
    width = max(len(ids) for ids, _ in rows)
    ids_NT = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
    answer_NT = torch.zeros_like(ids_NT, dtype=torch.bool)
    for row, (ids, start) in zip(answer_NT, rows, strict=True):
        row[start : len(ids)] = True
    wanted_A = ids_NT[:, 1:][answer_NT[:, 1:]]
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    for step in range(most_steps + 1):
        logits_NTV = module(input_ids=ids_NT, use_cache=False).logits[:, :-1]
        logits_AV = logits_NTV[answer_NT[:, 1:]]
        loss = torch.nn.functional.cross_entropy(logits_AV, wanted_A)
        # A little longer than until it is right: rounding must not change what is likeliest.
        if loss.item() < 0.02 and bool((logits_AV.argmax(-1) == wanted_A).all()):
            return step
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    raise ModelError(
        f"`{model.name}` did not learn {len(lessons)} lessons in {most_steps} steps. Give it more "
        f"steps, or a larger `hidden`."
    )


def _row(model: TransformersModel, lesson: Lesson) -> tuple[list[int], int]:
    """The tokens of a lesson, and where its answer begins."""
    prompt = model.encode(model.render(lesson.messages, lesson.tools))
    answer = model.encode(model.template.plain.mark(lesson.answer))
    return [*prompt, *answer, model.tokenizer.eos_token_id], len(prompt)
