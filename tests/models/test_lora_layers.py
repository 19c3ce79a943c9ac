"""Adapters in a module: what they compute is peft's, and without them nothing has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import peft
import pytest
import torch

from rolecraft.errors import AdapterError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)

WORDS = tuple("abcdefgh")
TARGETS = ["q_proj", "v_proj", "up_proj"]


def speaking() -> TransformersModel:
    """A tiny model whose output layer is not zero, so that prompts and adapters matter."""
    model = tiny_model(WORDS, context=256)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        torch.nn.init.normal_(model.module.lm_head.weight, std=0.4)
    return model


def wrapped(seed: int, **settings: Any) -> Any:
    """The same model in peft, with a random adapter."""
    settings = {"r": 4, "init_lora_weights": False, "target_modules": TARGETS, **settings}
    module = speaking().module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(module, peft.LoraConfig(**settings)).eval()


def saved(folder: Path, seed: int, **settings: Any) -> Path:
    wrapped(seed, **settings).save_pretrained(folder)
    return folder


def logits(module: Any) -> torch.Tensor:
    with torch.inference_mode():
        out: torch.Tensor = module(torch.arange(5, 12)[None]).logits
    return out


async def said(model: TransformersModel, role: str, seed: int = 0, text: str = "a b") -> Any:
    sampling = Sampling(max_tokens=12)
    return (
        await model.session(role, seed=seed).generate([Message(text)], sampling=sampling)
    ).tokens


async def test_rows_of_one_batch_have_the_logprobs_that_peft_gives_each(tmp_path: Path) -> None:
    model = speaking()
    settings = {
        "a": {},
        "b": {"r": 8, "use_rslora": True, "target_modules": ["o_proj", "down_proj"]},
    }
    references: dict[str, Any] = {"": speaking().module}
    for seed, (role, more) in enumerate(settings.items()):
        await model.load_adapter(role, saved(tmp_path / role, seed, **more))
        references[role] = wrapped(seed, **more)
    spans = await asyncio.gather(
        *(said(model, role, n) for n in range(4) for role in ("", "a", "b"))
    )
    for role, span in zip(("", "a", "b") * 4, spans, strict=True):
        ids = torch.tensor([span.given + span.sampled])
        with torch.inference_mode():
            logp_TV = references[role](ids).logits[0].log_softmax(-1)
        first = len(span.given) - 1
        expected = [logp_TV[first + at, token].item() for at, token in enumerate(span.sampled)]
        assert span.logprobs == pytest.approx(expected, abs=1e-4)
        assert span.adapter == (f"{role}@1" if role else "")
        assert span.version == (1 if role else 0)


async def test_an_answer_does_not_depend_on_who_else_asks(tmp_path: Path) -> None:
    model = speaking()
    await model.load_adapter("a", saved(tmp_path / "a", 1))
    alone = [(await said(model, role, seed)).sampled for seed in range(6) for role in ("", "a")]
    together = await asyncio.gather(
        *(said(model, role, seed) for seed in range(6) for role in ("", "a"))
    )
    assert [span.sampled for span in together] == alone


async def test_the_module_computes_trains_and_is_saved_as_before(tmp_path: Path) -> None:
    model = speaking()
    before = logits(model.module)
    names = list(model.module.state_dict())
    await model.load_adapter("a", saved(tmp_path / "a", 1))
    assert torch.equal(logits(model.module), before)
    base = [weight for name, weight in model.module.named_parameters() if "lora_" not in name]
    assert all(weight.requires_grad for weight in base)
    assert not any(
        weight.requires_grad for name, weight in model.module.named_parameters() if "lora_" in name
    )
    model.save(tmp_path / "saved")
    again = TransformersModel.load(tmp_path / "saved", device="cpu")
    assert torch.equal(logits(again.module), before)
    await model.unload_adapter("a")
    await model.adapters.settle()
    assert list(model.module.state_dict()) == names
    assert torch.equal(logits(model.module), before)
    assert not model.module._forward_pre_hooks


async def test_a_call_under_way_finishes_on_the_version_it_began_with(tmp_path: Path) -> None:
    model = speaking()
    one, two = saved(tmp_path / "one", 1), saved(tmp_path / "two", 2)
    await model.load_adapter("a", one)
    expected = (await said(model, "a", text="a " * 40)).sampled
    under_way = asyncio.create_task(said(model, "a", text="a " * 40))
    while not model._batcher._running:  # noqa: ASYNC110 (of another thread)
        await asyncio.sleep(0)
    await model.load_adapter("a", two)
    later = await said(model, "a", text="a " * 40)
    span = await under_way
    assert (span.adapter, span.sampled) == ("a@1", expected)
    assert later.adapter == "a@2"
    await model.adapters.settle()
    assert model._lora.loaded == ["a@2"]


async def test_a_broken_adapter_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its weights are not finite: its own calls fail, those of the same batch are answered."""
    model = speaking()
    bad = wrapped(1)
    with torch.no_grad():
        bad.base_model.model.model.layers[0].self_attn.q_proj.lora_A.default.weight.fill_(torch.nan)
    bad.save_pretrained(tmp_path / "bad")
    await model.load_adapter("bad", tmp_path / "bad")
    alone = (await said(model, "")).sampled
    answers = await asyncio.gather(said(model, ""), said(model, "bad"), return_exceptions=True)
    assert answers[0].sampled == alone  # type: ignore[union-attr]
    assert "not finite" in str(answers[1])


async def test_what_cannot_be_served_row_by_row_is_refused(tmp_path: Path) -> None:
    model = speaking()
    for n, more in enumerate(({"use_dora": True}, {"modules_to_save": ["lm_head"]})):
        with pytest.raises(AdapterError, match=r"DoRA|modules_to_save"):
            await model.load_adapter("a", saved(tmp_path / str(n), 1, **more))
    assert model.adapters.roles == []
    assert not any("lora" in name for name in model.module.state_dict())


async def test_a_late_call_joins_and_gets_the_answer_it_would_get_alone() -> None:
    model = speaking()
    alone = (await said(model, "", seed=5, text="b c")).sampled
    sizes: list[int] = []
    model.module.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    long = Sampling(max_tokens=150, temperature=0.9)
    first = asyncio.create_task(model.session("r").generate([Message("a")], sampling=long))
    while not sizes:  # noqa: ASYNC110 (of another thread)
        await asyncio.sleep(0)
    late = await said(model, "", seed=5, text="b c")
    done = first.done()
    await first
    assert late.sampled == alone
    if not done:  # an early end of the first is the sampled text's own affair
        assert 2 in sizes
