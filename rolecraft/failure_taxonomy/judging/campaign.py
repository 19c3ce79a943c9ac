"""Labels for many traces, from a judge that may be slow, dear and unreliable.

Invariant: the file of labels holds every trace that was annotated exactly once, in the order in
which the traces were named. It appears whole at the end; until then its lines stand in a hidden
file beside it. A campaign whose judge left something unanswered leaves an earlier file with more
labels as it was. What a killed campaign leaves behind is the cache of its judge: the same campaign
started again takes every answer that was completed from there, and asks only for the others.

One trace costs only itself: a file that cannot be read is reported, a call that failed is made
again, and a trace that the model refuses keeps what the detectors say.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from rolecraft.errors import (
    LimitReached,
    MissingKey,
    ModelError,
    RealModelForbidden,
    TraceError,
    UnexpectedModelCall,
    UsageError,
)
from rolecraft.failure_taxonomy._in_order import in_order
from rolecraft.failure_taxonomy.annotate import NOT_ASKED, Trace, annotate, each_trace
from rolecraft.failure_taxonomy.detectors import DETECTORS, Detector
from rolecraft.failure_taxonomy.formats import Imported
from rolecraft.failure_taxonomy.judging.asking import Asker, persistent, tallied
from rolecraft.failure_taxonomy.judging.judge import Judge
from rolecraft.failure_taxonomy.judging.labels_file import Labelled, LabelsError, LabelsFile
from rolecraft.failure_taxonomy.judging.tally import Tally
from rolecraft.failure_taxonomy.report import Report

TRIES = 3
"""So often a call is made that fails, before anything else is asked in its conversation."""
GIVE_UP = 6
"""So many tries in a row about traces without a single answer, and the judge counts as gone."""
_NOBODY_THERE = "no connection"
"""How a model's error says that its server could not be reached, after all retries."""
NOT_LOOKED = "the judge did not look at it"
"""Begins the problem of a trace that the model refused."""
NOBODY_LOOKED = "no detector decides this mode, and the judge did not look at the trace"
_OF_THE_SETTINGS = (MissingKey, RealModelForbidden, UnexpectedModelCall)
"""Errors that the next trace would meet too."""


L = TypeVar("L", bound=Labelled)


class Labelling(ABC, Generic[L]):
    """Labels `traces` (as `annotate_many` takes them), and writes the labels to `out`.

    `asker` asks the model; None where none is asked. `concurrency` is how many traces are under
    way; how many calls are is a matter of the asker's `pace`. After `run`, the attributes say what
    became of it.
    """

    def __init__(
        self,
        traces: Trace | Iterable[Trace],
        *,
        asker: Asker | None = None,
        out: Path | str | None = None,
        format: str | None = None,  # noqa: A002 - the word that users know
        concurrency: int = 8,
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"`concurrency` wants a number from 1, got {concurrency!r}.")
        self.traces = traces
        self.asker = asker
        self.out = None if out is None else Path(out)
        self.format = format
        self.concurrency = concurrency
        self.tally = Tally()
        """The model's calls."""
        self.unanswered: list[str] = []
        """Traces about which calls failed to the end: started again, they are asked about."""
        self.refused: dict[str, str] = {}
        """Traces that the model would not look at, and why."""
        self.skipped = 0
        """Traces that were not looked at, because the campaign had to stop."""
        self.stopped = ""
        """Why it had to stop; empty if it did not."""
        self.kept_earlier = False
        """True if `out` is left as it was, with more labels than this came to."""
        self._silence = 0
        """Tries in a row in which no call was answered."""
        self._answered = False
        """True once a call about some trace was answered."""

    @abstractmethod
    async def make(self, trace: Trace, *, ask: bool) -> L:
        """The labels of one trace; without the model if not to `ask`."""

    async def run(self) -> AsyncGenerator[L | TraceError, None]:
        """The labels of each trace, or the error of a file that cannot be read, in order.

        Raises `LabelsError` if `out` exists and was not written by a campaign, if it has labels of
        a model and none is asked now, or if the disk refuses; `CacheError` if the cache does; what
        a wrongly set up model raises.
        """
        lines = None if self.out is None else LabelsFile(self.out)
        if lines is not None and self.asker is None and await asyncio.to_thread(lines.judged):
            raise LabelsError(
                f"`{self.out}` has labels of a judge, which would be lost without one. Name "
                f"another file, or the judge as well (`--judge`): answers that it kept are reused."
            )
        with lines or contextlib.nullcontext():
            each = in_order(self.each(), self._one, at_once=self.concurrency)
            async with aclosing(each) as results:
                async for result in results:
                    if result is None:
                        self.skipped += 1
                        continue
                    if not isinstance(result, TraceError) and lines is not None:
                        lines.add(result)
                    yield result
            if lines is not None:
                partial = bool(self.stopped or self.refused or self.unanswered)
                self.kept_earlier = not lines.finish(partial=partial)

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

    async def _one(self, trace: Trace | TraceError) -> L | TraceError | None:
        if isinstance(trace, TraceError):
            return trace
        if self.stopped:
            return None
        try:
            return await self._tried(trace)
        except TraceError as error:
            return error
        except LimitReached as error:
            self._stop(str(error))
            return None

    async def _tried(self, trace: Trace) -> L:
        name = trace.name if isinstance(trace, Imported) else _id(trace)
        rounds = 0  # of its calls may several be under way: what fails together counts once
        lost = False

        def again(error: ModelError, times: int) -> bool:
            nonlocal rounds, lost
            if times > rounds:
                rounds = times
                self._heard(tally, str(error))
            more = times < TRIES and not self.stopped
            lost = lost or not more
            return more

        with tallied() as tally, persistent(again):
            try:
                labels = await self.make(trace, ask=True)
            except _OF_THE_SETTINGS:
                raise
            except ModelError as error:
                self.refused[name] = str(error)
                self._heard(tally, str(error))
                labels = await self.make(trace, ask=False)
                labels.problems.append(f"{NOT_LOOKED}: {error}")
                return labels
            finally:
                self.tally.add(tally)
                self._answered = self._answered or tally.calls > 0
        if lost:
            self.unanswered.append(name)
        if tally.calls or not tally.failed:
            self._silence = 0
        return labels

    def _heard(self, tally: Tally, why: str) -> None:
        """A call about a trace failed; if it goes on like this, stop."""
        self._silence = 0 if tally.calls else self._silence + 1
        if _NOBODY_THERE in why and not (self._answered or tally.calls):
            self._stop(f"the judge cannot be reached. {why}")
        if self._silence >= GIVE_UP:
            self._stop(f"the judge did not answer one call in {GIVE_UP} tries. {why}")

    def _stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason.strip()


class Campaign(Labelling[Report]):
    """Annotates `traces`, with a judge for what detectors leave open."""

    def __init__(
        self,
        traces: Trace | Iterable[Trace],
        *,
        judge: Judge | None = None,
        out: Path | str | None = None,
        format: str | None = None,  # noqa: A002
        detectors: Sequence[Detector] = DETECTORS,
        concurrency: int = 8,
    ) -> None:
        asker = None if judge is None else judge.asker
        super().__init__(traces, asker=asker, out=out, format=format, concurrency=concurrency)
        self.judge = judge
        self.detectors = detectors

    async def make(self, trace: Trace, *, ask: bool) -> Report:
        judge = self.judge if ask else None
        report = await annotate(trace, judge=judge, format=self.format, detectors=self.detectors)
        if self.judge is not None and not ask:
            report.findings = [
                replace(row, reason=NOBODY_LOOKED) if row.reason == NOT_ASKED else row
                for row in report.findings
            ]
        return report


def _id(trace: Trace) -> str:
    return str(getattr(getattr(trace, "trajectory", trace), "id", trace))
