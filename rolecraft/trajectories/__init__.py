"""What happened: events, and how they are recorded, stored, read back and drawn."""

from typing import TYPE_CHECKING, Any

from rolecraft.trajectories.diagram import sequence_diagram
from rolecraft.trajectories.events import (
    SCHEMA_VERSION,
    Artifact,
    Event,
    EventKind,
    FailureFinding,
    Signal,
    StopReason,
    TokenSpan,
    Usage,
)
from rolecraft.trajectories.findings import append_findings, load_findings
from rolecraft.trajectories.journal import Journal
from rolecraft.trajectories.jsonl import load, read_events, save, trace_files
from rolecraft.trajectories.observer import Directive, Observer, Remembers, Reviews
from rolecraft.trajectories.recorder import Log, Recorder, Sink, Turn, header
from rolecraft.trajectories.reported import append_signals, load_signals
from rolecraft.trajectories.role_table import RoleRow, RoleTable, role_table
from rolecraft.trajectories.states import StateMachine, state_diagram, state_machines
from rolecraft.trajectories.timings import Stopwatch, Timing, load_timings
from rolecraft.trajectories.trajectory import Trajectory, signal_event

if TYPE_CHECKING:
    from rolecraft.trajectories.store import Store
    from rolecraft.trajectories.telemetry import Telemetry

__all__ = [
    "SCHEMA_VERSION",
    "Artifact",
    "Directive",
    "Event",
    "EventKind",
    "FailureFinding",
    "Journal",
    "Log",
    "Observer",
    "Recorder",
    "Remembers",
    "Reviews",
    "RoleRow",
    "RoleTable",
    "Signal",
    "Sink",
    "StateMachine",
    "StopReason",
    "Stopwatch",
    "Store",
    "Telemetry",
    "Timing",
    "TokenSpan",
    "Trajectory",
    "Turn",
    "Usage",
    "append_findings",
    "append_signals",
    "header",
    "load",
    "load_findings",
    "load_signals",
    "load_timings",
    "read_events",
    "role_table",
    "save",
    "sequence_diagram",
    "signal_event",
    "state_diagram",
    "state_machines",
    "trace_files",
]


def __getattr__(name: str) -> Any:
    if name == "Store":  # brings SQLAlchemy, which most programs never need
        from rolecraft.trajectories.store import Store

        return Store
    if name == "Telemetry":
        from rolecraft.trajectories.telemetry import Telemetry

        return Telemetry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
