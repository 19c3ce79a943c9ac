"""What is saved is what was trained: by peft, by our own model, as a whole model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.messages import Message
from rolecraft.models import Sampling
from rolecraft.models.torch_extra import torch, transformers
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.checkpoints import Checkpoints
from rolecraft.training.sft import training
from rolecraft.training.sft.libraries import datasets, peft
from rolecraft.training.sft.log import read_log
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.training import train_on

Settings = Callable[..., SFTSettings]


@pytest.fixture
def trained_module(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The trainers of the runs of a test, which are let go when a run has ended."""
    kept: list[Any] = []

    class Kept(training.SFTrainer):
        def __init__(self, *args: Any, **rest: Any) -> None:
            super().__init__(*args, **rest)
            kept.append(self)

    monkeypatch.setattr(training, "SFTrainer", Kept)
    return kept


def logits(model: Any, data: Any) -> Any:
    ids = torch.tensor([data.train[0]["input_ids"]])
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


def test_an_adapter_has_the_trained_logits_in_peft_and_in_our_own_model(
    trained_module: list[Any], settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    chosen = settings(rate=0.1)
    run = train_on(chosen, data, tokenizer, tmp_path / "run")
    wanted = logits(trained_module[0].model, data)
    base = transformers.AutoModelForCausalLM.from_pretrained(chosen.model)
    assert not torch.allclose(logits(base, data), wanted, atol=1e-2)  # it has learnt something
    loaded = peft.PeftModel.from_pretrained(base, run.folder)
    torch.testing.assert_close(logits(loaded, data), wanted, atol=1e-5, rtol=0)
    again = transformers.AutoTokenizer.from_pretrained(run.folder)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.chat_template == tokenizer.chat_template


async def test_the_adapter_is_served_as_any_other(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """To its role only: each says what its own weights find likeliest."""
    chosen = settings(rate=0.1)
    run = train_on(chosen, data, tokenizer, tmp_path / "run")
    model = TransformersModel.load(chosen.model, max_tokens=8)
    version = await model.load_adapter("counter", run.folder)
    assert version.rank == 4
    base = transformers.AutoModelForCausalLM.from_pretrained(chosen.model)
    likeliest = {}
    for role in ("nobody", "counter"):
        if role == "counter":
            base = peft.PeftModel.from_pretrained(base, run.folder).eval()
        said = await model.session(role).generate([Message("0?")], sampling=Sampling(temperature=0))
        assert said.tokens is not None
        with torch.no_grad():
            logits = base(input_ids=torch.tensor([said.tokens.given])).logits
        likeliest[role] = int(logits[0, -1].argmax())
        assert said.tokens.sampled[0] == likeliest[role]
    await model.aclose()
    assert likeliest["counter"] != likeliest["nobody"]


def test_a_whole_model_is_loaded_with_the_trained_logits(
    trained_module: list[Any], settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    chosen = settings(method="full", rank=None, rate=1e-3)
    run = train_on(chosen, data, tokenizer, tmp_path / "run")
    model = TransformersModel.load(run.folder)
    wanted = logits(trained_module[0].model, data)
    torch.testing.assert_close(logits(model.module, data), wanted, atol=1e-5, rtol=0)
    base = transformers.AutoModelForCausalLM.from_pretrained(chosen.model)
    assert not torch.allclose(logits(base, data), wanted, atol=1e-2)


def test_patience_ends_a_run_and_keeps_the_best_weights(
    trained_module: list[Any], settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """The evaluation data says the contrary of what is trained, so it only gets worse."""
    contrary = []
    for row in data.eval:
        labels = [(n + 1) % 250 if n != -100 else n for n in row["labels"]]
        contrary.append({"input_ids": row["input_ids"], "labels": labels})
    held_out = datasets.Dataset.from_list(contrary)
    chosen = settings(patience=2, eval_steps=1, save_steps=50, epochs=5.0, keep=1, warm_up=0.0)
    both = SimpleNamespace(train=data.train, eval=held_out)
    run = train_on(chosen, both, tokenizer, tmp_path / "run")
    assert run.summary is not None
    assert run.summary.ended == "patience"
    losses = [line.eval_loss for line in read_log(run.folder)]
    best = losses.index(min(losses, key=float)) + 1  # type: ignore[arg-type]
    assert len(losses) == best + 2 < run.summary.planned_steps
    assert run.summary.best_step == best
    assert run.summary.eval_loss == losses[best - 1]
    assert Checkpoints(run.folder).is_good(best)  # kept, whatever `keep` is
    trainer = trained_module[0]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(losses[best - 1])
    saved = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(chosen.model), run.folder
    )
    torch.testing.assert_close(logits(saved, data), logits(trainer.model, data), atol=1e-5, rtol=0)


def test_a_bf16_base_that_is_trained_whole_is_saved_as_bf16(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """It is trained in float32, and kept in the size that it came in."""
    base = transformers.AutoModelForCausalLM.from_pretrained(settings().model)
    base.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    tokenizer.save_pretrained(tmp_path / "half")
    chosen = settings(model=str(tmp_path / "half"), method="full", rank=None, max_steps=1)
    run = train_on(chosen, data, tokenizer, tmp_path / "run")
    saved = transformers.AutoModelForCausalLM.from_pretrained(run.folder)
    assert saved.dtype == torch.bfloat16
