"""A tiny base model, samples it can learn, and settings, for the tests of running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.training.sft.listener import Listener
from rolecraft.training.sft.log import LogLine
from rolecraft.training.sft.settings import SFTSettings


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and its tokenizer."""
    from rolecraft.models.tiny_chat import tiny_chat_model
    from rolecraft.models.torch_extra import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("base") / "tiny"
    tiny_chat_model(hidden=32, heads=2).save(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(base: Path) -> Any:
    from rolecraft.training.sft.loading import load_tokenizer

    return load_tokenizer(base, pytest.fail)


def sample(tokenizer: Any, number: int) -> dict[str, list[int]]:
    """Says a digit so many times; asked which one."""
    asked = f"<|im_start|>user\n{number % 3}?<|im_end|>\n<|im_start|>assistant\n"
    prompt = tokenizer.encode(asked)
    answer = [*tokenizer.encode(str(number % 3) * (1 + number % 4)), tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


@pytest.fixture(scope="session")
def data(tokenizer: Any) -> SimpleNamespace:
    """16 samples to train on, and 4 to evaluate on."""
    from rolecraft.training.sft.libraries import datasets

    samples = [sample(tokenizer, number) for number in range(20)]
    train, held_out = samples[:16], samples[16:]
    return SimpleNamespace(
        train=datasets.Dataset.from_list(train), eval=datasets.Dataset.from_list(held_out)
    )


Settings = Callable[..., SFTSettings]


@pytest.fixture(scope="session")
def settings(base: Path) -> Settings:
    """Of 8 steps, with evaluations at 3 and 6 and checkpoints at 4 and 8."""

    def make(**changes: Any) -> SFTSettings:
        values: dict[str, Any] = {
            "model": str(base),
            "data": ("in memory",),
            "output": Path("unused"),
            "batch": 2,
            "accumulate": 2,
            "rate": 3e-2,
            "eval_steps": 3,
            "save_steps": 4,
            "rank": 4,
        }
        return SFTSettings(**values | changes)

    return make


class Heard(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def line(self, line: LogLine) -> None:
        self.lines.append(line)


@pytest.fixture
def heard() -> Heard:
    return Heard()
