"""Labels for many traces, from a judge that may be slow, dear and unreliable.

Invariant: the file of labels holds every trace that was annotated exactly once, in the order in
which the traces were named. It appears whole at the end; until then its lines stand in a hidden
file beside it. What a killed campaign leaves behind is the cache of its judge: the same campaign
started again takes every answer that was completed from there, and asks only for the others.

One trace costs only itself: a file that cannot be read is reported, a trace whose calls failed is
asked about again, and one that the model refuses keeps what the detectors say.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import IO

from rolecraft.errors import (
    LimitReached,
    MissingKey,
    ModelError,
    RealModelForbidden,
    RolecraftError,
    TraceError,
    UnexpectedModelCall,
    UsageError,
)
from rolecraft.failure_taxonomy._in_order import in_order
from rolecraft.failure_taxonomy.annotate import Trace, annotate, each_trace
from rolecraft.failure_taxonomy.detectors import DETECTORS, Detector
from rolecraft.failure_taxonomy.formats import Imported
from rolecraft.failure_taxonomy.judging.asking import tallied
from rolecraft.failure_taxonomy.judging.judge import Judge
from rolecraft.failure_taxonomy.judging.tally import Tally
from rolecraft.failure_taxonomy.report import Report
from rolecraft.trajectories._append import lock

TRIES = 3
"""So often a trace is asked about while calls fail; answers that came are reused."""
GIVE_UP = 6
"""So many tries in a row without a single answer, and the judge counts as gone."""
_OF_THE_SETTINGS = (MissingKey, RealModelForbidden, UnexpectedModelCall)
"""Errors that the next trace would meet too."""


class LabelsError(RolecraftError):
    """A file of labels cannot be written, or is something else."""


class Campaign:
    """Annotates `traces` (as `annotate_many` takes them), and writes their labels to `out`.

    `concurrency` is how many traces are under way; how many calls are is a matter of the judge's
    `Pace`. After `run`, the attributes say what became of it.
    """

    def __init__(
        self,
        traces: Trace | Iterable[Trace],
        *,
        judge: Judge | None = None,
        out: Path | str | None = None,
        format: str | None = None,  # noqa: A002 - the word that users know
        detectors: Sequence[Detector] = DETECTORS,
        concurrency: int = 8,
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"`concurrency` wants a number from 1, got {concurrency!r}.")
        self.traces = traces
        self.judge = judge
        self.out = None if out is None else Path(out)
        self.format = format
        self.detectors = detectors
        self.concurrency = concurrency
        self.tally = Tally()
        """The judge's calls."""
        self.unanswered: list[str] = []
        """Traces about which calls failed to the end: started again, they are asked about."""
        self.refused: dict[str, str] = {}
        """Traces that the model would not look at, and why."""
        self.skipped = 0
        """Traces that were not looked at, because the campaign had to stop."""
        self.stopped = ""
        """Why it had to stop; empty if it did not."""
        self._silence = 0
        """Tries in a row in which no call was answered."""

    async def run(self) -> AsyncGenerator[Report | TraceError, None]:
        """The report of each trace, or the error of a file that cannot be read, in order.

        Raises `LabelsError` if `out` exists and was not written by a campaign, or the disk
        refuses; `CacheError` if the judge's cache does; what a wrongly set up judge raises.
        """
        lines = None if self.out is None else _Lines(self.out)
        with lines or contextlib.nullcontext():
            each = in_order(self.each(), self._one, at_once=self.concurrency)
            async with aclosing(each) as results:
                async for result in results:
                    if result is None:
                        self.skipped += 1
                        continue
                    if isinstance(result, Report) and lines is not None:
                        lines.add(result)
                    yield result
            if lines is not None:
                lines.finish()

    def each(self) -> Iterator[Trace | TraceError]:
        """The traces, each once, however often it is named."""
        seen: set[str] = set()
        skip = () if self.out is None else (self.out.resolve(),)
        for trace in each_trace(self.traces, format=self.format, skip=skip):
            if isinstance(trace, Imported):
                name = os.path.abspath(trace.name)
                if name in seen:
                    continue
                seen.add(name)
            yield trace

    async def _one(self, trace: Trace | TraceError) -> Report | TraceError | None:
        if isinstance(trace, TraceError):
            return trace
        if self.stopped:
            return None
        try:
            return await self._annotate(trace)
        except TraceError as error:
            return error
        except LimitReached as error:
            self._stop(str(error))
            return None

    async def _annotate(self, trace: Trace) -> Report:
        name = trace.name if isinstance(trace, Imported) else str(trace)
        keeps_answers = self.judge is not None and self.judge.asker.cache is not None
        tries = TRIES if keeps_answers else 1  # else what was answered would be asked for again
        while True:
            tries -= 1
            with tallied() as tally:
                try:
                    report = await self._report(trace, self.judge)
                except _OF_THE_SETTINGS:
                    raise
                except ModelError as error:
                    self.refused[name] = str(error)
                    report = await self._report(trace, None)
                    report.problems.append(f"the judge did not look at it: {error}")
                    return report
                finally:
                    self.tally.add(tally)
            if not tally.failed:
                self._silence = 0
                return report
            self._silence = 0 if tally.calls else self._silence + 1
            if self._silence >= GIVE_UP:
                self._stop(f"the judge did not answer one call in {GIVE_UP} tries. {_why(report)}")
            if self.stopped or not tries:
                self.unanswered.append(name)
                return report

    def _stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason.strip()

    async def _report(self, trace: Trace, judge: Judge | None) -> Report:
        return await annotate(trace, judge=judge, format=self.format, detectors=self.detectors)


def _why(report: Report) -> str:
    reasons = [r for r in report.unjudged.values() if r.startswith("the model gave no answer")]
    return f"{reasons[0][:1].upper()}{reasons[0][1:]}" if reasons else ""


class _Lines:
    """A file of labels in the making; `finish` puts it in its place. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.part")
        self._file: IO[str] | None = None
        if path.exists() and not _is_written_by_us(path):
            raise LabelsError(
                f"`{path}` exists and is no file of labels from `rolecraft annotate`. "
                f"Name another file, or move that one away."
            )

    def __enter__(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("a", encoding="utf-8", errors="backslashreplace")
            lock(self._file.fileno())
            self._file.truncate(0)
        except BlockingIOError:
            self.__exit__()
            raise LabelsError(
                f"Another process is writing `{self.path}`. Wait for it, or name another file."
            ) from None
        except OSError as error:
            raise self._error(error) from error

    def add(self, report: Report) -> None:
        assert self._file is not None
        try:
            self._file.write(report.to_json() + "\n")
            self._file.flush()
        except OSError as error:
            raise self._error(error) from error

    def finish(self) -> None:
        assert self._file is not None
        try:
            os.replace(self._part, self.path)
            self._file.close()
        except OSError as error:
            raise self._error(error) from error

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _error(self, error: OSError) -> LabelsError:
        return LabelsError(f"`{self.path}` cannot be written: {error.strerror or error}.")


def _is_written_by_us(path: Path) -> bool:
    """True for an empty file and for one that begins with a line of a report."""
    try:
        with path.open("rb") as file:
            first = file.readline()
        line = json.loads(first) if first.strip() else {"trace": "", "judged": {}}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(line, dict) and {"trace", "judged"} <= line.keys()
