"""Making, saving and loading in-process models; what is missing is said at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rolecraft.errors import LimitReached, MissingExtra, ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling, Tool
from rolecraft.models.budget import Budget, Limits
from rolecraft.models.tiny import tiny_model, tiny_tokenizer
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)


async def test_a_saved_model_answers_as_before(tmp_path: Path) -> None:
    model = tiny_model("abc", seed=5)
    with torch.no_grad():
        model.module.lm_head.weight.normal_()
    model.save(tmp_path)
    loaded = TransformersModel.load(tmp_path, seed=5, max_tokens=16, device="cpu")
    ours, theirs = [
        await m.session("r").generate([Message("a b")], sampling=Sampling(temperature=0.5))
        for m in (model, loaded)
    ]
    assert ours.tokens == theirs.tokens
    assert loaded.name == str(tmp_path)


def test_loading_writes_no_progress_bars(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny_model("abc").save(tmp_path)
    capfd.readouterr()
    transformers.utils.logging.enable_progress_bar()
    TransformersModel.load(tmp_path, device="cpu")
    assert "oading" not in capfd.readouterr().err
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        TransformersModel.load(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="nowhere"):
        TransformersModel.load("./nowhere")


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=tmp_path.name):
        TransformersModel.load(tmp_path)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_file_that_is_cut_off_is_an_error_with_the_way_out(tmp_path: Path, file: str) -> None:
    tiny_model("abc").save(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=rf"{tmp_path.name}.*cut off or damaged.*saved again"):
        TransformersModel.load(tmp_path)


@pytest.mark.parametrize(
    ("attribute", "words"), [("chat_template", "chat template"), ("eos_token", "end token")]
)
def test_a_tokenizer_that_lacks_something_is_refused(attribute: str, words: str) -> None:
    model = tiny_model("abc")
    model.module.generation_config.eos_token_id = None
    setattr(model.tokenizer, attribute, None)
    with pytest.raises(UsageError, match=words):
        TransformersModel(model.module, model.tokenizer)


@pytest.mark.parametrize("setting", [{"max_batch": 0}, {"max_tokens": 0}])
def test_bounds_below_one_are_refused(setting: dict[str, Any]) -> None:
    model = tiny_model("abc")
    with pytest.raises(UsageError, match="from 1"):
        TransformersModel(model.module, model.tokenizer, **setting)


@pytest.mark.parametrize("word", ["", "two words", "<end>", "<user>"])
def test_words_that_cannot_be_words_are_refused(word: str) -> None:
    with pytest.raises(UsageError, match="cannot be a word"):
        tiny_tokenizer(["a", word])


def test_the_tiny_model_is_tiny_and_repeatable() -> None:
    words = ("planner", "executor", "asked", "value", "plus", *"abcd", *"01234")
    state = torch.random.get_rng_state()
    one, two, other = tiny_model(words), tiny_model(words), tiny_model(words, seed=1)
    assert 90_000 < sum(p.numel() for p in one.module.parameters()) < 110_000
    weights = [m.module.model.embed_tokens.weight for m in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(state, torch.random.get_rng_state())


async def test_tools_are_refused_with_the_way_out() -> None:
    session = tiny_model("abc").session("r")
    with pytest.raises(UsageError, match="Use a model that was made for tools"):
        await session.generate([Message("a")], tools=[Tool(name="read")])


async def test_a_token_budget_stops_before_the_call_that_would_cross_it() -> None:
    session = tiny_model("abc").session("r")
    session.budget = Budget(Limits(tokens=20, usd=0.0))
    await session.generate([Message("a")], sampling=Sampling(choices=("b", "c")))
    assert session.budget.spent.usd == 0.0
    spent = session.budget.spent.prompt_tokens + session.budget.spent.completion_tokens
    assert spent == 6  # <user> a <end> <assistant> | b <end>
    with pytest.raises(LimitReached):
        await session.generate([Message("a")], sampling=Sampling(max_tokens=8))
    await session.generate(sampling=Sampling(max_tokens=1))


def test_what_is_not_installed_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("torch", "transformers"):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, missing, None)
            context.delitem(sys.modules, "rolecraft.models.torch_extra", raising=False)
            with pytest.raises(MissingExtra, match=rf"{missing}.*pip install '\.\[local\]'"):
                import rolecraft.models.torch_extra  # noqa: F401


def test_naming_the_package_loads_no_torch() -> None:
    code = "import sys, rolecraft.models; assert not {'torch', 'transformers'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
