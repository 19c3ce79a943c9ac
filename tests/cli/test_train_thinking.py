"""`--thinking ROLE=on|off` of `rolecraft train` and `rolecraft evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.cli._exits import ExitCode
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.trajectories import load

torch.set_num_threads(1)

TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% endif %}"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("thinking") / "base"
    model = tiny_chat_model(hidden=32, heads=2, context=512, for_adapters=True)
    model.tokenizer.chat_template = TEMPLATE
    model.save(folder)
    return folder


def test_it_is_in_the_settings_and_in_the_command_that_evaluates(
    cli: Callable[..., Any], base: Path, tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(
        f"scenario: relay\nmodel: {base}\nsteps: 1\ntasks_per_step: 1\n"
        "algorithm: {name: from_scratch, group: 2, epochs: 1}\nthinking: {planner: off}\n"
    )
    done = cli("train", "--config", "small.yaml", "--out", "mine")
    assert done.code == ExitCode.OK, done.err
    assert json.loads((tmp_path / "mine" / "train.json").read_text())["thinking"] == {
        "planner": False
    }
    advice = done.out.split("How well it does on others: rolecraft ")[1].split()
    assert "planner=off" in advice
    played = cli(*advice, "--tasks", 1, "--out", "judged")
    assert played.code == ExitCode.OK, played.err
    decode = tiny_chat_model(hidden=32, heads=2).tokenizer.decode
    runs = [load(path) for path in (tmp_path / "judged").rglob("r1.jsonl")]
    read = [(e.role, decode(e.tokens.given)) for r in runs for e in r.of("model_call") if e.tokens]
    assert {role for role, _ in read} == {"planner", "executor"}
    for role, text in read:
        assert ("<think></think>" in text) == (role == "planner")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["relay", "--thinking", "planner=maybe"], "write ROLE=on or ROLE=off"),
        (["relay", "--thinking", "planer=on"], "Did you mean 'planner'"),
        (["relay", "--thinking", "planner=on"], "has no switch for thinking"),
        (
            ["relay", "--thinking", "planner=on", "--thinking", "planner=off"],
            "was named already",
        ),
        (["relay", "--thinking", "planner=on", "--freeze", "planner"], "is not known"),
    ],
)
def test_what_cannot_be_said_is_told_before_anything_is_played(
    cli: Callable[..., Any], tmp_path: Path, words: list[str], says: str
) -> None:
    refused = cli("train", *words)
    assert refused.code == ExitCode.USAGE, refused.err
    assert says in refused.err
    assert not (tmp_path / "trained").exists()


def test_evaluate_wants_a_model_with_a_switch(cli: Callable[..., Any], base: Path) -> None:
    for words, says in (
        ((), "name it with `--model`"),
        (("--model", f"transformers:{base}", "--thinking", "nobody=on"), "'nobody' is not known"),
        (("--model", "openai/gpt-4o-mini"), ""),
    ):
        refused = cli("evaluate", "relay", "--thinking", "planner=on", "--tasks", 1, *words)
        assert refused.code in (ExitCode.USAGE, ExitCode.ERROR)
        assert says in refused.err
