"""Memory that runs out in a run of ours, packed or not: smaller batches, the same steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.models.torch_extra import torch
from rolecraft.training.sft import training
from rolecraft.training.sft.log import TIMES, LogLine
from rolecraft.training.sft.out_of_memory import OutOfMemory
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.training import train_on

Settings = Callable[..., SFTSettings]


@pytest.fixture
def small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for one row at a time."""

    class Small(training.SFTrainer):
        def __init__(self, *args: Any, **rest: Any) -> None:
            super().__init__(*args, **rest)
            self.model.register_forward_pre_hook(self._full, with_kwargs=True)

        def _full(self, module: Any, args: Any, kwargs: Any) -> None:
            if len(kwargs["input_ids"]) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(training, "SFTrainer", Small)


def told(line: LogLine) -> dict[str, Any]:
    return {name: value for name, value in line.record().items() if name not in TIMES}


@pytest.mark.parametrize("packing", [False, True])
def test_a_run_on_a_device_that_is_too_small_takes_the_same_steps(
    settings: Settings,
    data: Any,
    tokenizer: Any,
    tmp_path: Path,
    heard: Any,
    packing: bool,
    request: pytest.FixtureRequest,
) -> None:
    chosen = settings(
        auto_batch=True, packing=packing, max_length=64, max_steps=3, dropout=0.0, batch=2
    )
    only = SimpleNamespace(train=data.train, eval=None)
    wanted: Any = type(heard)()
    train_on(chosen, only, tokenizer, tmp_path / "large", listener=wanted)
    request.getfixturevalue("small_device")
    train_on(chosen, only, tokenizer, tmp_path / "small", listener=heard)
    assert any("micro-batches are computed in 2 parts" in text for text in heard.warnings)
    for mine, theirs in zip(heard.lines, wanted.lines, strict=True):
        here, there = told(mine), told(theirs)
        for name in ("accuracy", "flops"):  # a mean over parts; padding that parts do not have
            here.pop(name), there.pop(name)
        assert here == pytest.approx(there, rel=1e-3)


def test_a_resumed_run_begins_with_the_micro_batches_it_had(
    settings: Settings,
    data: Any,
    tokenizer: Any,
    tmp_path: Path,
    heard: Any,
    request: pytest.FixtureRequest,
) -> None:
    """Else it would run out of memory once more. The result is that of one run."""
    request.getfixturevalue("small_device")
    chosen = settings(auto_batch=True, max_steps=4, save_steps=2)
    only = SimpleNamespace(train=data.train, eval=None)
    train_on(chosen, only, tokenizer, tmp_path / "whole")
    steps: Any = type(heard)()
    stop = lambda: len(steps.lines) >= 1  # noqa: E731  # a line is told as the next step begins
    stopped = train_on(chosen, only, tokenizer, tmp_path / "run", listener=steps, stop=stop)
    assert stopped.summary is None
    again = train_on(chosen, only, tokenizer, tmp_path / "run", listener=heard, resume=True)
    assert again.summary is not None
    assert not [text for text in heard.warnings if "Out of memory" in text]
    assert any("computed in 2 parts, as they were" in text for text in heard.notes)
    of_both = [tmp_path / name / "adapter_model.safetensors" for name in ("run", "whole")]
    assert of_both[0].read_bytes() == of_both[1].read_bytes()


def test_without_it_the_error_names_the_shapes_and_the_way_out(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, small_device: None
) -> None:
    with pytest.raises(OutOfMemory, match="micro-batch of 2 x") as caught:
        train_on(settings(), data, tokenizer, tmp_path)
    assert "--batch 1 --accumulate 4" in str(caught.value)
    assert "--auto-batch" in str(caught.value)
