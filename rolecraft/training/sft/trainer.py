"""TRL's trainer, with what an unattended run needs beside it.

What is added: checkpoints that are whole or not there; an end at numbers that are not finite,
before they reach the weights; an evaluation loss that is a mean over tokens, whatever the batches;
counts that go on after a resume. Nothing is sent anywhere, and no model card is written on the way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.models.torch_extra import torch, transformers
from rolecraft.training.checkpoints import CheckpointError, Checkpoints, disk_error
from rolecraft.training.sft.libraries import SFTTrainer, trl
from rolecraft.training.sft.loading import Device
from rolecraft.training.sft.out_of_memory import FitsIntoMemory
from rolecraft.training.sft.rows import (
    NOT_TRAINED,
    SAMPLES,
    TOKENS,
    Counting,
    PackedRows,
    check_packing,
    pack,
)
from rolecraft.training.sft.settings import SFTSettings

Warn = Callable[[str], None]

CARD = "README.md"
HALVINGS = "auto_batch.json"
"""In a checkpoint: how often micro-batches were halved by then."""


class NotFinite(RolecraftError):
    """A loss or gradient was NaN or infinite. The weights were not changed by it.

    Attributes: `step` (of the optimiser, from 1), `rows` (numbers of the samples in the training
    data, from 0, or of packed rows).
    """

    def __init__(self, what: str, step: int, rows: list[int], beginning: str) -> None:
        self.step, self.rows = step, rows
        named = ", ".join(map(str, rows)) or "unknown"
        super().__init__(
            f"{what} at step {step}, in the batch of the prepared samples {named}, which begins "
            f"{beginning!r}. Training stops at once; the weights and the last checkpoint are as "
            f"they were before. Look at these samples; if they are sound, begin in another folder "
            f"with a lower `rate`, or with `precision='fp32'`."
        )


def arguments(settings: SFTSettings, device: Device, folder: Path, *, evaluates: bool) -> Any:
    """The settings in TRL's words."""
    known = {field.name for field in fields(trl.SFTConfig)}
    # transformers is renaming it, and warns of the old name where it has the new one.
    twice = "activation_checkpointing"
    twice = twice if twice in known else "gradient_checkpointing"
    return trl.SFTConfig(
        **{twice: settings.gradient_checkpointing},
        output_dir=str(folder),
        per_device_train_batch_size=settings.batch,
        per_device_eval_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        learning_rate=settings.peak_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warm_up,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        bf16=device.bf16,
        use_cpu=device.name == "cpu",
        dataloader_pin_memory=device.name != "cpu",
        logging_strategy="steps",
        logging_steps=settings.log_steps,
        logging_first_step=True,
        logging_nan_inf_filter=False,  # it would hide them: see `NotFinite`
        eval_strategy="steps" if evaluates else "no",
        eval_steps=settings.eval_steps,
        metric_for_best_model="loss" if evaluates else None,
        greater_is_better=False,
        save_strategy="steps",
        save_steps=settings.save_steps,
        max_length=settings.max_length,
        packing=settings.packing,
        dataset_kwargs={"skip_prepare_dataset": True},  # it comes prepared
        seed=settings.seed,
        data_seed=settings.seed,
        report_to="none",
        disable_tqdm=True,
    )


class SFTrainer(FitsIntoMemory, SFTTrainer):  # type: ignore[misc]  # TRL has no types
    """Trains `model` on prepared data, and keeps its checkpoints in `checkpoints`.

    `instead` says which options take less memory, for an error.
    """

    data_collator: Any

    def __init__(
        self,
        settings: SFTSettings,
        device: Device,
        model: Any,
        tokenizer: Any,
        *,
        train: Any,
        evaluation: Any | None,
        checkpoints: Checkpoints,
        warn: Warn,
        note: Warn = lambda text: None,
        instead: Callable[[], str] = lambda: "",
    ) -> None:
        self.auto_batch, self.on_halved, self.instead = settings.auto_batch, warn, instead
        self.settings, self.checkpoints = settings, checkpoints
        self._warn, self._note = warn, note
        self.tokens = self.samples = 0
        """Trained on since the run began, on all devices."""
        self._fresh = torch.zeros(2, dtype=torch.long)
        """Tokens and samples of this device since they were last added up."""
        self.before_checkpoint: Callable[[], None] = lambda: None
        self._unsaved = 0
        self._eval_sum = torch.zeros(2, dtype=torch.float64)
        self._staging: Path | None = None
        if settings.packing:
            train = pack(train, settings.max_length)
            evaluation = evaluation and pack(evaluation, settings.max_length)
        super().__init__(
            model=model,
            args=arguments(
                settings, device, checkpoints.folder.parent, evaluates=evaluation is not None
            ),
            processing_class=tokenizer,
            train_dataset=train,
            eval_dataset=evaluation,
        )
        collate: Any = self.data_collator
        if settings.packing:
            if device.attention != "flash_attention_2":
                collate = PackedRows(tokenizer.pad_token_id)
            check_packing(self.model, collate)
        self.data_collator = Counting(collate)
        self.remove_callback(transformers.PrinterCallback)

    # --- numbers that are not finite ---------------------------------------------------------

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._fresh += torch.tensor([inputs.pop(TOKENS), inputs.pop(SAMPLES)])
        ids = inputs["input_ids"]
        loss = super().training_step(model, inputs, *args, **kwargs)
        if not math.isfinite(loss.item()):
            raise self._not_finite(f"The loss is {loss.item()}", ids)
        self._last_ids = ids
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if norm is not None and not math.isfinite(float(norm)):
            raise self._not_finite(f"The norm of the gradient is {float(norm)}", self._last_ids)
        return norm

    def _not_finite(self, what: str, ids_RT: Any) -> NotFinite:
        pad = self._tokenizer.pad_token_id
        rows = [row.tolist() for row in ids_RT.cpu()]
        width = len(rows[0])
        found = [
            index
            for index, ids in enumerate(self.train_dataset["input_ids"])
            if len(ids) <= width and [*ids, *[pad] * (width - len(ids))] in rows
        ]
        beginning = self._tokenizer.decode(rows[0][:60])
        return NotFinite(what, self.state.global_step + 1, found, beginning)

    # --- counts and losses -------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:  # a line of training: all devices get here at once
            fresh = self.accelerator.reduce(self._fresh.to(self.accelerator.device), "sum")
            self._fresh = torch.zeros_like(self._fresh)
            self.tokens += int(fresh[0])
            self.samples += int(fresh[1])
        super().log(logs, start_time)

    def anywhere(self, here: bool) -> bool:
        """Whether it is so in any process: what ends a run must end it everywhere at once."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor([int(here)], device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum").item())

    def prediction_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        inputs.pop(TOKENS), inputs.pop(SAMPLES)
        result = super().prediction_step(model, inputs, *args, **kwargs)
        count = int((inputs["labels"][:, 1:] != NOT_TRAINED).sum())
        self._eval_sum += torch.tensor([float(result[0]) * count, count], dtype=torch.float64)
        return result

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """The loss that it reports is the mean over all trained tokens.

        transformers' own is a mean of the batches' means, which depends on how samples fall into
        batches, and so on packing.
        """
        self._eval_sum = torch.zeros_like(self._eval_sum)
        output = super().evaluation_loop(*args, **kwargs)
        device = self.accelerator.device
        total, count = self.accelerator.reduce(self._eval_sum.to(device), "sum").tolist()
        prefix = kwargs.get("metric_key_prefix", "eval")
        output.metrics[f"{prefix}_loss"] = total / count if count else math.nan
        return output

    # --- checkpoints -------------------------------------------------------------------------

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write one; where the disk does not take it, go on once.

        The run goes on without the checkpoint, since room may be made meanwhile; the second time in
        a row it stops, since all that it still computes could be lost.
        """
        self.before_checkpoint()
        step = self.state.global_step
        try:
            if self.accelerator.num_processes > 1:
                self._save_together(model, trial, step)
            else:
                with self.checkpoints.write(step) as staging:
                    self._write_checkpoint(model, trial, staging)
                    self._move_up(staging)
        except CheckpointError as error:
            self._unsaved += 1
            if self._unsaved > 1:
                raise
            self._warn(
                f"{error} Training goes on; it stops if the next checkpoint cannot be written "
                f"either. Make room."
            )
            return
        self._unsaved = 0
        if self.is_world_process_zero():
            best = self.state.best_global_step
            self.checkpoints.prune(self.settings.keep, at=step, best=best)

    def _save_together(self, model: Any, trial: Any, step: int) -> None:
        """With several processes, each of which writes its own random state.

        Each part of it fails in all of them or in none: one that went on alone, or stopped alone,
        would wait for the others, or they for it. None begins a part before all have ended the one
        before: files are moved when the last process has written its own.
        """
        checkpoints, first = self.checkpoints, self.is_world_process_zero()
        staging = checkpoints.staging(step)
        parts: tuple[Callable[[], object], ...] = (
            lambda: checkpoints.begin(step) if first else None,
            lambda: self._write_checkpoint(model, trial, staging),
            lambda: self._move_up(staging) if first else None,
            lambda: checkpoints.finish(step) if first else None,
        )
        for part in parts:
            reason = ""
            try:
                part()
            except Exception as error:
                reason = disk_error(error)
                if not reason:
                    raise
            if self.anywhere(bool(reason)):
                written = checkpoints.discard(step) if first else 0
                reason = reason or "another process of the run found no room for its part"
                raise checkpoints.error(step, reason, written=written)

    def _write_checkpoint(self, model: Any, trial: Any, staging: Path) -> None:
        # transformers writes a folder `checkpoint-N` into the one it is told: see `_move_up`.
        self._staging = staging
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._staging = None
        if self.state.best_global_step:
            self.state.best_model_checkpoint = str(
                self.checkpoints.path(self.state.best_global_step)
            )

    def _move_up(self, staging: Path) -> None:
        """What transformers wrote into a folder of its own becomes the checkpoint's files."""
        inner = staging / f"checkpoint-{self.state.global_step}"
        (inner / CARD).unlink(missing_ok=True)  # peft's, a form that nobody has filled in
        self._keep_halvings(inner)
        self.state.save_to_json(str(inner / "trainer_state.json"))
        for path in inner.iterdir():
            path.rename(staging / path.name)
        inner.rmdir()

    def _keep_halvings(self, folder: Path) -> None:
        if self.halvings:
            (folder / HALVINGS).write_text(json.dumps({"halvings": self.halvings}), "utf-8")

    def go_on_as(self, checkpoint: Path) -> None:
        """Take the micro-batches of a run that goes on from `checkpoint`.

        Those of that very step: if memory ran out later, it runs out there again, and the result is
        that of a run that was not interrupted.
        """
        path = checkpoint / HALVINGS
        if self.auto_batch and path.is_file():
            self.halvings = int(json.loads(path.read_text("utf-8"))["halvings"])
            self._note(
                f"Micro-batches are computed in {2**self.halvings} parts, as they were: memory had "
                f"run out before."
            )

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._staging) if self._staging else str(super()._get_output_dir(trial))

    def load_best(self) -> int | None:
        """Take the weights of the best evaluation, and say which step's they are."""
        best: int | None = self.state.best_global_step
        if not best or best == self.state.global_step:
            return None
        if not self.checkpoints.is_good(best):
            self._warn(
                f"The evaluation was best at step {best}, and its checkpoint is gone or damaged: "
                f"the last weights are kept."
            )
            return None
        self._load_from_checkpoint(str(self.checkpoints.path(best)))
        return best

    # --- what it would do besides ------------------------------------------------------------

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """None for each checkpoint: the result has one."""

    def _send_telemetry(self) -> None:
        """Nothing is sent."""
