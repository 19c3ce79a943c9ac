"""A tiny transformer and its tokenizer, made on the spot: for tests, demos and `relay`.

A real language model in every respect but size: about 0.1 million parameters, made in
milliseconds, with no download. Untrained it samples uniformly, because its output layer starts
at zero: whatever it is later able to do, training taught it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch, transformers
from rolecraft.models.transformers_model import TransformersModel

_ROLES = ("system", "user", "assistant", "tool")
_END = "<end>"

_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


def tiny_tokenizer(words: Iterable[str]) -> Any:
    """A tokenizer with one token for each of `words`, in order, and a chat template.

    Text is split at white space. A word that is not in the list cannot be spelled, which is an
    error when a prompt contains it.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    specials = [_END, *(f"<{role}>" for role in _ROLES)]
    listed = list(dict.fromkeys(words))
    for word in listed:
        if not word or word in specials or word.split() != [word]:
            raise UsageError(
                f"`tiny_tokenizer(words)`: {word!r} cannot be a word. A word has no white space, "
                f"and is none of {specials}."
            )
    vocabulary = {word: index for index, word in enumerate(specials + listed)}
    backend = Tokenizer(models.WordLevel(vocabulary))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        eos_token=_END,
        pad_token=_END,
        additional_special_tokens=specials[1:],
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_model(
    words: Iterable[str],
    *,
    name: str = "tiny",
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 128,
    max_batch: int = 4096,
    max_tokens: int = 16,
) -> TransformersModel:
    """An untrained model for a language of `words`; about 0.1 M parameters by default.

    Llama's architecture, float32, on the CPU. `seed` sets the initial weights and the sampling.
    `hidden` is divisible by `heads`; `context` is the longest conversation in tokens.
    """
    tokenizer = tiny_tokenizer(words)
    module = small_llama(
        tokenizer,
        seed=seed,
        hidden=hidden,
        layers=layers,
        heads=heads,
        context=context,
        initialise=_initialise,
    )
    return TransformersModel(
        module, tokenizer, name=name, seed=seed, max_batch=max_batch, max_tokens=max_tokens
    )


def small_llama(
    tokenizer: Any,
    *,
    seed: int,
    hidden: int,
    layers: int,
    heads: int,
    context: int,
    initialise: Callable[[Any, int], None] | None = None,
) -> Any:
    """A Llama with random weights for the tokenizer's vocabulary, float32, on the CPU.

    `initialise` gets the module and its width, and may draw other weights, by the same seed.
    """
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):  # the caller's random state stays untouched
        torch.manual_seed(seed)
        module = transformers.LlamaForCausalLM(config)
        if initialise is not None:
            initialise(module, hidden)
    return module


def _initialise(module: Any, hidden: int) -> None:
    """Random weights for a small width, and zeros for the output layer.

    The usual standard deviation of 0.02 is made for widths of thousands. At width 64 it leaves
    next to nothing of the prompt in the last hidden state, and reinforcement learning cannot tell
    one prompt from another. 1 / sqrt(width) keeps sizes alike from layer to layer, and small
    embeddings let what attention brings outweigh the last token's own.
    """
    for weight in module.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=hidden**-0.5)
    torch.nn.init.normal_(module.model.embed_tokens.weight, std=0.05)
    torch.nn.init.zeros_(module.lm_head.weight)
