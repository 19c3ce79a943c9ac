"""From the words of a goal to numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel


@runtime_checkable
class Embedding(Protocol):
    """A function from a text to `size` numbers. `name` says which: it is saved with a reward."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def __call__(self, text: str) -> Sequence[float]: ...


class HashingEmbedding:
    """Words, each added with a sign to one of `size` numbers by its hash; of length 1, or 0.

    Needs no model and no download. Goals that share words are near each other; that "cheap" and
    "inexpensive" mean the same, it does not know.
    """

    def __init__(self, size: int = 16) -> None:
        if size < 1:
            raise UsageError(f"`HashingEmbedding(size={size!r})`: it has at least one number.")
        self.size = size

    @property
    def name(self) -> str:
        return f"hashing-{self.size}"

    def __call__(self, text: str) -> Sequence[float]:
        vector = [0.0] * self.size
        for word in re.findall(r"\w+", text.lower()):
            hashed = hash64("goal", word)
            vector[hashed % self.size] += 1.0 if hashed >> 63 else -1.0
        return _of_length_1(vector)


class FunctionEmbedding:
    """Any function from a text to `size` numbers, such as a call of a provider's embedding model.

    What it says is brought to length 1. Raises `UsageError` where it says something else.
    """

    def __init__(self, name: str, size: int, function: Callable[[str], Sequence[float]]) -> None:
        self.name, self.size, self._function = name, size, function

    def __call__(self, text: str) -> Sequence[float]:
        vector = [float(value) for value in self._function(text)]
        if len(vector) != self.size or not all(map(math.isfinite, vector)):
            raise UsageError(
                f"The embedding `{self.name}` gave {len(vector)} numbers for {text!r}; it must "
                f"give {self.size} that are finite."
            )
        return _of_length_1(vector)


class ModelEmbedding(FunctionEmbedding):
    """The mean of a local model's last hidden states over the words of the goal."""

    def __init__(self, model: TransformersModel) -> None:
        self._model = model
        super().__init__(f"hidden-{model.name}", model.module.config.hidden_size, self._states)

    def _states(self, text: str) -> Sequence[float]:
        from rolecraft.rewards.learned._torch import torch

        ids = self._model.tokenizer(text, return_tensors="pt").input_ids
        if not ids.numel():
            return [0.0] * self.size
        with torch.no_grad():
            out = self._model.module(
                ids.to(self._model.module.device), output_hidden_states=True, use_cache=False
            )
        states: list[float] = out.hidden_states[-1][0].double().mean(0).tolist()
        return states


def _of_length_1(vector: Sequence[float]) -> Sequence[float]:
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else list(vector)
