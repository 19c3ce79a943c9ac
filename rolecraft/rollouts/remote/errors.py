"""What goes wrong on other machines only."""

from __future__ import annotations

from rolecraft.errors import SandboxError, UsageError


class WorkerLost(SandboxError):
    """The worker that an item was on died, with the environment in it: an actor, or its node.

    It says nothing about the team, and the item is worth another try on another worker.
    Attributes: `worker` (its number, None where none is left), `reason`.
    """

    def __init__(self, worker: int | None, reason: str) -> None:
        self.worker, self.reason = worker, reason
        who = "No worker is left" if worker is None else f"Worker {worker} was lost"
        super().__init__(f"{who}: {reason}")


class NotSendable(UsageError):
    """Something cannot be sent to another process.

    Attributes: `path` (from what was to be sent to the part that cannot), `reason`.
    """

    def __init__(self, what: str, path: str, part: object, reason: str, way_out: str) -> None:
        self.path, self.reason = path, reason
        kind = type(part)
        super().__init__(
            f"{what} cannot be sent to a worker: `{path}` is a `{kind.__module__}."
            f"{kind.__qualname__}`, which cannot be pickled ({reason}). {way_out}"
        )


class RaisedInWorker(Exception):
    """Stands for an error that cannot be pickled: its type and text are in this one's text.

    No `RolecraftError`, since what it stands for was none.
    """
