"""What commands with runs of their own share: the index of runs, and their own command line again.

rolecraft sft … --background       start_in_background(own_command(), …)
rolecraft sft … --processes 4      launch(own_command(), 4)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rolecraft.cli._log_lines import log_lines
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.training.background import BackgroundRun

RUNS_FOLDER = "ROLECRAFT_RUNS"
"""Variable that names another folder for the index of runs."""
_IN_BACKGROUND = MappingProxyType({"--background": 0})
_OF_A_WORKER = MappingProxyType({"--background": 0, "--processes": 1})
WATCHED_SECONDS = 3.0
"""So long a run is looked at after its start: what is wrong with its options it says at once."""


def runs_folder() -> Path:
    """Where the index of runs is: `$ROLECRAFT_RUNS`, else below `$XDG_STATE_HOME`."""
    if named := os.environ.get(RUNS_FOLDER):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local/state") / "rolecraft" / "runs"


def own_command(without: Mapping[str, int] = _OF_A_WORKER) -> list[str]:
    """The command line of this very process, without some options; each takes so many values.

    By default that of one of its workers.
    """
    left: list[str] = []
    skip = 0
    for word in sys.orig_argv[1:]:
        name, equals, _ = word.partition("=")
        if skip:
            skip -= 1
        elif name in without:
            skip = 0 if equals else without[name]
        else:
            left.append(word)
    return [sys.executable, *left]


def is_worker() -> bool:
    """Whether this process is one of several that `launch` (or torchrun) started.

    Clusters give these variables to programs of a single process, too.
    """
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_launched() -> bool:
    """Whether it is one that `launch` started, which has claimed the output folder for all."""
    from rolecraft.training.background import LAUNCHED

    return LAUNCHED in os.environ


def is_on_first_machine() -> bool:
    """Whether it is on the machine of the run's first process; torchrun numbers them."""
    return os.environ.get("GROUP_RANK", "0") == "0"


def command_of_launcher() -> list[str] | None:
    """The command line of torchrun, accelerate or whatever started this worker; None: unknown."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return [os.fsdecode(word) for word in words[:-1]] or None


def go_on_in_background(
    folder: Path, output: Output, *, way_on: Sequence[str] = ("--resume",)
) -> None:
    """Start this very command again, in the background and without `--background`.

    `way_on` are the words that go on with the run. What it says at once: process, log, how to
    follow and how to stop. Raises as `start_in_background` does.
    """
    from rolecraft.training.background import start_in_background

    say_started(
        lambda: start_in_background(
            own_command(_IN_BACKGROUND),
            folder,
            index=runs_folder(),
            watch_seconds=WATCHED_SECONDS,
            way_on=way_on,
        ),
        output,
    )


def say_started(start: Callable[[], BackgroundRun], output: Output) -> None:
    """Start a run, and say where it is; or how its log ends, if it died at once."""
    from rolecraft.training.background import DiedAtOnce, RunError

    try:
        run = start()
    except DiedAtOnce as error:
        for line in log_lines("\n".join(error.tail)):
            output.warn(f"  {line}")
        raise RunError(f"{error.what} Its log, whose end is above, is `{error.log}`.") from error
    output.result({"pid": run.pid, "log": str(run.log), "output": str(run.output)})
    output.say(str(run))
