"""What an in-process model samples: exact, repeatable, and nothing that was not allowed."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)

WORDS = ["go", "stop", "left", "right", *"abcdefgh"]


def opinionated(seed: int = 0, **settings: Any) -> TransformersModel:
    """A tiny model whose answers are far from uniform."""
    model = tiny_model(WORDS, seed=seed, **settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter += 0.15 * torch.randn(parameter.shape, generator=generator)
    return model


async def ask(
    model: TransformersModel, text: str, seed: int = 0, role: str = "r", **how: Any
) -> Completion:
    session = model.session(role, seed=seed)
    return await session.generate([Message(text)], sampling=Sampling(**how))


def recomputed(model: TransformersModel, completion: Completion) -> list[float]:
    """Log-probabilities by one plain forward pass: no cache, no padding, no batch."""
    span = completion.tokens
    assert span is not None
    ids = torch.tensor([span.given + span.sampled])
    with torch.no_grad():
        logits = model.module(input_ids=ids).logits[0].double()
    support = span.support or [None] * len(span.sampled)
    result = []
    for at, (token, allowed) in enumerate(zip(span.sampled, support, strict=True)):
        row = logits[len(span.given) + at - 1] / span.temperature
        others = row if allowed is None else row[allowed]
        result.append(float(row[token] - torch.logsumexp(others, 0)))
    return result


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("a", {}),
    ("a b c d", {"temperature": 0.5, "max_tokens": 7}),
    ("left right go", {"temperature": 1.7}),
    ("h", {"choices": ("go left", "go right", "stop")}),
    ("g g g g g g g", {"choices": ("a", "a b", "a b c", "b"), "temperature": 0.7}),
    ("a b", {"top_p": 0.6}),
    ("c", {"top_p": 0.7, "choices": tuple("abcdefgh"), "temperature": 2.0}),
    ("d e f", {"temperature": 0.0}),
    ("e", {"stop": ("go", "b")}),
]


@pytest.mark.parametrize("max_batch", [1, 5, 64])
async def test_answers_do_not_depend_on_who_else_is_in_the_batch(max_batch: int) -> None:
    """Alone, in other company, in another order: the same tokens and log-probabilities."""
    alone = [
        await ask(opinionated(), text, seed, **how) for seed in range(3) for text, how in REQUESTS
    ]
    model = opinionated(max_batch=max_batch)
    calls = [(text, seed, how) for seed in range(3) for text, how in REQUESTS]
    order = list(range(len(calls)))
    order = order[1::2] + order[::-2]
    together = await asyncio.gather(
        *(ask(model, calls[i][0], calls[i][1], **calls[i][2]) for i in order)
    )
    for i, completion in zip(order, together, strict=True):
        ours, theirs = completion.tokens, alone[i].tokens
        assert ours is not None
        assert theirs is not None
        assert completion.text == alone[i].text
        assert (ours.given, ours.sampled, ours.support) == (
            theirs.given,
            theirs.sampled,
            theirs.support,
        )
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


@pytest.mark.parametrize(("text", "how"), REQUESTS)
async def test_log_probabilities_are_those_of_a_plain_forward_pass(
    text: str, how: dict[str, Any]
) -> None:
    """Under the temperature, the choices and the nucleus that were in force."""
    model = opinionated()
    drawn = await asyncio.gather(*(ask(model, text, seed, **how) for seed in range(8)))
    for completion in drawn:
        assert completion.tokens is not None
        if how.get("temperature") == 0.0:
            assert completion.tokens.logprobs == [0.0] * len(completion.tokens.sampled)
        else:
            assert completion.tokens.logprobs == pytest.approx(
                recomputed(model, completion), abs=1e-5
            )


async def test_frequencies_match_the_model() -> None:
    """4,000 seeds; chi-square against the exact probabilities of the four answers."""
    model = opinionated()
    choices = ("a", "a b", "a c", "d")
    drawn = await asyncio.gather(
        *(ask(model, "left", seed, choices=choices, temperature=3.0) for seed in range(4000))
    )
    exact = {c.text: math.exp(sum(c.tokens.logprobs)) for c in drawn if c.tokens}
    assert set(exact) == set(choices)
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-5)
    counts = {text: sum(c.text == text for c in drawn) for text in choices}
    chi2 = sum((counts[t] - 4000 * exact[t]) ** 2 / (4000 * exact[t]) for t in choices)
    assert chi2 < 16.3, (counts, exact)  # 99.9 % of samples with 3 degrees of freedom


async def test_forced_tokens_have_probability_one_and_record_that_nothing_else_was_allowed() -> (
    None
):
    model = opinionated()
    completion = await ask(model, "a", choices=("go left", "go right"))
    go, left, right = model.encode("go left right")
    assert completion.tokens is not None
    assert completion.tokens.support == [[go], [left, right], [min(model.ends)]]
    assert completion.tokens.logprobs[0] == completion.tokens.logprobs[2] == 0.0
    assert completion.tokens.logprobs[1] < 0.0
    assert completion.finish_reason == "stop"


async def test_one_choice_needs_no_forward_pass() -> None:
    model = opinionated()
    model.module.register_forward_hook(lambda *_: pytest.fail("a forward pass"))
    assert (await ask(model, "a", choices=("go left",))).text == "go left"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), min_size=1, unique=True),
    st.integers(0, 2**64),
)
def test_an_answer_is_always_one_of_the_choices(choices: list[str], seed: int) -> None:
    """Any set of choices, also when some begin like others or are empty."""
    model = opinionated()
    completion = asyncio.run(ask(model, "a", seed, choices=tuple(choices)))
    assert completion.text in choices
    assert completion.tokens is not None
    assert completion.tokens.sampled == [*model.encode(completion.text), min(model.ends)]


async def test_greedy_takes_the_likeliest_token() -> None:
    model = opinionated()
    completion = await ask(model, "a", temperature=0.0, max_tokens=5)
    again = await ask(model, "a", seed=99, temperature=0.0, max_tokens=5)
    assert completion.tokens is not None
    ids = completion.tokens.given
    for token in completion.tokens.sampled:
        with torch.no_grad():
            assert int(model.module(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids = [*ids, token]
    assert again.tokens is not None
    assert again.tokens.sampled == completion.tokens.sampled


async def test_seeds_of_model_session_and_call_all_count() -> None:
    async def text(model_seed: int = 0, seed: int = 0, **how: Any) -> str:
        model = tiny_model(WORDS)
        model.seed = model_seed
        return (await ask(model, "a", seed, max_tokens=16, **how)).text

    base = await text()
    assert base == await text()
    assert base != await text(model_seed=1)
    assert base != await text(seed=1)
    assert base != await text(seed=0, role="s")


async def test_a_call_may_bring_its_own_seed() -> None:
    model = tiny_model(WORDS)
    one, two = model.session("r", seed=1), model.session("r", seed=2)
    how = Sampling(seed=5, max_tokens=16)
    texts = [(await s.generate([Message("a")], sampling=how)).text for s in (one, two)]
    assert texts[0] == texts[1]


async def test_an_untrained_tiny_model_is_uniform() -> None:
    model = tiny_model(WORDS)
    completion = await ask(model, "a b c", max_tokens=4)
    assert completion.tokens is not None
    assert completion.tokens.logprobs == pytest.approx(
        [-math.log(len(model.tokenizer))] * len(completion.tokens.sampled), abs=1e-6
    )


async def test_finish_reasons() -> None:
    model = tiny_model(WORDS)
    ends = "<end>"
    by_reason = {
        completion.finish_reason: completion
        for completion in await asyncio.gather(
            *(ask(model, "a", seed, max_tokens=3) for seed in range(64))
        )
    }
    assert set(by_reason) == {"stop", "length"}
    assert len(by_reason["length"].tokens.sampled) == 3  # type: ignore[union-attr]
    assert model.tokenizer.decode(by_reason["stop"].tokens.sampled[-1]) == ends  # type: ignore[union-attr]
    assert ends not in by_reason["stop"].text


async def test_stop_strings_end_the_answer_and_are_cut_off() -> None:
    model = tiny_model(WORDS)
    drawn = await asyncio.gather(
        *(ask(model, "a", seed, max_tokens=16, stop=("go left", "c")) for seed in range(200))
    )
    for c in drawn:
        assert c.tokens is not None
        assert "c" not in c.text
        # A special token between the two, which the text leaves out, makes it another text.
        assert "go left" not in c.text or "go left" not in model.spelled(c.tokens.sampled)
    stopped = [
        c for c in drawn if c.finish_reason == "stop" and c.tokens and c.tokens.sampled[-1] != 0
    ]
    assert stopped
    for completion in stopped:
        assert completion.tokens is not None
        assert model.spelled(completion.tokens.sampled).endswith(("go left", "c"))
        whole = model.decode(completion.tokens.sampled)
        # This tokenizer writes a space before each word, that after a special token included.
        assert whole.startswith(completion.text.strip())


async def test_usage_counts_the_tokens() -> None:
    completion = await ask(tiny_model(WORDS), "a b c", max_tokens=4)
    assert completion.tokens is not None
    assert completion.usage.prompt_tokens == len(completion.tokens.given)
    assert completion.usage.completion_tokens == len(completion.tokens.sampled)
    assert completion.usage.usd == 0.0


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"max_tokens": 0},
        {"choices": ()},
        {"choices": ("a", "a<end>")},
        {"choices": ("a", "a ")},
        {"choices": ("a", "elephant")},
    ],
)
async def test_settings_that_cannot_be_kept_are_refused(how: dict[str, Any]) -> None:
    model = tiny_model(WORDS)
    with pytest.raises(UsageError):
        await ask(model, "a", **how)
    assert (await ask(model, "a", choices=("b",))).text == "b"  # and the model goes on


async def test_a_conversation_that_does_not_fit_is_an_error_that_names_the_sizes() -> None:
    model = tiny_model(WORDS, context=12)
    lengths = [
        completion.usage.completion_tokens
        for completion in [await ask(model, "a b c d e f g", seed) for seed in range(9)]
    ]
    assert max(lengths) == 2  # 7 words and 3 marks are given
    with pytest.raises(ModelError, match=r"is 12 tokens long.* the 12 tokens that `tiny`"):
        await ask(model, "a b c d e f g h a")
    with pytest.raises(ModelError, match="12 tokens"):
        await ask(model, "a b c d e f g", choices=("a b", "c d"))


async def test_damaged_weights_are_an_error_not_an_answer() -> None:
    model = tiny_model(WORDS)
    with torch.no_grad():
        model.module.lm_head.weight[3, 3] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        await ask(model, "a")
