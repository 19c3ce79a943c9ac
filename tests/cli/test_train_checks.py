"""`rolecraft train` looks at the model before it plays: a line each, and what is wrong stops it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.cli._exits import ExitCode
from rolecraft.models.tiny_chat import tiny_chat_model

torch.set_num_threads(1)

SHORT = ("--steps", 1, "--tasks-per-step", 1)
REWRITES = (
    "{%- for message in messages %}<|im_start|>{{ message.role }} {{ loop.revindex }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks") / "base"
    tiny_chat_model(hidden=32, heads=2, context=512, for_adapters=True).save(folder)
    return folder


def test_the_checks_are_a_line_each_and_memory_comes_first(
    cli: Callable[..., Any], base: Path
) -> None:
    done = cli("train", "relay", "--model", base, "--adapters", *SHORT)
    assert done.code == ExitCode.OK, done.err
    told = [line.split(":")[:2] for line in done.err.splitlines() if line.startswith("ok")]
    names = ["memory", "chat template", "log-prob gap", "mask", "adapter sync"]
    assert told == [["ok", f" {name}"] for name in names]


def test_what_poisons_training_stops_it_before_anything_is_played(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    model = tiny_chat_model(hidden=32, heads=2, context=512, for_adapters=True)
    model.module.get_output_embeddings().weight.data.fill_(float("nan"))
    model.save(tmp_path / "poisoned")
    done = cli("train", "relay", "--model", "poisoned", *SHORT, "--json")
    assert done.code == ExitCode.GATE
    assert "FAIL: sampling" in done.err
    assert "--no-checks" in done.err
    assert {line["check"]: line["verdict"] for line in done.lines}["sampling"] == "fail"
    assert not (tmp_path / "trained").exists()


def test_a_template_that_rewrites_is_a_warning_and_training_goes_on(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    """Each answer is trained behind what the model did see: that costs, and teaches nothing wrong.

    Mistral's templates rewrite where there are tools or a system prompt, whatever is trained.
    """
    model = tiny_chat_model(hidden=32, heads=2, context=512, for_adapters=True)
    model.tokenizer.chat_template = REWRITES
    model.save(tmp_path / "rewrites")
    done = cli("train", "relay", "--model", "rewrites", *SHORT)
    assert done.code == ExitCode.OK, done.err
    assert "WARN: chat template: 4 forks" in done.err
    assert "only appends" in done.err, "what to do"
    unchecked = cli(
        "train", "relay", "--model", "rewrites", *SHORT, "--no-checks", "--out", "unchecked"
    )
    assert unchecked.code == ExitCode.OK, unchecked.err
    assert "chat template:" not in unchecked.err


def test_checks_change_nothing_of_what_is_learnt_and_a_resume_has_none(
    cli: Callable[..., Any], base: Path, tmp_path: Path
) -> None:
    for out, more in (("with", ()), ("without", ("--no-checks",))):
        done = cli("train", "relay", "--model", base, "--adapters", *SHORT, "--out", out, *more)
        assert done.code == ExitCode.OK, done.err
        assert ("log-prob gap" in done.err) == (out == "with")
    for name in ("planner", "executor"):
        files = [
            tmp_path / out / "adapters" / name / "adapter_model.safetensors"
            for out in ("with", "without")
        ]
        assert files[0].read_bytes() == files[1].read_bytes()
    rewards = [
        json.loads((tmp_path / out / "training.jsonl").read_text())["reward"]
        for out in ("with", "without")
    ]
    assert rewards[0] == rewards[1]
    went_on = cli("train", "--resume", "with", "--steps", 2)
    assert went_on.code == ExitCode.OK, went_on.err
    assert "log-prob gap" not in went_on.err


def test_memory_that_will_not_do_is_a_warning_with_what_to_change(
    cli: Callable[..., Any], base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolecraft.training.doctor.throughput.free_memory", lambda device: 1 << 20)
    done = cli("train", "relay", "--model", base, *SHORT)
    assert done.code == ExitCode.OK, done.err
    assert "WARN: memory: " in done.err
    assert "(limit: 1 MiB free)" in done.err
    assert "Train adapters, lower `micro_batch_tokens`" in done.err


def test_what_does_not_apply_to_an_untrained_model_is_said(cli: Callable[..., Any]) -> None:
    done = cli("train", "relay", *SHORT)
    assert done.code == ExitCode.OK, done.err
    assert "skipped: memory: the untrained model is made here" in done.err
    assert "ok: log-prob gap" in done.err


def test_a_preset_from_scratch_says_what_else_holds_it_back(cli: Callable[..., Any]) -> None:
    done = cli("train", "relay", "--algorithm", "rloo", *SHORT, "--no-checks")
    assert done.code == ExitCode.OK, done.err
    assert "groups of 4 seldom differ where success is rare" in done.err
    assert "write `algorithm: {name: rloo, kl: null, group: 16}`" in done.err
    done = cli("train", "relay", "--algorithm", "ppo", *SHORT, "--no-checks", "--out", "ppo")
    assert done.code == ExitCode.OK, done.err
    assert "stays flat" not in done.err, "it has neither groups nor a penalty"
