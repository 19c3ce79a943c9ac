"""One adapter, from prepared samples to its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.errors import AdapterError, ModelError, UsageError
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.torch_extra import transformers
from rolecraft.training.sft import loading
from rolecraft.training.sft.libraries import peft
from rolecraft.training.sft.listener import Listener
from rolecraft.training.sft.loading import Device, load_tokenizer
from rolecraft.training.sft.log import LogLine, read_log
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.summary import Trained, summarise
from rolecraft.training.sft.training import train_on

Settings = Callable[..., SFTSettings]


@pytest.fixture(scope="module")
def run(
    settings: Settings, data: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    return train_on(settings(), data, tokenizer, tmp_path_factory.mktemp("run") / "out")


def test_a_run_learns_and_leaves_everything_in_its_folder(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, heard: Any
) -> None:
    result = train_on(settings(), data, tokenizer, tmp_path / "out", listener=heard)
    assert result.summary is not None
    lines = read_log(result.folder)
    assert [line.step for line in lines] == list(range(1, 9)) == [li.step for li in heard.lines]
    assert lines[-1].loss is not None
    assert lines[0].loss is not None
    assert lines[-1].loss < lines[0].loss - 0.2
    assert [line.step for line in lines if line.eval_loss is not None] == [3, 6, 8]
    assert heard.warnings == []
    assert (result.summary.steps, result.summary.epochs, result.summary.samples) == (8, 2.0, 32)
    assert result.summary.eval_loss == lines[-1].eval_loss
    names = {path.name for path in result.folder.iterdir()}
    assert names >= {
        *("adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "log.jsonl"),
        *("curve.png", "summary.json", "tensorboard", "checkpoints"),
    }
    assert sorted(p.name for p in (result.folder / "checkpoints").iterdir()) == [
        "checkpoint-4",
        "checkpoint-8",
    ]


def test_the_summarys_loss_is_a_mean_over_steps_however_seldom_they_are_logged() -> None:
    """A line is a mean over the steps since the one before: the first, and then each third."""
    losses = {1: 4.0, 4: 2.0, 7: 1.0, 8: 1.0}
    lines = [LogLine(step=step, steps=8, epoch=1.0, loss=loss) for step, loss in losses.items()]
    lines.insert(2, LogLine(step=5, steps=8, epoch=0.6, eval_loss=9.0))
    made = summarise(lines, ended="finished", train_samples=8, eval_samples=1, best_step=None)
    assert made.train_loss == pytest.approx((4 + 3 * 2 + 3 * 1 + 1) / 8)


def test_the_saved_adapter_names_its_base_as_the_user_did(run: Trained, base: Path) -> None:
    config = json.loads((run.folder / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == str(base)


def test_the_model_card_says_what_was_trained_on_what(run: Trained, base: Path) -> None:
    card = (run.folder / "README.md").read_text("utf-8")
    assert "A LoRA adapter, made with Rolecraft" in card
    assert f"base_model: {json.dumps(str(base))}" in card
    assert "- rank: 4" in card
    assert "- alpha: 8" in card  # defaults, too
    assert '- targets: ["down_proj", "gate_proj",' in card
    assert "- train loss: " in card


def test_a_folder_with_checkpoints_is_not_trained_over(
    run: Trained, settings: Settings, data: Any, tokenizer: Any
) -> None:
    with pytest.raises(UsageError, match="has checkpoints of a run"):
        train_on(settings(), data, tokenizer, run.folder)


def test_an_adapter_of_another_rank_or_base_is_refused_before_weights_are_loaded(
    run: Trained, settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    adapter = str(run.folder)
    wrong = settings(adapter=adapter, rank=8)
    with pytest.raises(UsageError, match="has rank 4, and `rank` is 8"):
        train_on(wrong, data, tokenizer, tmp_path / "a")
    wrong = settings(adapter=adapter, rank=None, alpha=99)
    with pytest.raises(UsageError, match="has alpha 8, and `alpha` is 99"):
        train_on(wrong, data, tokenizer, tmp_path / "a")
    other = tmp_path / "wider"
    tiny_chat_model(hidden=48, heads=2).save(other)
    with pytest.raises(AdapterError, match="was trained on"):
        train_on(settings(adapter=adapter, rank=None, model=str(other)), data, tokenizer, tmp_path)


def test_training_goes_on_from_an_adapter_with_its_rank(
    run: Trained, settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, heard: Any
) -> None:
    chosen = settings(adapter=str(run.folder), rank=None)
    again = train_on(chosen, data, tokenizer, tmp_path / "again", listener=heard)
    assert again.summary is not None
    first, before = heard.lines[0].loss, read_log(run.folder)[-1].loss
    assert first is not None
    assert before is not None
    assert first < before + 0.3  # it begins where the other ended
    assert peft.PeftConfig.from_pretrained(again.folder).r == 4


def test_there_must_be_something_to_train_on(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    empty = SimpleNamespace(train=data.train.select([]), eval=None)
    with pytest.raises(UsageError, match="no sample is left"):
        train_on(settings(), empty, tokenizer, tmp_path / "a")
    silent = data.train.map(lambda row: {"labels": [-100] * len(row["labels"])})
    with pytest.raises(UsageError, match="none of the 16 samples has a token that is trained"):
        train_on(settings(), SimpleNamespace(train=silent, eval=None), tokenizer, tmp_path / "b")


def test_a_target_that_the_base_does_not_have_names_those_it_has(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"\['w_q'\] cannot be adapted.*`q_proj`"):
        train_on(settings(targets=("w_q",)), data, tokenizer, tmp_path / "a")


def test_a_tokenizer_without_a_pad_token_pads_with_its_end_and_says_so(
    base: Path, tmp_path: Path
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "no-pad")
    told: list[str] = []
    assert load_tokenizer(tmp_path / "no-pad", told.append).pad_token == "<|im_end|>"
    assert "has no pad token" in told[0]
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path / "neither")
    with pytest.raises(UsageError, match="neither a pad token nor an end token"):
        load_tokenizer(tmp_path / "neither", told.append)


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_each_process_loads_a_quantised_base_to_the_gpu_it_trains_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, rank: int | None
) -> None:
    """accelerate refuses one that is elsewhere. Looked at is what transformers is asked for."""
    asked: dict[str, Any] = {}

    class Asked(Exception):
        pass

    def load(path: str, **options: Any) -> None:
        asked.update(options)
        raise Asked

    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", load)
    monkeypatch.setattr(loading, "_quantisation", lambda settings: None)  # wants a GPU's library
    with pytest.raises(ModelError):
        loading.load_model(settings(method="qlora-4"), Device("cuda", True, "sdpa"), "base")
    assert asked["device_map"] == {"": rank or 0}


def test_a_checkpoint_has_no_card_that_nobody_filled_in(run: Trained) -> None:
    """peft writes one beside every adapter; the result's own says what was trained."""
    (first, *_) = sorted((run.folder / "checkpoints").iterdir())
    assert (first / "adapter_model.safetensors").is_file()
    assert not (first / "README.md").exists()


@pytest.mark.parametrize("at", [2, 3, 8])
def test_a_stop_between_two_lines_of_the_log_is_one_more_line(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path, heard: Any, at: int
) -> None:
    """So that nothing that was counted is lost; the resumed run goes on after it."""
    asked = iter(range(100))  # 0: before the first step
    chosen = settings(log_steps=3, eval_steps=100, save_steps=100)
    stop = lambda: next(asked) >= at  # noqa: E731
    train_on(chosen, data, tokenizer, tmp_path / "run", listener=heard, stop=stop)
    expected = [step for step in (1, 3, 6) if step < at] + [at]
    assert [line.step for line in read_log(tmp_path / "run")] == expected
    assert [line.step for line in heard.lines] == expected
    train_on(chosen, data, tokenizer, tmp_path / "run", resume=True)
    lines = read_log(tmp_path / "run")
    assert [line.step for line in lines] == sorted(
        {*expected, 3, 6, 8} - {s for s in (3, 6) if s < at and s not in expected}
    )
    assert lines[-1].samples == 32


def test_tensorboard_has_each_step_before_a_checkpoint_counts(
    settings: Settings, data: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """Whatever kills the run afterwards."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told: list[list[int]] = []

    class Reads(Listener):
        def line(self, line: LogLine) -> None:
            if line.step == 5:  # after the checkpoint of step 4
                found = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
                told.append([each.step for each in found.Scalars("train/loss")][:4])

    train_on(settings(), data, tokenizer, tmp_path / "run", listener=Reads())
    assert told == [[1, 2, 3, 4]]
