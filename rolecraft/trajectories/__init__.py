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
from rolecraft.trajectories.recorder import Log, Recorder, Sink, Turn, header
from rolecraft.trajectories.trajectory import Trajectory, signal_event

if TYPE_CHECKING:
    from rolecraft.trajectories.store import Store

__all__ = [
    "SCHEMA_VERSION",
    "Artifact",
    "Event",
    "EventKind",
    "FailureFinding",
    "Journal",
    "Log",
    "Recorder",
    "Signal",
    "Sink",
    "StopReason",
    "Store",
    "TokenSpan",
    "Trajectory",
    "Turn",
    "Usage",
    "append_findings",
    "header",
    "load",
    "load_findings",
    "read_events",
    "save",
    "sequence_diagram",
    "signal_event",
    "trace_files",
]


def __getattr__(name: str) -> Any:
    if name == "Store":  # brings SQLAlchemy, which most programs never need
        from rolecraft.trajectories.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
