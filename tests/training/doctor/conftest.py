"""Tiny patients for the doctor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch

from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)


@pytest.fixture
def patient() -> TransformersModel:
    return tiny_chat_model(hidden=32, heads=2, for_adapters=True)


@pytest.fixture
def saved_adapter(tmp_path: Path) -> Callable[..., Path]:
    """Writes an adapter of the patient; one that was never trained if asked."""

    def save(name: str, *, zero: bool = False) -> Path:
        module: Any = tiny_chat_model(hidden=32, heads=2, for_adapters=True).module
        config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=zero)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            peft.get_peft_model(module, config).save_pretrained(str(tmp_path / name))
        return tmp_path / name

    return save
