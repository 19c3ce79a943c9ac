"""Annotate traces: detectors first, then, if one is given, a judge for what they left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rolecraft.errors import TraceError, UsageError
from rolecraft.failure_taxonomy._in_order import in_order
from rolecraft.failure_taxonomy.attribution import decisive
from rolecraft.failure_taxonomy.detectors import DETECTORS, Detector, repeated_text
from rolecraft.failure_taxonomy.evidence import verified
from rolecraft.failure_taxonomy.formats import Imported, read, read_all, trace_files
from rolecraft.failure_taxonomy.judging.judge import Judge
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.failure_taxonomy.report import Report
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.models.base import Model
from rolecraft.trajectories.events import FailureFinding
from rolecraft.trajectories.trajectory import Trajectory


class HasTrajectory(Protocol):
    """A run, an environment or a role: what has a `trajectory`."""

    @property
    def trajectory(self) -> Trajectory: ...


Trace: TypeAlias = Trajectory | HasTrajectory | Imported | Path | str
"""What can be annotated: a trajectory, a run or an import that has one, or the path of a file."""

NOT_ASKED = "no detector decides this mode, and no judge was given"


async def annotate(
    trace: Trace,
    *,
    judge: Judge | Model | str | None = None,
    format: str | None = None,  # noqa: A002 - the word that users know
    detectors: Sequence[Detector] = DETECTORS,
) -> Report:
    """Say for each of the 14 failure modes whether it occurs in a trace, with evidence.

    `judge` is a model, its name (`"openai/o3"`) or a `Judge` with settings of its own; it is asked
    about the modes that no detector decided. Without one, these stay `unknown`. `format` names
    the format of a file; it is recognised otherwise.

    Raises `TraceError` for a file that cannot be read, and what `Judge.judge` raises.
    """
    if isinstance(judge, (Model, str)):
        judge = Judge(judge)
    view, name = await asyncio.to_thread(_open, trace, format)
    report = await asyncio.to_thread(_detect, view, name, detectors)
    if judge is not None:
        opened = [mode for mode in MODES if mode not in report.judged]
        report.opinion = await judge.judge(view, modes=opened)
        by_judge = _by_mode(report.opinion.findings)
        kept = [finding for finding in report.findings if finding.mode not in by_judge]
        report.findings = _by_taxonomy([*kept, *report.opinion.findings])
        report.decisive = decisive(report.findings, view)
    return report


async def annotate_many(
    traces: Trace | Iterable[Trace],
    *,
    judge: Judge | Model | str | None = None,
    format: str | None = None,  # noqa: A002
    detectors: Sequence[Detector] = DETECTORS,
    concurrency: int = 8,
) -> AsyncIterator[Report | TraceError]:
    """Annotate several traces, `concurrency` at a time.

    A folder stands for the files below it, a file for all traces in it.

    Yields in order, for each trace its report, or the error of a file that cannot be read: one
    broken file does not cost the others. Everything else that `annotate` raises comes out.
    """
    if concurrency < 1:
        raise UsageError(f"`concurrency` wants a number from 1, got {concurrency!r}.")
    if isinstance(judge, (Model, str)):
        judge = Judge(judge)

    async def one(trace: Trace | TraceError) -> Report | TraceError:
        if isinstance(trace, TraceError):
            return trace
        try:
            return await annotate(trace, judge=judge, format=format, detectors=detectors)
        except TraceError as error:
            return error

    each = each_trace(traces, format=format)
    async with aclosing(in_order(each, one, at_once=concurrency)) as reports:
        async for report in reports:
            yield report


def each_trace(
    traces: Trace | Iterable[Trace],
    *,
    format: str | None = None,  # noqa: A002
    skip: Collection[Path] = (),
) -> Iterator[Trace | TraceError]:
    """Every trace that is meant, one by one, files read as they are come to.

    A folder stands for the files below it but for those in `skip` (resolved paths). In the place
    of a file that cannot be read stands its error.
    """
    single = isinstance(traces, (str, Path, Trajectory)) or hasattr(traces, "trajectory")
    listed: Any = [traces] if single else traces
    for trace in listed:
        if not isinstance(trace, (str, Path)):
            yield trace
            continue
        try:
            files = [trace]
            if Path(trace).is_dir():
                files = [file for file in trace_files(trace) if file.resolve() not in skip]
        except TraceError as error:
            yield error
            continue
        for file in files:
            yield from _of_file(file, format)


def _of_file(file: Path | str, format: str | None) -> Iterator[Imported | TraceError]:  # noqa: A002
    try:
        yield from read_all(file, format=format)
    except TraceError as error:
        yield error


def _open(trace: Trace, format: str | None) -> tuple[TraceView, str]:  # noqa: A002
    """The trace for detectors, and what reports call it."""
    if isinstance(trace, (str, Path)):
        return TraceView(read(trace, format=format)), str(trace)
    if isinstance(trace, Imported):
        return TraceView(trace.trajectory), trace.name
    trajectory = trace if isinstance(trace, Trajectory) else getattr(trace, "trajectory", None)
    if not isinstance(trajectory, Trajectory):
        raise UsageError(
            f"`annotate` takes a `Trajectory`, a run that has one, or a path; got {trace!r}."
        )
    return TraceView(trajectory), trajectory.id


def _detect(view: TraceView, name: str, detectors: Sequence[Detector]) -> Report:
    said: list[FailureFinding] = []
    for detector in detectors:
        for finding in _findings(detector, view):
            fact = finding.source == "environment"
            held = verified(finding, view.by_seq, fact=fact, silent=view.silent)
            if isinstance(held, str):
                raise UsageError(
                    f"Detector `{detector.name}` has a finding for {finding.mode!r} that {held}: "
                    f"{finding!r}. A `present` names events, quotes one of them and names its role."
                )
            said.append(held)
    by_mode = _by_mode(said)
    findings = [row for mode in MODES for row in _settle(mode, by_mode.get(mode, []))]
    return Report(
        trace=name,
        format=str(view.about.get("format", "rolecraft")),
        findings=findings,
        diagnostics=repeated_text(view),
        decisive=decisive(findings, view),
        warnings=list(view.about.get("warnings", ())),
        problems=list(view.trajectory.problems),
    )


def _findings(detector: Detector, view: TraceView) -> list[FailureFinding]:
    try:
        return list(detector.judge(view))
    except StopIteration as error:  # it cannot leave a thread: whoever waits would wait forever
        raise UsageError(
            f"Detector `{detector.name}` raised `StopIteration`: a `next()` of its found nothing. "
            "Give it a default, `next(…, None)`."
        ) from error


def _settle(mode: str, said: list[FailureFinding]) -> list[FailureFinding]:
    """What all detectors together say about a mode: any `present` counts, else an `absent`."""
    for verdict in ("present", "absent"):
        rows = [finding for finding in said if finding.verdict == verdict]
        if rows:
            return rows if verdict == "present" else rows[:1]
    reason = "; ".join(finding.reason for finding in said) or NOT_ASKED
    source = said[0].source if len(said) == 1 else ""
    return [FailureFinding(mode, "unknown", source=source, reason=reason)]


def _by_mode(findings: Iterable[FailureFinding]) -> dict[str, list[FailureFinding]]:
    by_mode: dict[str, list[FailureFinding]] = {}
    for finding in findings:
        by_mode.setdefault(finding.mode, []).append(finding)
    return by_mode


def _by_taxonomy(findings: Iterable[FailureFinding]) -> list[FailureFinding]:
    order = list(MODES)
    return sorted(findings, key=lambda finding: order.index(finding.mode))
