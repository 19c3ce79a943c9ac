"""`rolecraft doctor`: a table of what was checked, JSON lines, and an exit code for CI."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.trajectories import Event, Signal, Trajectory, save, signal_event

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "tiny"
    tiny_chat_model(hidden=32, heads=2, for_adapters=True).save(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_healthy_model_passes_and_its_folder_is_left_alone(
    cli: Callable[..., Any], folder: Path
) -> None:
    before = contents(folder)
    said = cli("doctor", "--model", folder, "--json")
    assert said.code == 0, said.err
    verdicts = {line["check"]: line["verdict"] for line in said.lines}
    assert {"chat template", "log-prob gap", "gradient"} <= set(verdicts)
    assert "fail" not in verdicts.values(), said.lines
    assert contents(folder) == before


def test_a_check_that_fails_is_an_exit_code_with_what_to_do(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    model = tiny_chat_model(hidden=32, heads=2, for_adapters=True)
    model.tokenizer.chat_template = (
        "{%- for message in messages %}<|im_start|>{{ message.role }} {{ loop.revindex }}\n"
        "{{ message.content }}<|im_end|>\n{%- endfor %}"
        "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    model.save(tmp_path / "rewrites")
    said = cli("doctor", "--model", tmp_path / "rewrites")
    assert said.code == 4, said.err
    assert "FAIL: chat template" in said.out
    assert "What to do:" in said.out


def test_what_cannot_be_examined_is_one_line(cli: Callable[..., Any], folder: Path) -> None:
    for arguments, code, says in (
        (("--model", "openai/gpt-4o-mini"), 2, "must be a local one"),
        (("--model", folder, "--adapter", "planner"), 2, "write ROLE=FOLDER"),
        (("--model", folder, "--adapter", "planner=nowhere"), 1, "nowhere"),
    ):
        said = cli("doctor", *arguments)
        assert (said.code, says in " ".join(said.err.split())) == (code, True), said.err


REWARDS = """
import math


def chance(signals):
    return math.nan


def charges(signals):
    return 1 / (1 + signals.get("tests.failed", 0.0))
"""


def test_a_scenario_is_played_and_its_episode_shown_with_what_is_trained(
    cli: Callable[..., Any],
) -> None:
    said = cli("doctor", "--scenario", "relay", "--tasks", "2")
    assert said.code == 0, said.out
    assert re.search(r"<user> asked [abcd] <end> <assistant>⟦ [abcd]⟧", said.out), said.out
    assert "ok: reward safety" in said.out


def test_a_reward_is_examined_on_stored_runs_without_any_model(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    events = [
        Event("message", role="coder", content="def parse(text): ..."),
        signal_event(Signal("tests.failed", 2)),
        Event("stop", data={"reason": "finished"}),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    run = save(Trajectory("one", {"roles": [{"name": "coder"}]}, events), tmp_path / "run.jsonl")
    (tmp_path / "mine.py").write_text(REWARDS)
    said = cli("doctor", "--reward", "mine.py:charges", "--run", run, "--json")
    assert said.code == 4, said.err
    verdicts = {line["check"]: line["verdict"] for line in said.lines}
    assert verdicts == {"reward": "ok", "reward safety": "fail", "groups": "skipped"}
    said = cli("doctor", "--reward", "mine.py:chance", "--run", run)
    assert said.code == 4
    assert "is nan" in said.out


def test_a_reward_that_is_no_number_is_found_where_it_is_played(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    said = cli("doctor", "--scenario", "relay", "--tasks", "1", "--reward", "mine.py:chance")
    assert said.code == 4, said.out
    assert "FAIL: reward" in said.out
