"""What actions and roles can write into the trajectory: tool calls, artifacts, checks.

Failure detectors and rewards read these. A run that never says what it made and what it checked
can only be judged as `unknown`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any

from rolecraft.trajectories.events import Artifact, Event


class Records:
    """Mixed into `Action` and `Role`. Every method returns a handle of the event."""

    @abstractmethod
    def _record(self, event: Event) -> int:
        """Write an event of this role, caused by the action that runs."""

    def record_tool_call(
        self, tool: str, arguments: dict[str, Any], result: object, *, ok: bool = True
    ) -> int:
        """A tool was called with `arguments` and gave `result`; `ok=False` if that is an error."""
        call = self._record(Event("tool_call", data={"tool": tool, "arguments": arguments}))
        return self._record(Event("tool_result", content=str(result), data={"ok": ok}, cause=call))

    def record_artifact(self, name: str, content: str | bytes) -> int:
        """A named thing (a file, a document) has this content now. Its hash is kept."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        return self._record(
            Event("artifact", artifact=Artifact(name, hashlib.sha256(data).hexdigest()))
        )

    def record_check(self, target: str, *, passed: bool | None, said: str = "") -> int:
        """`target` (an artifact, a claim) was checked; `passed=None` if the check could not tell.

        `said` is what the check printed or found.
        """
        return self._record(
            Event("verify", content=said, data={"target": target, "passed": passed})
        )
