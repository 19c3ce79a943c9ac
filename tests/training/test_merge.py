"""An adapter merged into its base: the same logits, the same files, or one clear error."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors import safe_open

from rolecraft.errors import AdapterError, ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.merge import merge
from rolecraft.training.model_card import digest_of_files, write_card
from rolecraft.training.rl.records import StepRecord, curve_line
from rolecraft.training.same_settings import plain

torch.set_num_threads(1)

TEXT = "What is the capital of France?"


def save_base(folder: Path, *, dtype: Any = torch.float32, **settings: Any) -> Path:
    model = tiny_chat_model(hidden=32, heads=2, seed=1)
    model.save(folder)
    if dtype != torch.float32 or settings:
        model.module.to(dtype).save_pretrained(folder, **settings)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("bases") / "tiny-base")


Make = Callable[..., Path]


@pytest.fixture
def make(base: Path, tmp_path: Path) -> Make:
    def make(name: str = "adapter", *, of: Path = base, scale: float = 0.3, **config: Any) -> Path:
        module = transformers.AutoModelForCausalLM.from_pretrained(of)
        settings = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", **config}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            wrapped = peft.get_peft_model(module, peft.LoraConfig(**settings))
            with torch.no_grad():
                for weight in wrapped.parameters():
                    if weight.requires_grad:
                        weight.add_(torch.randn(weight.shape) * scale)
        wrapped.save_pretrained(str(tmp_path / name))
        return tmp_path / name

    return make


def logits(folder: Path, adapter: Path | None = None) -> Any:
    module: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    if adapter is not None:
        module = peft.PeftModel.from_pretrained(module, str(adapter))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return module.eval()(**tokenizer(TEXT, return_tensors="pt")).logits


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"use_rslora": True, "lora_alpha": 3},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 32}},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {"use_dora": True},
    ],
)
def test_the_merged_model_says_what_base_and_adapter_say(
    base: Path, make: Make, tmp_path: Path, config: dict[str, Any]
) -> None:
    adapter = make(**config)
    merged = merge(adapter, tmp_path / "merged")
    with_adapter, alone = logits(base, adapter), logits(base)
    now = logits(tmp_path / "merged")
    torch.testing.assert_close(now, with_adapter, atol=1e-4, rtol=1e-4)
    assert (now - alone).abs().max() > 0.1
    assert merged.largest < 1e-4 < 0.1 < merged.effect
    assert (merged.dtype, merged.prompts, merged.lost) == ("float32", 4, False)


# peft's, which are true, and what it does about it is right.
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
@pytest.mark.filterwarnings("ignore:Input and output embeddings are no longer tied")
def test_a_model_with_shared_weights_of_which_one_was_trained_is_no_longer_shared(
    make: Make, tmp_path: Path
) -> None:
    tied = save_base(tmp_path / "tied-base")
    config = json.loads((tied / "config.json").read_text()) | {"tie_word_embeddings": True}
    (tied / "config.json").write_text(json.dumps(config))
    transformers.AutoModelForCausalLM.from_pretrained(tied).save_pretrained(tied)
    adapter = make(of=tied, target_modules=["q_proj"], modules_to_save=["lm_head"])
    merge(adapter, tmp_path / "merged")
    torch.testing.assert_close(
        logits(tmp_path / "merged"), logits(tied, adapter), atol=1e-4, rtol=1e-4
    )


def test_the_number_format_is_the_bases_and_the_rounding_is_measured(
    make: Make, tmp_path: Path
) -> None:
    half = save_base(tmp_path / "half-base", dtype=torch.bfloat16)
    adapter = make(of=half, scale=0.1)
    merged = merge(adapter, tmp_path / "merged")
    assert merged.dtype == "bfloat16"
    with safe_open(tmp_path / "merged/model.safetensors", framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118
    gap = (logits(tmp_path / "merged") - logits(half, adapter)).abs().max().item()
    assert 0 < gap <= merged.tolerance
    with warnings.catch_warnings(record=True) as warned:  # a terminal has none of peft's
        warnings.simplefilter("always")
        wider = merge(adapter, tmp_path / "wider", dtype="float32")
    assert not [each for each in warned if "deprecated" in str(each.message)]
    assert wider.largest < merged.largest / 10
    config = json.loads((tmp_path / "wider/config.json").read_text())
    assert config["dtype"] == "float32"


def test_what_rounds_to_nothing_is_said_and_what_is_above_the_tolerance_is_refused(
    make: Make, tmp_path: Path
) -> None:
    half = save_base(tmp_path / "half-base", dtype=torch.bfloat16)
    faint = make("faint", of=half, scale=0.00001)
    assert merge(faint, tmp_path / "merged").lost
    strong = make("strong", of=half, scale=0.1)
    with pytest.raises(AdapterError, match="does not say what base and adapter say"):
        merge(strong, tmp_path / "other", tolerance=1e-9)
    assert not list(tmp_path.glob("*other*"))


def test_there_are_as_many_files_as_in_the_base_and_the_tokenizer_comes_along(
    make: Make, tmp_path: Path
) -> None:
    parts = save_base(tmp_path / "parts-base", max_shard_size="40KB")
    (parts / "model.safetensors").unlink()
    (parts / "LICENSE.txt").write_text("as you like")
    merge(make(of=parts), tmp_path / "merged")
    merged = tmp_path / "merged"
    count = len(list(parts.glob("*.safetensors")))
    assert count > 2
    assert len(list(merged.glob("*.safetensors"))) == count
    assert (merged / "LICENSE.txt").read_text() == "as you like"
    before, after = map(transformers.AutoTokenizer.from_pretrained, (parts, merged))
    assert before.chat_template == after.chat_template
    assert before(TEXT)["input_ids"] == after(TEXT)["input_ids"]


async def test_the_merged_folder_is_a_model_of_ours(base: Path, make: Make, tmp_path: Path) -> None:
    """Token for token what the base with its adapter says."""
    adapter = make(scale=1.0)
    merge(adapter, tmp_path / "merged")
    said = []
    for folder, swap in ((base, adapter), (tmp_path / "merged", None)):
        model = TransformersModel.load(folder, device="cpu", dtype="float32", max_tokens=12)
        if swap is not None:
            await model.load_adapter("writer", swap)
        answer = await model.session("writer", seed=4).generate([Message(TEXT)])
        assert answer.tokens is not None
        said.append(answer.tokens.sampled)
        await model.aclose()
    assert said[0] == said[1]


def test_a_template_that_the_adapter_was_trained_with_is_the_merged_models(
    base: Path, make: Make, tmp_path: Path
) -> None:
    adapter = make()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}!{% endfor %}"
    tokenizer.save_pretrained(adapter)
    merge(adapter, tmp_path / "merged")
    merged = transformers.AutoTokenizer.from_pretrained(tmp_path / "merged")
    assert merged.chat_template == tokenizer.chat_template


def test_an_adapter_of_another_base_is_refused_before_anything_is_loaded(
    base: Path, make: Make, tmp_path: Path
) -> None:
    adapter = make()
    other = tiny_chat_model(hidden=64)
    other.save(tmp_path / "other-base")
    with pytest.raises(AdapterError, match="was trained on"):
        merge(adapter, tmp_path / "merged", base=tmp_path / "other-base")
    with pytest.raises(AdapterError, match="of another base model"):
        merge(
            adapter,
            tmp_path / "merged",
            base=tmp_path / "other-base",
            also_known_as=[str(base)],
        )
    copy = shutil.copytree(base, tmp_path / "somewhere/tiny-base")
    assert merge(adapter, tmp_path / "merged", base=copy).largest < 1e-4
    nameless = make("nameless")
    config = json.loads((nameless / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    (nameless / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="give `base`"):
        merge(nameless, tmp_path / "more")


def test_what_is_there_is_not_written_over_and_nothing_half_made_is_left(
    base: Path, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = make()
    with pytest.raises(UsageError, match="is there already"):
        merge(adapter, base)
    with pytest.raises(UsageError, match="`dtype` is 'int8'"):
        merge(adapter, tmp_path / "merged", dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="cannot be written"):
        merge(adapter, adapter / "adapter_config.json/merged")
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(UsageError, match=r"takes .* and there are .* free"):
        merge(adapter, tmp_path / "merged")
    assert [each.name for each in tmp_path.iterdir()] == ["adapter"]


def test_a_base_that_is_on_a_hub_is_fetched_by_whom_it_is_told(
    base: Path, make: Make, tmp_path: Path
) -> None:
    adapter = make()
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "someone/tiny-base"
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    asked: list[str] = []

    def fetch(name: str) -> Path:
        asked.append(name)
        return base

    merged = merge(adapter, tmp_path / "merged", fetch=fetch)
    assert (asked, merged.base) == (["someone/tiny-base"], "someone/tiny-base")


@pytest.mark.parametrize("config", [None, "{"])
def test_a_folder_that_is_no_model_is_told_as_such(
    make: Make, tmp_path: Path, config: str | None
) -> None:
    (tmp_path / "tiny-base").mkdir()  # as the adapter calls its base
    if config is not None:
        (tmp_path / "tiny-base/config.json").write_text(config)
    with pytest.raises(ModelError, match=r"tiny-base` holds no model .* `config\.json`"):
        merge(make(), tmp_path / "merged", base=tmp_path / "tiny-base")


def test_quantised_weights_take_nothing_in(base: Path, make: Make, tmp_path: Path) -> None:
    four = shutil.copytree(base, tmp_path / "tiny-base")
    config = json.loads((four / "config.json").read_text())
    config["quantization_config"] = {"load_in_4bit": True, "quant_method": "bitsandbytes"}
    (four / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="holds quantised weights"):
        merge(make(), tmp_path / "merged", base=four)


def test_the_card_names_base_data_settings_results_and_the_command(
    make: Make, tmp_path: Path
) -> None:
    adapter = make()
    data = tmp_path / "talks.jsonl"
    data.write_text("{}\n")
    (adapter / "settings.json").write_text(
        json.dumps({"model": "tiny-base", "data": [str(data), "gone.jsonl"], "rank": 4})
    )
    (adapter / "summary.json").write_text(json.dumps({"steps": 7, "eval_loss": 1.25}))
    (adapter / "data.json").write_text(json.dumps({"report": {"sequences": 3, "tokens": 99}}))
    command = ["rolecraft", "merge", "an adapter", "--out", "merged"]
    merge(adapter, tmp_path / "merged", command=command)
    card = (tmp_path / "merged/README.md").read_text()
    assert card.startswith('---\nbase_model: "')
    for line in (
        "# merged",
        f"- `{data}` (SHA-256 `{digest_of_files(data)}`)",
        "- `gone.jsonl` (not there now)",
        "- tokens: 99",
        "- rank: 4",
        "- eval loss: 1.25",
        "rolecraft merge 'an adapter' --out merged",
        "- dtype: `float32`",
    ):
        assert line in card.splitlines(), line
    assert write_card(adapter, base="tiny-base") == adapter / "README.md"
    assert "A LoRA adapter, made with Rolecraft." in (adapter / "README.md").read_text()


def test_the_card_of_a_roles_adapter_says_how_it_was_reinforced(make: Make, tmp_path: Path) -> None:
    adapter = make("team/adapters/solver")
    settings = {"scenario": "sums", "algorithm": plain(Algorithm(group=3))}
    (tmp_path / "team/settings.json").write_text(json.dumps(settings))
    rewards = [math.nan, *[0.5] * 9, 1.0]
    steps = [StepRecord(step=step, reward=reward) for step, reward in enumerate(rewards)]
    (tmp_path / "team/training.jsonl").write_text("".join(map(curve_line, steps)))
    lines = write_card(adapter, base="tiny-base").read_text().splitlines()
    assert 'tags: ["rolecraft", "reinforcement-learning", "lora"]' in lines
    assert "- scenario: `sums`" in lines
    (algorithm,) = (line for line in lines if line.startswith("- algorithm: "))
    assert algorithm.startswith("- algorithm: `Algorithm(")
    assert "group=3" in algorithm
    assert {"- steps: 11", "- reward of the last ten steps: 0.55"} <= {*lines}


def test_a_folder_has_one_digest_whatever_the_order_of_its_files(tmp_path: Path) -> None:
    for name, order in (("a", "xyz"), ("b", "zxy")):
        (tmp_path / name).mkdir()
        for letter in order:
            (tmp_path / name / letter).write_text(letter)
    assert digest_of_files(tmp_path / "a") == digest_of_files(tmp_path / "b") != ""
    (tmp_path / "b/x").write_text("changed")
    assert digest_of_files(tmp_path / "a") != digest_of_files(tmp_path / "b")
    assert digest_of_files(tmp_path / "none") == ""


def test_what_a_killed_merge_has_left_is_removed_and_nobody_elses_work(
    make: Make, tmp_path: Path
) -> None:
    left, busy = tmp_path / ".merged.part-1", tmp_path / ".merged.part-2"
    for part in (left, busy):
        part.mkdir()
        (part / "model.safetensors").write_bytes(b"half")
    with busy_folder(busy):
        merge(make(), tmp_path / "merged", prompts=[TEXT])
    assert not left.exists()
    assert (busy / "model.safetensors").exists()


@contextmanager
def busy_folder(folder: Path) -> Iterator[None]:
    """As a merge of another process holds it."""
    code = (
        "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX);"
        "print(1, flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        yield
    finally:
        other.communicate(b"\n")
