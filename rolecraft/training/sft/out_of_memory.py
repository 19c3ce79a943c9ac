"""When a step runs out of memory: what to change, or a run that changes it by itself.

Invariant: however a micro-batch is split, the gradient of a step is the same (to rounding). The
loss is a sum over trained tokens divided by their number in the whole step, so the sums of the
pieces add up; documents that do not see each other may be computed apart. What a failed attempt
left in the gradients is thrown away, and the micro-batches of the step that came before are
computed again: their token ids and random states are kept, which weigh next to nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.models.torch_extra import torch
from rolecraft.training.sft.splitting import halves, longest

MEANT = ("out of memory", "not enough memory", "can't allocate memory", "bad_alloc", "ALLOC_FAILED")
"""Parts of what libraries say of memory in a `RuntimeError`: torch for GPUs and processors, the
C++ library, cuBLAS."""

_LONGEST_REASON = 200
"""Characters of what a library says."""


class OutOfMemory(RolecraftError):
    """A training step did not fit into memory.

    Attributes: `step` (of the optimiser, from 1), `batch` (rows of the micro-batch), `tokens` (all,
    padding included), `longest` (tokens of its longest document), `instead` (the options that take
    less; may be empty).
    """

    def __init__(
        self,
        step: int,
        inputs: Mapping[str, Any],
        reason: str,
        *,
        instead: str,
        auto: bool,
        resumable: bool = False,
    ) -> None:
        self.step, self.instead = step, instead
        self.batch, width = inputs["input_ids"].shape
        self.tokens, self.longest = self.batch * width, longest(inputs)
        super().__init__(
            f"Out of memory at step {step}, in a micro-batch of {self.batch} x {width} tokens "
            f"({self.tokens:,} with padding; the longest sample has {self.longest:,}). "
            f"{_ways(instead, auto=auto, resumable=resumable)}. The last checkpoint is as it was. "
            f"({reason})"
        )


def _ways(instead: str, *, auto: bool, resumable: bool) -> str:
    """What to do. A run that has a checkpoint goes on as it began, but for `--auto-batch`."""
    if resumable:
        new = f"in another folder with {f'`{instead}`' if instead else 'a smaller model'}"
        if auto:
            return f"Begin {new}"
        return (
            f"Go on with `--resume --auto-batch`, which halves micro-batches by itself, or begin "
            f"{new}"
        )
    ways = f"Use `{instead}`" if instead else "Take a smaller model or a larger device"
    return ways if auto else f"{ways}; `--auto-batch` halves micro-batches by itself"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on whatever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in MEANT)


def _reason(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_REASON]


class FitsIntoMemory:
    """A mixin before TRL's `SFTTrainer`: out of memory is a clear error, or a smaller micro-batch.

    With `auto_batch` the micro-batch is halved when memory runs out, for the rest of the run, as
    often as it takes: rows first, then documents that are packed into one row. A single document
    is never cut. `instead` are the options that an error names; `on_halved` is told in words.
    """

    auto_batch: bool = False
    instead: Callable[[], str] = staticmethod(lambda: "")
    resumable: Callable[[], bool] = staticmethod(lambda: False)
    """Whether there is a checkpoint to go on from."""
    on_halved: Callable[[str], None] = staticmethod(lambda text: None)
    halvings: int = 0
    """How often micro-batches are halved now."""

    _before: tuple[tuple[dict[str, Any], Any], ...] = ()
    """The micro-batches of this step that are done, with the random state each began with."""
    _step_of_before: int = -1
    _last: dict[str, Any] | None = None

    def training_step(
        self: Any, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Any:
        if self._step_of_before != self.state.global_step:
            self._before, self._step_of_before = (), self.state.global_step
        self._last = inputs
        start = _random_state() if self.auto_batch else None
        counted = _Counted(self)
        failed = False
        while True:
            try:
                if failed:
                    self._start_again(model, num_items_in_batch)
                    counted.restore()
                    _set_random_state(start)
                loss = self._in_pieces(model, inputs, num_items_in_batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = _reason(error)
            else:
                if self.auto_batch:
                    self._before = (*self._before, (dict(inputs), start))
                return loss
            # Outside the handler: a traceback would hold on to all that the step had made.
            self._halve(inputs, reason, splits=num_items_in_batch is not None)
            failed = True
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def train(self: Any, *args: Any, **kw: Any) -> Any:
        """TRL's, where memory that runs out between the micro-batches is named as well: what the
        optimiser keeps is made in its first step.
        """
        try:
            return super().train(*args, **kw)  # type: ignore[misc]
        except (RuntimeError, MemoryError) as error:
            if self._last is None or not is_out_of_memory(error):
                raise
            raise self._error(self._last, _reason(error)) from error

    def prediction_step(
        self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kw: Any
    ) -> Any:
        with self._named(inputs):
            return super().prediction_step(model, inputs, *args, **kw)  # type: ignore[misc]

    def _in_pieces(self: Any, model: Any, inputs: dict[str, Any], count: Any) -> Any:
        total = None
        for piece in _pieces(inputs, self.halvings):
            loss = super().training_step(model, dict(piece), count)  # type: ignore[misc]
            total = loss if total is None else total + loss
        return total

    def _halve(self: Any, inputs: dict[str, Any], reason: str, *, splits: bool) -> None:
        """Halve what comes from now on. Raises `OutOfMemory` where that is not wanted, or no use.

        Several processes would have to do it together, and one that ran out of memory has left the
        others waiting; without a count of the step's tokens the loss is a mean, which adds up to
        something else.
        """
        all_inputs = [inputs, *(before for before, _ in self._before)]
        now, then = (
            [_shapes(_pieces(each, self.halvings + more)) for each in all_inputs] for more in (0, 1)
        )
        if not (self.auto_batch and splits and self.accelerator.num_processes == 1 and then != now):
            raise self._error(inputs, reason)
        self.halvings += 1
        rows, width = inputs["input_ids"].shape
        self.on_halved(
            f"Out of memory at step {self.state.global_step + 1} with {rows} x {width} tokens: "
            f"micro-batches are computed in {2**self.halvings} parts from now on. Steps see as "
            f"many samples as before, and their gradients are the same."
        )

    def _start_again(self: Any, model: Any, count: Any) -> None:
        """The gradients as they were before the micro-batch that failed."""
        for weight in model.parameters():
            weight.grad = None
        for inputs, state in self._before:
            _set_random_state(state)
            self._in_pieces(model, inputs, count)

    @contextmanager
    def _named(self: Any, inputs: dict[str, Any]) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise self._error(inputs, _reason(error)) from error

    def _error(self: Any, inputs: dict[str, Any], reason: str) -> OutOfMemory:
        return OutOfMemory(
            self.state.global_step + 1,
            inputs,
            reason,
            instead=self.instead(),
            auto=self.auto_batch,
            resumable=self.resumable(),
        )


def _pieces(inputs: dict[str, Any], halvings: int) -> list[dict[str, Any]]:
    """`inputs`, halved so many times. What cannot be halved stays whole."""
    pieces = [inputs]
    for _ in range(halvings):
        pieces = [half for piece in pieces for half in halves(piece)]
    return pieces


def _shapes(pieces: list[dict[str, Any]]) -> list[Any]:
    return [piece["input_ids"].shape for piece in pieces]


class _Counted:
    """What the trainer has counted, to be set back when a step is computed again."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._tokens = getattr(trainer, "_total_train_tokens", 0)
        metrics = getattr(trainer, "_metrics", {}).get("train", {})
        self._metrics = {name: list(values) for name, values in metrics.items()}

    def restore(self) -> None:
        self._trainer._total_train_tokens = self._tokens
        if hasattr(self._trainer, "_metrics"):
            metrics = self._trainer._metrics["train"]
            metrics.clear()
            metrics.update(self._metrics)


def _random_state() -> Any:
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), on_gpus


def _set_random_state(state: Any) -> None:
    here, on_gpus = state
    torch.set_rng_state(here)
    if on_gpus:
        torch.cuda.set_rng_state_all(on_gpus)
