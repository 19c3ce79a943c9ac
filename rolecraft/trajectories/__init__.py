"""What happened: events, how they are recorded, stored and read back."""

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
from rolecraft.trajectories.recorder import Log, Recorder, Sink, Turn
from rolecraft.trajectories.trajectory import Trajectory, signal_event

__all__ = [
    "SCHEMA_VERSION",
    "Artifact",
    "Event",
    "EventKind",
    "FailureFinding",
    "Log",
    "Recorder",
    "Signal",
    "Sink",
    "StopReason",
    "TokenSpan",
    "Trajectory",
    "Turn",
    "Usage",
    "signal_event",
]
