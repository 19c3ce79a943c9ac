"""Where code that a model wrote may run."""

from rolecraft.sandboxes._output import listening
from rolecraft.sandboxes.base import Execution, Sandbox, SandboxLimits
from rolecraft.sandboxes.bubblewrap import Bubblewrap
from rolecraft.sandboxes.default import default_provider
from rolecraft.sandboxes.doubles import FunctionSandbox, SandboxCall
from rolecraft.sandboxes.landlock import Landlock
from rolecraft.sandboxes.live import (
    AllowList,
    LiveSandbox,
    SandboxFileError,
    SandboxLost,
    SandboxProvider,
    SandboxRefused,
    SandboxSpec,
    Shell,
    Snapshot,
)
from rolecraft.sandboxes.local_process import LocalProcess
from rolecraft.sandboxes.remote import Remote

__all__ = [
    "AllowList",
    "Bubblewrap",
    "Execution",
    "FunctionSandbox",
    "Landlock",
    "LiveSandbox",
    "LocalProcess",
    "Remote",
    "Sandbox",
    "SandboxCall",
    "SandboxFileError",
    "SandboxLimits",
    "SandboxLost",
    "SandboxProvider",
    "SandboxRefused",
    "SandboxSpec",
    "Shell",
    "Snapshot",
    "default_provider",
    "listening",
]
