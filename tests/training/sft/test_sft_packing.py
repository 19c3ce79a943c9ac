"""Samples that share a row do not see each other: loss and gradient are those of padded batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch, transformers
from rolecraft.training.checkpoints import Checkpoints
from rolecraft.training.sft.libraries import datasets
from rolecraft.training.sft.loading import choose_device, load_model, with_adapter
from rolecraft.training.sft.rows import PackedRows, check_packing, pack
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.trainer import SFTrainer

Settings = Callable[..., SFTSettings]


def nll(model: Any, batch: dict[str, Any]) -> Any:
    """Negative log-likelihood of each trained token, sorted: one order for every arrangement."""
    labels = batch.pop("labels")
    with torch.no_grad():
        logits = model(**batch, use_cache=False).logits[:, :-1]
    wanted = labels[:, 1:]
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="none"
    )
    return losses[wanted.flatten() != -100].sort().values


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_loss_is_the_unpacked_loss_of_every_token(
    settings: Settings, data: Any, attention: str, tmp_path: Path, tokenizer: Any
) -> None:
    chosen = settings(attention=attention)
    model = load_model(chosen, choose_device(chosen), chosen.model).eval()
    alone = [
        nll(
            model,
            {
                "input_ids": torch.tensor([row["input_ids"]]),
                "labels": torch.tensor([row["labels"]]),
            },
        )
        for row in data.train
    ]
    rows = list(pack(data.train, 64))
    assert max(len(row["seq_lengths"]) for row in rows) > 1
    assert len({len(row["input_ids"]) for row in rows}) > 1  # some have padding
    packed = nll(model, PackedRows(tokenizer.pad_token_id)(rows))
    torch.testing.assert_close(packed, torch.cat(alone).sort().values, atol=1e-5, rtol=0)


def test_a_step_on_packed_rows_has_the_gradient_of_the_padded_batch(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """Packing changes how samples lie, and nothing about what a step over all of them learns."""

    def step(**changes: Any) -> tuple[float, float]:
        chosen = settings(dropout=0.0, max_steps=1, **changes)
        device = choose_device(chosen)
        trainer = SFTrainer(
            chosen,
            device,
            with_adapter(chosen, load_model(chosen, device, chosen.model)),
            tokenizer,
            train=data.train,
            evaluation=data.eval,
            checkpoints=Checkpoints(tmp_path / str(changes["packing"])),
            warn=pytest.fail,
        )
        trainer.args.save_strategy = transformers.trainer_utils.SaveStrategy.NO
        trainer.train()
        logged = trainer.state.log_history[0]
        return logged["loss"], logged["grad_norm"]

    padded = step(packing=False, batch=16, accumulate=1)
    packed = step(packing=True, batch=100, accumulate=1, max_length=64)
    assert packed == pytest.approx(padded, rel=1e-4)


def test_the_evaluation_loss_does_not_depend_on_batches_or_packing(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    def loss(**changes: Any) -> float:
        chosen = settings(**changes)
        device = choose_device(chosen)
        trainer = SFTrainer(
            chosen,
            device,
            with_adapter(chosen, load_model(chosen, device, chosen.model)),
            tokenizer,
            train=data.train,
            evaluation=data.eval,
            checkpoints=Checkpoints(tmp_path),
            warn=pytest.fail,
        )
        return float(trainer.evaluate()["eval_loss"])

    one = loss(batch=1)
    assert loss(batch=3) == pytest.approx(one, abs=1e-5)
    assert loss(batch=2, packing=True, max_length=64) == pytest.approx(one, abs=1e-5)


def test_a_model_whose_samples_would_see_each_other_is_refused(
    settings: Settings, tokenizer: Any
) -> None:
    """A layer that mixes neighbours whatever the mask says, as a convolution or a state does."""
    chosen = settings()
    model = load_model(chosen, choose_device(chosen), chosen.model)
    check_packing(model, PackedRows(0))

    class Mixing(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            y = self.inner(x)
            return y + y.roll(1, dims=1)

    model.model.layers[0].mlp = Mixing(model.model.layers[0].mlp)
    with pytest.raises(UsageError, match="a sample sees the one before it"):
        check_packing(model, PackedRows(0))


def test_samples_of_very_different_lengths_fill_their_rows() -> None:
    lengths = [3, 60, 10, 30, 5, 50, 20, 40, 2, 62]
    rows = [{"input_ids": [1] * n, "labels": [1] * n} for n in lengths]
    packed = list(pack(datasets.Dataset.from_list(rows), 64))
    assert sorted(n for row in packed for n in row["seq_lengths"]) == sorted(lengths)
    assert all(len(row["input_ids"]) <= 64 for row in packed)
    assert len(packed) <= math.ceil(sum(lengths) / 64) + 1


def test_packed_batches_count_their_samples_and_tokens(tokenizer: Any) -> None:
    from rolecraft.training.sft.rows import SAMPLES, TOKENS, Counting

    rows = [
        {"input_ids": [5] * 5, "labels": [5] * 5, "seq_lengths": [2, 3]},
        {"input_ids": [5] * 4, "labels": [5] * 4, "seq_lengths": [4]},
    ]
    batch = Counting(PackedRows(0))(rows)
    assert (batch[TOKENS], batch[SAMPLES]) == (9, 3)
    assert batch["position_ids"].tolist() == [[0, 1, 0, 1, 2], [0, 1, 2, 3, 0]]
    assert batch["labels"].tolist() == [[-100, 5, -100, 5, 5], [-100, 5, 5, 5, -100]]


def test_nan_is_named_by_its_samples_before_it_reaches_the_weights(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    from rolecraft.training.sft.trainer import NotFinite

    chosen = settings(batch=2, accumulate=1)
    device = choose_device(chosen)
    model = with_adapter(chosen, load_model(chosen, device, chosen.model))
    trainer = SFTrainer(
        chosen,
        device,
        model,
        tokenizer,
        train=data.train,
        evaluation=None,
        checkpoints=Checkpoints(tmp_path),
        warn=pytest.fail,
    )
    with torch.no_grad():
        model.get_input_embeddings().weight[tokenizer.encode("?")[0]] = math.nan
    before = {n: p.clone() for n, p in model.named_parameters() if p.requires_grad}
    with pytest.raises(NotFinite, match=r"The loss is nan at step 1, in the batch .* samples \d"):
        trainer.train()
    for name, value in model.named_parameters():
        assert name not in before or torch.equal(value, before[name])
