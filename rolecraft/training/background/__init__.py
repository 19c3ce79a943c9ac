"""Runs that nobody watches: in the background, one at a time in a folder, stopped and resumed.

`start_in_background` starts a program that outlives the terminal; `claim` keeps a second run out of
an output folder; `StopSignals` is how a run hears that it is to end; `launch` starts the processes
of a distributed one. What runs there are, an index says.
"""

from collections.abc import Callable
from pathlib import Path

from rolecraft.training.background._supervisor import RECORD
from rolecraft.training.background.claim import (
    LOCK,
    OutputClaimed,
    claim,
    claimant,
    wait_for_claim,
)
from rolecraft.training.background.follow import follow, logs_of, read_logs
from rolecraft.training.background.index import add_to_index, find_run, forget, name_of, outputs_in
from rolecraft.training.background.launch import LAUNCHED, free_port, launch, reserved_port
from rolecraft.training.background.process import ProcessId, command_of
from rolecraft.training.background.record import (
    Ended,
    RunError,
    RunRecord,
    State,
    last_lines,
    progress_of,
)
from rolecraft.training.background.start import (
    LOGS,
    BackgroundRun,
    DiedAtOnce,
    refuse_second,
    resume,
    start_in_background,
    stop,
)
from rolecraft.training.background.stop_signals import STOPPED, StopSignals

__all__ = [
    "LAUNCHED",
    "LOCK",
    "LOGS",
    "OF_A_RUN",
    "RECORD",
    "STOPPED",
    "BackgroundRun",
    "DiedAtOnce",
    "Ended",
    "OutputClaimed",
    "ProcessId",
    "RunError",
    "RunRecord",
    "State",
    "StopSignals",
    "add_to_index",
    "claim",
    "claimant",
    "command_of",
    "find_run",
    "follow",
    "forget",
    "free_port",
    "last_lines",
    "launch",
    "logs_of",
    "name_of",
    "outputs_in",
    "progress_of",
    "read_logs",
    "refuse_second",
    "reserved_port",
    "resume",
    "runs",
    "start_in_background",
    "stop",
    "wait_for_claim",
]

OF_A_RUN = (RECORD, LOCK, LOGS)
"""What a run leaves in its output folder, whatever else it writes there: no work of its own."""


def runs(index: Path, *, on_error: Callable[[RunError], None]) -> list[RunRecord | Path]:
    """Every run that the index knows, by its last start, newest first.

    The path alone of those whose output folder has gone, or has no record any more; they come last.
    What cannot be read is passed over, and `on_error` is told.
    """
    records: list[RunRecord] = []
    gone: list[Path] = []
    for output in outputs_in(index, on_error=on_error):
        try:
            record = RunRecord.read(output)
        except RunError as error:
            on_error(error)
            continue
        if record is None:
            gone.append(output)
        else:
            records.append(record)
    return [*sorted(records, key=lambda record: record.started, reverse=True), *gone]
