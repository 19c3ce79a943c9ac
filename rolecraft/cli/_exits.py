"""Exit codes: one documented meaning each."""

from __future__ import annotations

import os
from enum import IntEnum

from rolecraft.errors import RolecraftError, TraceError, UsageError


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    INCOMPLETE = 3
    GATE = 4
    INTERRUPTED = 130
    STOPPED = 143


EXIT_CODES: dict[ExitCode, str] = {
    ExitCode.OK: "all went well",
    ExitCode.ERROR: "an error: nothing useful came of it",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.INCOMPLETE: "it ran, but not everything succeeded (a limit was reached, some files "
    "could not be read, training fell short)",
    ExitCode.GATE: "a check that was asked for did not hold (compare --fail-on-increase, "
    "rescore --safety, doctor, train before it plays, synth check)",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
    ExitCode.STOPPED: "told to stop (SIGTERM) and did, with what it had done kept",
}


class CommandLineError(UsageError):
    """An argument or option of the command line cannot be used."""


def of_error(error: RolecraftError, *, reads_only: bool = False) -> ExitCode:
    """The exit code of a command that raised `error`.

    One that `reads_only` runs no team of the user's, so what is used wrongly there is an option or
    a file that it was given.
    """
    if isinstance(error, CommandLineError):
        return ExitCode.USAGE
    missing = isinstance(error, TraceError) and not os.path.lexists(error.path)
    if reads_only and (missing or isinstance(error, UsageError)):
        return ExitCode.USAGE
    return ExitCode.ERROR
