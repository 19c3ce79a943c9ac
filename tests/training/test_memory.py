"""The estimate of a run's memory: what it counts, what it advises, and what a real run takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from rolecraft.errors import ModelError, UsageError
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.device_memory import _groups, free_memory, gib, measure, process_memory
from rolecraft.training.memory import Estimate, Method, Step, estimate
from rolecraft.training.memory_advice import advise, smaller
from rolecraft.training.model_sizes import ModelSizes, read_sizes

MIB, GIB = 1 << 20, 1 << 30

LLAMA_7B = ModelSizes(
    hidden=4096,
    layers=32,
    heads=32,
    key_value_heads=32,
    head=128,
    intermediate=11008,
    vocabulary=32000,
    gated=True,
    tied=False,
    matrices={
        f"model.layers.{layer}.{name}": shape
        for layer in range(32)
        for name, shape in {
            "self_attn.q_proj": (4096, 4096),
            "self_attn.k_proj": (4096, 4096),
            "self_attn.v_proj": (4096, 4096),
            "self_attn.o_proj": (4096, 4096),
            "mlp.gate_proj": (11008, 4096),
            "mlp.up_proj": (11008, 4096),
            "mlp.down_proj": (4096, 11008),
        }.items()
    },
    embeddings=32000 * 4096,
    output=32000 * 4096,
    others=65 * 4096,
    stored=0,
    quantised=False,
)
FOUR_EIGHT: tuple[Method, ...] = ("qlora-4", "qlora-8")
HALF: dict[str, Any] = {"weights": "bfloat16", "compute": "bfloat16", "device": "cuda"}


def llama(folder: Path, **settings: Any) -> Path:
    tokenizer = byte_tokenizer()
    config = transformers.LlamaConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 88,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": 0,
            **settings,
        }
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_seven_billion_model_weighs_what_is_published() -> None:
    """Llama 7B has 6,738,415,616 parameters; AdamW in float32 takes two more numbers for each."""
    assert LLAMA_7B.parameters == 6_738_415_616
    full = estimate(LLAMA_7B, Step(batch=1, length=1, method="full"))
    assert full.parts["weights"] == 4 * 6_738_415_616
    assert full.parts["optimiser"] == 8 * 6_738_415_616
    assert full.parts["gradients"] == 4 * 6_738_415_616
    lora = estimate(LLAMA_7B, Step(batch=1, length=1, rank=8, **HALF))
    assert lora.trained == 19_988_480  # as peft prints it for rank 8 on all linear layers
    nf4 = estimate(LLAMA_7B, Step(batch=1, length=1, rank=64, method="qlora-4", **HALF))
    # Dettmers et al. state 5.0 GB for all of a 7B model's adapters and its 4-bit base.
    assert 3.0 < nf4.parts["weights"] / GIB < 5.0


def test_every_wish_for_more_costs_more_and_checkpointing_costs_less() -> None:
    step = Step(batch=4, length=1024, **HALF)
    total = estimate(LLAMA_7B, step).total
    more: dict[str, Any]
    for more in (
        {"batch": 8},
        {"length": 2048},
        {"rank": 64},
        {"attention": "eager"},
        {"method": "full"},
        {"weights": "float32"},
        {"dropout": 0.05},
    ):
        assert estimate(LLAMA_7B, replace(step, **more)).total > total, more
    less: dict[str, Any]
    for less in (
        {"gradient_checkpointing": True},
        {"method": "qlora-8"},
        {"attention": "flash_attention_2"},
        {"targets": ("q_proj", "v_proj")},
    ):
        assert estimate(LLAMA_7B, replace(step, **less)).total < total, less
    four, eight = (estimate(LLAMA_7B, replace(step, method=name)).total for name in FOUR_EIGHT)
    assert four < eight


def test_sizes_are_told_in_gib_and_small_ones_in_mib() -> None:
    told = [gib(size) for size in (3 << 20, 0.5 * GIB, 2.345 * GIB, 1234 * GIB)]
    assert told == ["3 MiB", "0.5 GiB", "2.35 GiB", "1234 GiB"]


def test_the_parts_add_up_and_are_named_in_gib() -> None:
    found = estimate(LLAMA_7B, Step(batch=1, length=512))
    figures = found.in_gib()
    assert set(figures) == {
        *("weights", "gradients", "optimiser", "activations", "logits", "reserve", "total")
    }
    total = figures.pop("total")
    assert sum(figures.values()) == pytest.approx(total)
    assert f"about {total:.3g} GiB" in found.in_words()


def test_a_run_that_does_not_fit_names_the_options_that_make_it_fit() -> None:
    step = Step(batch=8, length=2048, accumulate=2, **HALF)
    fits = advise(LLAMA_7B, step, 1 << 50)
    assert (fits.fits, fits.flags, fits.instead) == (True, "", None)
    smaller_batch = advise(LLAMA_7B, step, estimate(LLAMA_7B, replace(step, batch=4)).total)
    assert smaller_batch.flags == "--batch 4 --accumulate 4"
    assert "It fits with `--batch 4 --accumulate 4`" in smaller_batch.in_words()
    checkpointed = advise(LLAMA_7B, step, 24 * GIB)
    assert "--gradient-checkpointing" in checkpointed.flags
    four_bits = advise(LLAMA_7B, step, 12 * GIB)
    assert four_bits.flags.endswith("--method qlora-8")
    lighter = advise(LLAMA_7B, replace(step, method="full"), 30 * GIB)
    assert "--method lora" in lighter.flags
    nothing = advise(LLAMA_7B, step, GIB)
    assert (nothing.fits, nothing.flags) == (False, "")
    assert "take a smaller model or device" in nothing.in_words()
    for advice in (smaller_batch, checkpointed, four_bits, lighter):
        assert advice.instead is not None
        assert advice.instead.total <= advice.free < advice.wanted.total
        after = advice.instead.step
        assert after.batch * after.accumulate == step.batch * step.accumulate


def test_after_running_out_there_is_always_a_smaller_setting_until_there_is_none() -> None:
    step: Step | None = Step(batch=4, length=1024, method="full")
    seen: list[Estimate] = []
    while step is not None:
        seen.append(estimate(LLAMA_7B, step))
        step = smaller(LLAMA_7B, step)
    totals = [each.total for each in seen]
    assert totals == sorted(set(totals), reverse=True)
    assert seen[-1].step.method == "lora"  # 4 bits want a GPU
    assert seen[-1].step.batch * seen[-1].step.accumulate >= 4


def test_sizes_are_those_of_the_loaded_model(tmp_path: Path) -> None:
    for number, settings in enumerate(({}, {"tie_word_embeddings": True, "attention_bias": True})):
        folder = llama(tmp_path / str(number), **settings)
        module = transformers.AutoModelForCausalLM.from_pretrained(folder)
        sizes = read_sizes(folder)
        assert sizes.parameters == sum(weight.numel() for weight in module.parameters())
        assert sizes.tied == bool(settings)
        assert sizes.matrices["model.layers.1.mlp.down_proj"] == (32, 88)
        assert (sizes.gated, sizes.query, sizes.key) == (True, 32, 16)
        assert sizes.stored == 4 * sizes.parameters


def test_gpt2s_names_for_its_sizes_are_understood(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    module = transformers.GPT2LMHeadModel(config)
    module.save_pretrained(tmp_path)
    sizes = read_sizes(tmp_path)
    assert sizes.parameters == sum(weight.numel() for weight in module.parameters())
    assert (sizes.hidden, sizes.layers, sizes.intermediate, sizes.gated) == (32, 2, 128, False)


def test_a_folder_without_a_model_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no settings of a model"):
        read_sizes(tmp_path)
    folder = llama(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"\x10")
    with pytest.raises(ModelError, match=r"`.*model\.safetensors` cannot be read"):
        read_sizes(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no `\*\.safetensors` file"):
        read_sizes(folder)
    with pytest.raises(UsageError, match="`batch` wants a whole number from 1, got 0"):
        Step(batch=0, length=1)


def test_free_memory_is_what_the_tightest_control_group_allows(tmp_path: Path) -> None:
    """Version 1 and 2, the process's own group and those above it; no limit is no answer."""
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    for name, text in {
        "memory.max": "1000",
        "memory.current": "700",
        "memory.stat": "anon 1\ninactive_file 200",
    }.items():
        (tmp_path / "a" / name).write_text(text)
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    assert _groups(tmp_path, own) == [(1000, 500)]
    first = tmp_path / "memory/c"
    first.mkdir(parents=True)
    for name, text in {
        "memory.limit_in_bytes": "3000",
        "memory.usage_in_bytes": "100",
        "memory.stat": "total_inactive_file 40",
    }.items():
        (first / name).write_text(text)
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712")
    own.write_text("4:memory:/c\n3:cpu:/\n")
    assert _groups(tmp_path, own) == [(3000, 60)]
    assert _groups(tmp_path, tmp_path / "none") == []


def test_what_is_measured_is_this_process_and_this_machine() -> None:
    [here] = measure(["cpu"])
    assert 0 < here.allocated <= here.peak <= here.total
    assert 0 < here.free < here.total
    assert gib(here.total) in here.in_words()
    # An estimate counts tensors: this is more, and says so.
    assert "program and libraries included" in here.in_words()
    held = bytearray(os.urandom(1)) * (256 * MIB)
    assert process_memory("VmRSS") >= here.allocated + 200 * MIB
    assert free_memory("cpu") > 0
    del held


MEASURED = """
import json, sys
import datasets, peft, torch, transformers, trl
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.device_memory import process_memory

torch.set_num_threads(1)

def train(folder, out, *, batch, length, method="lora", accumulate=1, steps=2, dropout=0.0,
          attention="sdpa", gradient_checkpointing=False):
    rows = [[7] * (length // (1 + n % 2)) for n in range(batch * accumulate * steps)]
    data = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows})
    module = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype="float32", attn_implementation=attention)
    lora = peft.LoraConfig(r=8, target_modules="all-linear", lora_dropout=dropout)
    trl.SFTTrainer(
        model=module, train_dataset=data, processing_class=byte_tokenizer(),
        peft_config=None if method == "full" else lora,
        args=trl.SFTConfig(
            output_dir=out, per_device_train_batch_size=batch, max_steps=steps, bf16=False,
            gradient_accumulation_steps=accumulate, max_length=None, use_cpu=True,
            gradient_checkpointing=gradient_checkpointing, report_to=[], save_strategy="no",
            dataset_kwargs={"skip_prepare_dataset": True}, disable_tqdm=True,
            logging_strategy="no", dataloader_pin_memory=False),
    ).train()

small, folder, out, step = sys.argv[1:]
train(small, out, batch=2, length=16)  # what libraries load once is none of the run's
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # proc(5): sets the peak back to what is held now
before = process_memory("VmRSS")
train(folder, out, **json.loads(step))
print(json.dumps(process_memory("VmHWM") - before))
"""
"""Prints the bytes that the process held at most, on top of what it held before. Large blocks go
back to the system at once (malloc's thresholds below), so that the peak is the tensors'."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(name: str, **settings: Any) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"sizes-{name}"
        return folder if folder.exists() else llama(folder, **settings)

    return make


MIDDLE = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
WIDE = {**MIDDLE, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4}
WORDY = {**MIDDLE, "hidden_size": 256, "intermediate_size": 704, "vocab_size": 30_000}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "step"),
    [
        ("middle", MIDDLE, {"batch": 4, "length": 512}),
        ("middle", MIDDLE, {"batch": 4, "length": 512, "dropout": 0.05}),
        ("middle", MIDDLE, {"batch": 4, "length": 512, "method": "full"}),
        ("middle", MIDDLE, {"batch": 2, "length": 512, "attention": "eager"}),
        ("middle", MIDDLE, {"batch": 8, "length": 512, "gradient_checkpointing": True}),
        ("wide", WIDE, {"batch": 1, "length": 256, "method": "full", "accumulate": 2}),
        ("wordy", WORDY, {"batch": 2, "length": 512}),
    ],
)
def test_the_peak_of_a_real_run_is_within_a_fifth_of_the_estimate(
    models: Callable[..., Path],
    tmp_path: Path,
    name: str,
    sizes: dict[str, int],
    step: dict[str, Any],
) -> None:
    folder = models(name, **sizes)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, models("small"), folder, tmp_path, json.dumps(step)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1",
            "MALLOC_MMAP_THRESHOLD_": "65536",
            "MALLOC_TRIM_THRESHOLD_": "65536",
        },
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    peak = json.loads(done.stdout.splitlines()[-1])
    found = estimate(read_sizes(folder), Step(**step))
    ratio = peak / found.total
    print(f"{ratio:.3f} of {found.in_words()}")
    assert 0.8 <= ratio <= 1.2, (ratio, found.in_words())
