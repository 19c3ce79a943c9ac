"""A test double: a sandbox that runs nothing. Public, for your tests too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, checked


@dataclass(frozen=True, slots=True)
class SandboxCall:
    """What a double was asked to run."""

    command: tuple[str, ...]
    files: dict[str, str | bytes]
    stdin: str | bytes
    limits: SandboxLimits


class FunctionSandbox:
    """A sandbox in which every command ends as `function` says.

    `function` gets a `SandboxCall` and returns an `Execution`, or what a command prints that
    succeeds. `calls` has all that was asked for.
    """

    def __init__(self, function: Callable[[SandboxCall], Execution | str]) -> None:
        self.function = function
        self.calls: list[SandboxCall] = []

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`. Raises `UsageError` as every sandbox does."""
        checked(command, files)
        call = SandboxCall(tuple(command), dict(files), stdin, limits)
        self.calls.append(call)
        done = self.function(call)
        return Execution(exit_code=0, stdout=done) if isinstance(done, str) else done

    def __repr__(self) -> str:
        return f"FunctionSandbox({self.function!r})"
