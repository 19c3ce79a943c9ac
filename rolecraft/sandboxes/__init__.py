"""Where code that a model wrote may run."""

from rolecraft.sandboxes.base import Execution, Sandbox, SandboxLimits
from rolecraft.sandboxes.bubblewrap import Bubblewrap
from rolecraft.sandboxes.doubles import FunctionSandbox, SandboxCall
from rolecraft.sandboxes.local_process import LocalProcess

__all__ = [
    "Bubblewrap",
    "Execution",
    "FunctionSandbox",
    "LocalProcess",
    "Sandbox",
    "SandboxCall",
    "SandboxLimits",
]
