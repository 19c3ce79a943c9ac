"""One adapter, or one model, from prepared data to the files it is saved in.

Invariant: what is made is a function of the settings, the data and the base model. A run that was
killed at any moment and resumed makes, on a CPU, the same bytes as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from rolecraft.errors import ModelError, UsageError
from rolecraft.models.torch_extra import no_progress_bars, torch, transformers
from rolecraft.training.checkpoints import Checkpoint, Checkpoints, disk_errors
from rolecraft.training.device_memory import measure
from rolecraft.training.model_card import Run, write_card
from rolecraft.training.ranks import is_first_process
from rolecraft.training.sft.curve import CURVE, draw_curve
from rolecraft.training.sft.listener import Listener
from rolecraft.training.sft.loading import (
    Device,
    check_adapter,
    choose_device,
    load_model,
    name_base,
    with_adapter,
)
from rolecraft.training.sft.memory_plan import next_smaller
from rolecraft.training.sft.reporting import Patience, Reporter, Stopping
from rolecraft.training.sft.rows import NOT_TRAINED
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.summary import Ended, Summary, Trained, summarise
from rolecraft.training.sft.trainer import SFTrainer


class TrainingData(Protocol):
    """Prepared samples: `input_ids`, and `labels` that are -100 where nothing is trained."""

    @property
    def train(self) -> Any: ...

    @property
    def eval(self) -> Any | None: ...


def train_on(
    settings: SFTSettings,
    data: TrainingData,
    tokenizer: Any,
    folder: Path,
    *,
    base: str | Path | None = None,
    role: str | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    made_by: Sequence[str] = (),
) -> Trained:
    """Fine-tune on prepared data, and write all that comes of it to `folder`.

    `base` is where the weights are, if not at `settings.model`. `resume` goes on from the last
    checkpoint that is whole, or begins where there is none. `stop` is asked after each step: where
    it says so, the run ends there with a checkpoint. `made_by` is the command line that the model
    card names.

    Raises `UsageError` for nothing to train on and for a folder with checkpoints that is not to be
    resumed, `AdapterError` for an adapter of another base, `OutOfMemory`, `NotFinite` for numbers
    that are not finite, and `CheckpointError` for a disk that takes nothing more.
    """
    listener = listener or Listener()
    if resume and (summary := Summary.load(folder)) is not None:
        return Trained(role, folder, summary)
    check_samples(data)
    if settings.patience is not None and data.eval is None:
        raise UsageError(
            "`patience` counts evaluations, and no sample fell into the evaluation's share. Raise "
            "`eval_share`, or leave `patience` out."
        )
    device = choose_device(settings)
    source = settings.model if base is None else base
    check_adapter(settings, source)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = Checkpoints(folder, listener.warn)
    if checkpoints.all() and not resume:
        raise UsageError(f"`{folder}` has checkpoints of a run. Resume it, or name another folder.")
    begin = _beginning(checkpoints, listener) if resume else None

    transformers.set_seed(settings.seed)
    trainer = SFTrainer(
        settings,
        device,
        with_adapter(settings, load_model(settings, device, source)),
        tokenizer,
        train=data.train,
        evaluation=data.eval,
        checkpoints=checkpoints,
        warn=listener.warn,
        note=listener.note,
        instead=lambda: _smaller(settings, source, device),
    )
    trainer.resumable = lambda: checkpoints.last_good() is not None
    for memory in measure():
        listener.note(f"Measured, with the model loaded: {memory.in_words()}.")
    if begin is not None:
        trainer.go_on_as(begin.path)
    if trainer.anywhere(stop()):
        return Trained(role, folder, None)
    with Reporter(trainer, folder, begin.step if begin else 0, role, listener) as reporter:
        patience = Patience(settings.patience)
        trainer.add_callback(reporter)
        trainer.add_callback(patience)
        trainer.add_callback(Stopping(lambda: trainer.anywhere(stop())))
        trainer.train(resume_from_checkpoint=str(begin.path) if begin else None)
        reporter.write()
        state = trainer.state
        ended: Ended = "patience" if patience.exhausted(state) else "finished"
        if ended == "finished" and state.global_step < state.max_steps:
            return Trained(role, folder, None)
        best = trainer.load_best() if settings.patience else None
        if trainer.is_world_process_zero():
            summary = summarise(
                reporter.lines,
                ended=ended,
                train_samples=len(data.train),
                eval_samples=len(data.eval or ()),
                best_step=best,
            )
            with disk_errors(folder, "The result"):
                _save(settings, trainer, tokenizer, folder, source)
                draw_curve(reporter.lines, folder / CURVE, title=role or "")
                asked = settings.record() | {"rate": settings.peak_rate}
                run = replace(Run.read(folder), settings=asked, summary=summary.record())
                write_card(folder, base=settings.model, made_by=made_by, run=run)
                summary.save(folder)
    trainer.accelerator.wait_for_everyone()
    return Trained(role, folder, Summary.load(folder))


def check_samples(data: TrainingData) -> None:
    """Raise `UsageError` if there is nothing to learn from."""
    if not len(data.train):
        raise UsageError(
            "There is nothing to train on: no sample is left. Look at what was left out and why, "
            "or raise `max_length`."
        )
    labels = data.train["labels"]
    if not any(label != NOT_TRAINED for sample in labels for label in sample[1:]):
        raise UsageError(
            f"There is nothing to train on: none of the {len(data.train)} samples has a token that "
            f"is trained. Look at the roles, and at who speaks in the data."
        )


def _smaller(settings: SFTSettings, source: str | Path, device: Device) -> str:
    try:
        return next_smaller(settings, source, device)
    except ModelError:
        return ""  # nothing is known of its sizes, and so of what takes less


def _beginning(checkpoints: Checkpoints, listener: Listener) -> Checkpoint | None:
    if is_first_process():
        checkpoints.clean()
    begin = checkpoints.last_good()
    if begin is None:
        listener.note("There is no checkpoint to go on from: training begins anew.")
    else:
        listener.note(f"Training goes on from `{begin.path}`.")
    return begin


def _save(
    settings: SFTSettings, trainer: SFTrainer, tokenizer: Any, folder: Path, source: str | Path
) -> None:
    """Write the adapter or the model, and its tokenizer, as `from_pretrained` reads them."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    with no_progress_bars():
        if settings.method == "full":
            # Trained in float32; kept as the base was.
            config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
            dtype = config.dtype or torch.float32
            model.to(dtype).save_pretrained(folder)
        else:
            model.save_pretrained(folder)
            name_base(folder, settings.model)
        tokenizer.save_pretrained(folder)
