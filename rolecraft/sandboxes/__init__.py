"""Where code that a model wrote may run."""

from rolecraft.sandboxes.base import Execution, Sandbox, SandboxLimits
from rolecraft.sandboxes.bubblewrap import Bubblewrap
from rolecraft.sandboxes.local_process import LocalProcess

__all__ = ["Bubblewrap", "Execution", "LocalProcess", "Sandbox", "SandboxLimits"]
