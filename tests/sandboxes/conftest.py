"""Sandbox servers, each a process of its own that `rolecraft sandbox-server` started."""

from __future__ import annotations

import contextlib
import functools
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TOKEN = "a-token-of-the-tests"


class ServedSandboxes:
    """A server's process. `url` is what it said, `token` what it wants."""

    token = TOKEN

    def __init__(self, folder: Path, *arguments: object) -> None:
        words = [str(argument) for argument in arguments]
        if "--no-token" not in words:
            file = folder / "token.txt"
            file.write_text(TOKEN)
            words += ["--token-file", str(file)]
        if "--provider" not in words:
            words += ["--provider", "local"]
        if "--port" not in words:
            words += ["--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rolecraft.cli", "sandbox-server", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().strip()
        found = re.search(r"http://\S+", self.line)
        assert found, f"the server said {self.line!r}"
        self.url = found[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def end(self, kind: signal.Signals) -> int:
        self.process.send_signal(kind)
        return self.process.wait(60)

    def __repr__(self) -> str:
        return f"<sandbox server at {self.url}>"


@pytest.fixture
def sandbox_server(tmp_path: Path) -> Iterator[Callable[..., ServedSandboxes]]:
    """`sandbox_server("--max-sandboxes", 2)` starts one with these options; ended with the test."""
    with _servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def sandbox_servers() -> Iterator[Callable[[str], ServedSandboxes]]:
    """`sandbox_servers("bubblewrap")`: one for each provider, for tests that leave it as it is."""
    with tempfile.TemporaryDirectory() as folder, _servers(Path(folder)) as start:
        allowed = ("--max-sandboxes", 256, "--allow-readable", tempfile.gettempdir())
        allowed = (*allowed, "--allow-network")
        yield functools.cache(lambda provider: start("--provider", provider, *allowed))


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[Callable[..., ServedSandboxes]]:
    running: list[ServedSandboxes] = []

    def start(*arguments: object) -> ServedSandboxes:
        running.append(ServedSandboxes(folder, *arguments))
        return running[-1]

    yield start
    for one in running:
        one.process.terminate()  # and not a kill, for then plain processes would go on
        try:
            one.process.wait(20)
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()
