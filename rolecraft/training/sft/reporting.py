"""What a run tells while it trains: `log.jsonl`, TensorBoard, and whoever watches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rolecraft.models.torch_extra import transformers
from rolecraft.training.checkpoints import CheckpointError, disk_errors
from rolecraft.training.sft.board import Board
from rolecraft.training.sft.listener import Listener
from rolecraft.training.sft.log import LOG, Log, LogLine, perplexity

if TYPE_CHECKING:
    from rolecraft.training.sft.trainer import SFTrainer


class Reporter(transformers.TrainerCallback):
    """Makes a `LogLine` of each step that is logged, and hands it on.

    A step's evaluation comes after its own numbers; both are one line, which is written before the
    next step begins and before a checkpoint of this one counts.
    """

    def __init__(
        self, trainer: SFTrainer, folder: Path, after: int, role: str | None, listener: Listener
    ) -> None:
        """Of a run in `folder` that goes on after step `after`; 0 begins anew."""
        self._trainer, self._role, self._listener = trainer, role, listener
        self._main = bool(trainer.is_world_process_zero())
        self._log = Log(folder, keep_to=after, warn=listener.warn) if self._main else None
        self._board = Board(folder, after + 1, listener.warn) if self._main else None
        self._pending: dict[str, Any] = {}
        last = self._log.last if self._log else None
        if last is not None:
            trainer.tokens, trainer.samples = last.tokens, last.samples
        self._before = last.seconds if last else 0.0
        self._tokens, self._samples = trainer.tokens, trainer.samples
        self._step, self._start = after, time.monotonic()
        trainer.before_checkpoint = self._before_checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.write()
        if self._board:
            self._board.close()
        if self._log:
            try:
                with disk_errors(self._log.path.parent, f"The end of `{LOG}`"):
                    self._log.close()
            except CheckpointError as unwritten:
                if error is None:
                    raise
                self._listener.warn(str(unwritten))  # what ended the run is the error to see

    @property
    def lines(self) -> list[LogLine]:
        """All lines of the log; none in a process that is not the first."""
        return self._log.lines if self._log else []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step, self._start = state.global_step, time.monotonic()
        if self._main:
            self._listener.begins(self._role, state.max_steps, state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.write()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A step that ends with an evaluation or a checkpoint is logged too, and the last one ends
        with both."""
        if state.global_step >= state.max_steps and args.eval_strategy != "no":
            control.should_evaluate = True
        if control.should_save or control.should_evaluate:
            control.should_log = True
        return control

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **rest: Any
    ) -> None:
        logs = logs or {}
        if "loss" in logs:
            self.write()
            self._pending = self._of_training(state, logs)
        elif "eval_loss" in logs:
            if self._pending.get("step") != state.global_step:
                self._pending = self._of_progress(state)
            loss = logs["eval_loss"]
            self._pending |= {"eval_loss": loss, "eval_perplexity": perplexity(loss)}
            self._pending["eval_accuracy"] = logs.get("eval_mean_token_accuracy")

    def write(self) -> None:
        """Hand on what waits."""
        if not self._pending:
            return
        line = LogLine(**self._pending)
        self._pending = {}
        if self._log and self._board:
            self._log.add(line)
            self._board.add(line)
            self._listener.line(line)

    def _before_checkpoint(self) -> None:
        self.write()
        if self._log and self._board:
            self._log.sync()
            self._board.flush()

    def _of_training(self, state: Any, logs: dict[str, float]) -> dict[str, Any]:
        return self._of_progress(state) | {
            "loss": logs["loss"],
            "perplexity": perplexity(logs["loss"]),
            "accuracy": logs.get("mean_token_accuracy"),
            "learning_rate": logs.get("learning_rate"),
            "grad_norm": logs.get("grad_norm"),
        }

    def _of_progress(self, state: Any) -> dict[str, Any]:
        trainer = self._trainer
        seconds = max(time.monotonic() - self._start, 1e-9)
        steps = state.global_step - self._step
        return {
            "step": state.global_step,
            "steps": state.max_steps,
            "epoch": state.epoch or 0.0,
            "tokens": trainer.tokens,
            "samples": trainer.samples,
            "flops": float(state.total_flos),
            "seconds": self._before + seconds,
            "tokens_per_second": (trainer.tokens - self._tokens) / seconds,
            "samples_per_second": (trainer.samples - self._samples) / seconds,
            "seconds_left": seconds / max(steps, 1) * (state.max_steps - state.global_step),
        }


class Patience(transformers.TrainerCallback):
    """Stop after `patience` evaluations without a better loss, and checkpoint each better one.

    transformers' `EarlyStoppingCallback` counts in memory, so that a resumed run would wait longer;
    this one counts what the state of the run has recorded.
    """

    def __init__(self, patience: int | None) -> None:
        """None: never."""
        self._patience = patience

    def exhausted(self, state: Any) -> bool:
        if self._patience is None:
            return False
        losses = [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]
        if not losses:
            return False
        return len(losses) - 1 - losses.index(min(losses)) >= self._patience

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> Any:
        best, loss = state.best_metric, (metrics or {}).get("eval_loss", math.inf)
        if self._patience and (best is None or loss < best):
            control.should_save = True
        if self.exhausted(state):
            control.should_save = control.should_training_stop = True
        return control


class Stopping(transformers.TrainerCallback):
    """Ends a run after the step under way, with a checkpoint, once it is asked to."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if self._asked():
            control.should_save = control.should_log = control.should_training_stop = True
        return control
