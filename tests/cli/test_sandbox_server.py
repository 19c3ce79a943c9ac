"""`rolecraft sandbox-server`: what it says, and what it refuses before it serves."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.sandboxes import SandboxLimits
from rolecraft.sandboxes.server.allowed import OPTIONS


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "`--token-file FILE` or `--token-env NAME`"),
        (["--no-token", "--host", "0.0.0.0"], "other machines"),
        (["--no-token", "--token-env", "SANDBOX_TOKEN"], "exclude each other"),
        (["--token-env", "NOT_SET"], "not set"),
        (["--token-file", "none.txt"], "cannot be read"),
        (["--token-file", "empty.txt"], "empty"),
        (["--provider", "docker-in-docker", "--no-token"], "--provider"),
        (["--no-token", "--allow-root", "none"], "--allow-root"),
        (["--no-token", "--max-memory", "0"], "--max-memory"),
        (["--no-token", "--max-seconds", "0"], "--max-seconds"),
    ],
)
def test_a_wrong_command_line_says_the_way_out(
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SANDBOX_TOKEN", "t")
    (tmp_path / "empty.txt").write_text("\n \n")
    result = cli("sandbox-server", *arguments)
    assert result.code == ExitCode.USAGE
    assert says in result.err


@pytest.mark.parametrize("limit", [field.name for field in fields(SandboxLimits)])
def test_the_option_that_a_refusal_names_is_one(cli: Callable[..., Any], limit: str) -> None:
    """A client that asked for too much is told how the server would allow it."""
    result = cli("sandbox-server", "--no-token", OPTIONS[limit], "no-number")
    assert result.code == ExitCode.USAGE
    assert f"Invalid value for '{OPTIONS[limit]}'" in result.err


def test_a_port_that_is_taken_is_named(cli: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("sandbox-server", "--no-token", "--provider", "local", "--port", port)
    assert result.code == ExitCode.ERROR
    assert f"port {port}" in result.err
    assert "0 takes a free one" in result.err


def test_walls_that_cannot_be_had_here_are_told_before_it_serves(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cli("sandbox-server", "--no-token", "--port", "0")
    assert result.code == ExitCode.ERROR
    assert "apt install bubblewrap" in result.err
    assert "Serving" not in result.out


def test_one_line_says_where_it_is_and_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_TOKEN", "from-the-environment")
    command = [sys.executable, "-m", "rolecraft.cli", "sandbox-server", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--provider", "local", "--token-env", "SANDBOX_TOKEN"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.removeprefix("Serving `local` sandboxes at ").strip()
        assert line == f"Serving `local` sandboxes at {url}\n"
        token = {"authorization": "Bearer from-the-environment"}
        about = httpx.get(f"{url}/v1/about", headers=token).json()
        assert (about["provider"], about["walls"]) == ("LocalProcess", [])
        assert httpx.get(f"{url}/ready").status_code == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "no walls" in err.splitlines()[0]
    assert "from-the-environment" not in err
