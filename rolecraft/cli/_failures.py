"""Failures in words: what was found, and how many of the modes were judged, by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.failure_taxonomy import Report
    from rolecraft.trajectories import FailureFinding


def coverage(reports: Sequence[Report]) -> str:
    """One sentence over all traces: the modes that were decided in at least one, and by what."""
    from rolecraft.failure_taxonomy import MODES

    by: dict[str, dict[str, None]] = {}
    for report in reports:
        for mode, sources in report.judged.items():
            by.setdefault(mode, {}).update(dict.fromkeys(sources))
    text = f"{len(by)} of the {len(MODES)} modes {'was' if len(by) == 1 else 'were'} judged"
    if len(reports) != 1:
        text += f" in at least one of {len(reports)} traces"
    alike: dict[str, list[str]] = {}
    for mode in MODES:
        if mode in by:
            alike.setdefault(" and ".join(by[mode]), []).append(mode)
    if len(alike) == 1 and len(by) > 1:
        return f"{text}, all by {next(iter(alike))}."
    if alike:
        listed = [f"{', '.join(modes)} by {source}" for source, modes in alike.items()]
        text += f": {'; '.join(listed)}"
    return f"{text}."


def left_open(reports: Sequence[Report]) -> list[str]:
    """Why modes were judged in no trace, or not in all: one sentence for each reason."""
    by: dict[str, dict[str, int]] = {}
    for report in reports:
        for mode, reason in report.unjudged.items():
            traces = by.setdefault(reason or "nobody said why", {})
            traces[mode] = traces.get(mode, 0) + 1
    return [
        f"Not judged: {', '.join(modes)}: {reason}{_in_how_many(modes.values(), len(reports))}"
        for reason, modes in by.items()
    ]


def _in_how_many(traces: Collection[int], total: int) -> str:
    """In how many traces modes were left open: a range, where it is not the same for all."""
    if total <= 1:
        return ""
    least, most = min(traces), max(traces)
    if least == total:
        return f" (in all {total} traces)"
    number = str(most) if least == most else f"{least} to {most}"
    return f" (in {number} of {total} traces)"


def counts(reports: Sequence[Report]) -> dict[str, int]:
    """For each mode that is present somewhere, the number of traces in which it is."""
    from rolecraft.failure_taxonomy import MODES

    found = Counter(mode for report in reports for mode in {f.mode for f in report.present})
    return {mode: found[mode] for mode in MODES if mode in found}


def failures_table(report: Report, output: Output) -> None:
    """The failures of one trace, for people."""
    from rolecraft.failure_taxonomy import MAST_V3, MODES
    from rolecraft.trajectories.in_words import count

    judged = f"{count(len(report.judged), 'mode')} of {len(MODES)} judged"
    if not report.present:
        # A trace that nobody could judge must not read as a clean one.
        verdict = "no failure found" if report.judged else "nothing could be judged"
        output.say(f"{report.trace}: {verdict}, {judged}")
        return
    rows = [
        [
            f"{MODES[finding.mode].name}\n{f'{MAST_V3.code(finding.mode)} {finding.mode}'.strip()}",
            f"{finding.role}\n{_events(finding.events)}",
            _evidence(finding),
        ]
        for finding in report.present
    ]
    found = count(len(report.present), "failure")
    output.table(f"{report.trace}: {found}, {judged}", ["failure", "where", "evidence"], rows)
    if report.decisive is not None:
        output.say(f"Decisive: {report.decisive.mode} at event {report.decisive.step}\n")


def _evidence(finding: FailureFinding) -> str:
    """What was said or done, why that is a failure, and who says so."""
    from rolecraft.trajectories.in_words import one_line

    quote = [one_line(finding.quote, 160)] if finding.quote else []
    why = [f"why: {one_line(finding.reason, 400)}"] if finding.reason else []
    return "\n".join([*quote, *why, f"({finding.source})"])


def _events(events: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, events[:4])) + (f", … ({len(events)})" if len(events) > 4 else "")
    return f"{'event' if len(events) == 1 else 'events'} {shown}"


def say_remedies(present: Mapping[str, int], output: Output, *, most: int = 3) -> None:
    """What to edit about the most frequent modes."""
    from rolecraft.failure_taxonomy.remedies import remedy_for

    order = sorted(present, key=lambda mode: -present[mode])
    if not order:
        return
    output.say("What to do, the most frequent first:")
    for mode in order[:most]:
        remedy = remedy_for(mode)
        output.say(f"  {mode}: edit {', '.join(remedy.edit)}. {remedy.tactical}")
        parts = f" ({', '.join(remedy.parts)})" if remedy.parts else ""
        output.say(f"    Structure: {remedy.structural}{parts}", style="dim")
    if len(order) > most:
        output.say(f"  … and {len(order) - most} more modes.", style="dim")
