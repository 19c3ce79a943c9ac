"""`rolecraft serve`: a process that serves, and ends well when it is told to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolecraft.models.tiny import tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "weather"
    tiny_model(["rain", "sun"], context=4096).save(folder)
    return folder


class Served:
    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "rolecraft.cli", "serve", *map(str, arguments)]
        self.process = subprocess.Popen(
            [*command, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("Serving"):
                break
        found = re.search(r"http://\S+", self.lines[-1])
        assert found, self.lines
        self.url = found[0]

    def end(self, kind: signal.Signals) -> int:
        self.process.send_signal(kind)
        return self.process.wait(60)


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(*arguments: object) -> Served:
        running.append(Served(*arguments))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


def ask(url: str, **fields: Any) -> dict[str, Any]:
    return {"model": "weather", "messages": [{"role": "user", "content": "rain"}], **fields}


@pytest.mark.slow
def test_a_term_signal_lets_the_stream_under_way_finish(
    folder: Path, served: Callable[..., Served]
) -> None:
    server = served(folder, "--engine", "transformers")
    assert server.lines[0] == "Engine: transformers, in this process (as asked)."
    assert server.lines[1].startswith("Tool calls: ")
    assert server.lines[2].startswith("Reasoning: ")
    assert server.lines[-1] == f"Serving `weather` at {server.url}"
    body = ask(server.url, max_tokens=60, temperature=0.01, stream=True, seed=1)
    url = f"{server.url}/chat/completions"
    with httpx.Client(timeout=60) as client, client.stream("POST", url, json=body) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        server.process.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]
    assert json.loads(first.removeprefix("data: "))["object"] == "chat.completion.chunk"
    assert rest[-1] == "data: [DONE]"
    assert server.process.wait(60) == 0


@pytest.mark.slow
def test_the_keyboard_ends_it_and_keys_from_a_file_are_asked_for(
    folder: Path, served: Callable[..., Served], tmp_path: Path
) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("sk-one\n\nsk-two\n")
    settings = ("--set", "max_batch=4", "--set", "dtype=float32")
    server = served(folder, "--api-key-file", keys, "--name", "w", *settings)
    assert httpx.get(f"{server.url}/models").status_code == 401
    headers = {"authorization": "Bearer sk-two"}
    listed = httpx.get(f"{server.url}/models", headers=headers).json()
    assert [model["id"] for model in listed["data"]] == ["w"]
    assert server.end(signal.SIGINT) == 0


def test_wrong_command_lines_are_told_before_anything_is_loaded(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    for arguments, says in (
        (("--adapter", "planner"), "ROLE=PATH"),
        (("--adapter", "a=x", "--adapter", "a=y"), "twice"),
        (("--host", "0.0.0.0"), "--api-key-file"),
        (("--no-key", "--api-key", "k"), "exclude each other"),
        (("--api-key-file", tmp_path / "none"), "cannot be read"),
        (("--tool-format", "hermess"), "'hermes'"),
        (("--reasoning-format", "quen3"), "'qwen3'"),
        (("--engine", "vllm"), "contradict"),
        (("--adapter", "there=x", "--name", "there"), "--name"),
        (("--set", "dtype"), "NAME=VALUE"),
        (("--set", "seed=1", "--set", "seed=2"), "set twice"),
        (("--set", "name=x"), "not set so"),
        (("--set", "max_rank=8"), "`max_batch`"),
        (("--set", "max_batch=many"), "a whole number"),
        (("--set", "dtype=16"), "a text"),
    ):
        result = cli("serve", "transformers:nowhere/there", *arguments)
        assert result.code == 2, (arguments, result.err)
        assert says in result.err, (arguments, result.err)


def test_a_model_that_is_not_there_is_one_line(cli: Callable[..., Any], tmp_path: Path) -> None:
    result = cli("serve", f"transformers:{tmp_path / 'none'}")
    assert result.code == 1
    assert "There is no model folder" in result.err
    result = cli("serve", "nomodel")
    assert (result.code, "no model folder `nomodel`" in result.err) == (1, True)


def test_an_adapter_that_is_not_there_is_told_before_the_model_is_looked_for(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    result = cli("serve", "./nomodel", "--adapter", f"planner={tmp_path / 'none'}")
    assert result.code == 1
    assert "There is no adapter in" in result.err


def test_the_command_line_is_not_told_to_register_a_format(cli: Callable[..., Any]) -> None:
    result = cli("serve", "./nomodel", "--tool-format", "hermess")
    assert "Did you mean 'hermes'" in result.err
    assert "register" not in result.err.lower()
