"""Blame for many traces: as a campaign of annotations, with its cache, its limits and its file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.annotate import Trace
from rolecraft.failure_taxonomy.attribution.attribute import Attributor
from rolecraft.failure_taxonomy.attribution.result import Attribution
from rolecraft.failure_taxonomy.formats import Imported
from rolecraft.failure_taxonomy.judging.campaign import Labelling
from rolecraft.trajectories.trajectory import Trajectory


class Blaming(Labelling[Attribution]):
    """Asks `attributor` about each of `traces`."""

    def __init__(
        self,
        traces: Trace | Iterable[Trace],
        *,
        attributor: Attributor,
        out: Path | str | None = None,
        format: str | None = None,  # noqa: A002 - the word that users know
        concurrency: int = 8,
    ) -> None:
        asker = attributor.asker
        super().__init__(traces, asker=asker, out=out, format=format, concurrency=concurrency)
        self.attributor = attributor

    async def make(self, trace: Trace, *, ask: bool) -> Attribution:
        trajectory = getattr(trace, "trajectory", trace)
        if not isinstance(trajectory, Trajectory):
            raise UsageError(f"`Blaming` takes traces as `annotate` does; got {trace!r}.")
        name = trace.name if isinstance(trace, Imported) else trajectory.id
        if not ask:
            return self.attributor.nobody(name)
        return await self.attributor.attribute(trajectory, name=name)
