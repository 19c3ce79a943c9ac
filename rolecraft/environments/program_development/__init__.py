"""`program_development`: small programs to write, measured by hidden tests in a sandbox."""

from rolecraft.environments.program_development.environment import ProgramEnvironment
from rolecraft.environments.program_development.program import ENTRY_POINT, Program
from rolecraft.environments.program_development.records import Record, program_dev, records
from rolecraft.environments.program_development.tasks import (
    HELD_OUT,
    PROGRAMS,
    ProgramTasks,
    program_of,
)

__all__ = [
    "ENTRY_POINT",
    "HELD_OUT",
    "PROGRAMS",
    "Program",
    "ProgramEnvironment",
    "ProgramTasks",
    "Record",
    "program_dev",
    "program_of",
    "records",
]
