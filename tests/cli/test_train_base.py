"""What `rolecraft train --model` says of a folder that is no model, and of a hub that is away."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.cli._exits import ExitCode


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "is no model: it has no `config.json`"),
        ({"adapter_config.json": {"base_model_name_or_path": "models/small"}}, "`models/small`"),
        ({"adapter_config.json": {}}, "the base that it was trained on"),
    ],
)
def test_a_folder_that_is_no_model_is_one_line_that_says_what_it_is(
    cli: Callable[..., Any], tmp_path: Path, files: dict[str, Any], says: str
) -> None:
    (tmp_path / "mine").mkdir()
    for name, content in files.items():
        (tmp_path / "mine" / name).write_text(json.dumps(content))
    refused = cli("train", "relay", "--model", "mine")
    assert refused.code == ExitCode.USAGE
    assert says in refused.err
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "trained").exists()


def test_a_hub_that_cannot_be_reached_is_said_as_sft_says_it(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    told = [
        cli("train", "relay", "--model", "transformers:nobody/here"),
        cli("sft", "--model", "nobody/here", "--data", "talks.jsonl", "--out", "tuned"),
    ]
    lines = [each.err.splitlines()[-1] for each in told]
    assert lines[0] == lines[1]
    assert "nobody/here" in lines[0]
    assert not (tmp_path / "trained").exists()
