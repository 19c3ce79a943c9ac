"""What the commands that serve share: their keys, and how they end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output


class Stoppable(Protocol):
    """A server."""

    def stop(self, *, at_once: bool = False) -> None: ...


def lines_of(file: Path | None, option: str, what: str) -> list[str]:
    """The secrets in the file of an option, one a line; `what` they are, for errors."""
    if file is None:
        return []
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise CommandLineError(f"`{option} {file}` cannot be read: {error}.") from error
    if not lines:
        raise CommandLineError(f"`{option} {file}` is empty: it wants one {what} a line.")
    return lines


def stop_at_signals(server: Stoppable, output: Output) -> Callable[[], bool]:
    """Have SIGTERM and Ctrl+C stop the server, and a second one at once.

    Called in its event loop. What is returned says whether work was given up.
    """
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        server.stop(at_once=stops > 1)
        if stops == 1:
            output.note("Finishing what is under way; once more ends at once.")

    loop = asyncio.get_running_loop()
    for kind in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(kind, stop)
    return lambda: stops > 1
