"""The heavy optional libraries of supervised fine-tuning, in one place with a clear error."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rolecraft.errors import MissingExtra


def _needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(name, "train", "Supervised fine-tuning") from error


# None of them has types of its own that mypy could use.
datasets = _needed("datasets")
peft = _needed("peft")
accelerate = _needed("accelerate")
trl = _needed("trl")
SFTTrainer: Any = trl.SFTTrainer
