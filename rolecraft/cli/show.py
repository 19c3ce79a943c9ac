"""`rolecraft show`: read a run in the terminal, as a diagram, or as a web page."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._failures import coverage, failures_table, left_open
from rolecraft.cli._judges import Format
from rolecraft.cli._options import Debug, Json, Mapping
from rolecraft.cli._output import Output, usage_record
from rolecraft.cli._tokens import say_tokens, token_records
from rolecraft.errors import UnknownName
from rolecraft.trajectories import trace_files
from rolecraft.trajectories.backlog import PENDING_SUFFIX
from rolecraft.trajectories.in_words import one_line
from rolecraft.trajectories.timings import TIMINGS_SUFFIX

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Report
    from rolecraft.failure_taxonomy.formats import Imported
    from rolecraft.trajectories import Trajectory


MOST_IDS = 20
"""So many ids are listed of a file that holds more traces."""


class Diagram(StrEnum):
    SEQUENCE = "sequence"
    STATE = "state"


def show(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A journal, the file that `run` wrote, or a log of another tool; FILE#ID of one "
            "that holds several traces.",
        ),
    ],
    events: Annotated[
        bool, typer.Option("--events", help="Print every event too: who did what in which round.")
    ] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Look for failures with the detectors and mark them.")
    ] = False,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Print the tokens of model calls too: which the model was given, and which it "
            "generated, with log-probability and policy version.",
        ),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="PATH",
            help="With --tokens: folder of the tokenizer, where the record does not name it.",
        ),
    ] = None,
    diagram: Annotated[
        Diagram | None,
        typer.Option("--diagram", help="Print one Mermaid diagram instead."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            "--role", metavar="NAME", help="With --diagram state or --tokens: this role only."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", dir_okay=False, help="Write a web page instead."),
    ] = None,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what happened in a run."""
    from rolecraft.failure_taxonomy import annotate

    with Output(json=json) as output:
        if role is not None and diagram is not Diagram.STATE and not tokens:
            raise CommandLineError("`--role` chooses one of `--diagram state` or `--tokens`.")
        if tokenizer is not None and not tokens:
            raise CommandLineError("`--tokenizer` reads the tokens of `--tokens`.")
        file, part = _file_and_part(path)
        _check_journal(file)
        trace = _the_trace(file, part, format)
        trajectory = trace.trajectory
        report = asyncio.run(annotate(trace)) if failures else None
        record = _record(trace, file, report)
        if tokens:
            record["tokens"] = token_records(trajectory, role=role, tokenizer=tokenizer)
        if diagram is not None:
            record["diagram"] = _diagram(trajectory, diagram, role)
        if html is not None:
            record["html"] = str(html)
            _write_page(html, trace, file, report)
        output.result(record)
        if html is not None:
            output.say(f"Wrote `{html}`.")
        elif diagram is not None:
            output.say(record["diagram"].rstrip("\n"))
        else:
            if events:
                _read_aloud(trajectory, report, output)
            if tokens:
                say_tokens(trajectory, record["tokens"], output)
            _summary(trace, file, report, output, events=events)


def _file_and_part(path: Path) -> tuple[Path, str]:
    """A trace as `annotate` names it, `FILE#ID`, in its two parts; a file may have a `#` itself."""
    name = str(path)
    if not path.exists():
        for at, char in enumerate(name):
            if char == "#" and Path(name[:at]).is_file():
                return Path(name[:at]), name[at + 1 :]
    return path, ""


def _the_trace(file: Path, part: str, form: str | None) -> Imported:
    """The one trace that is meant. Raises `CommandLineError` if it is not clear which that is."""
    from rolecraft.failure_taxonomy.formats import read_all

    found = {trace.trajectory.id: trace for trace in read_all(file, format=form)}
    if part and part not in found:
        raise CommandLineError(str(UnknownName(f"In `{file}`, trace", part, found)))
    if not part and len(found) > 1:
        ids = list(found)
        first = shlex.quote(f"{file}#{ids[0]}")
        more = f", … ({len(ids)} in all)" if len(ids) > MOST_IDS else ""
        raise CommandLineError(
            f"`{file}` holds {len(ids)} traces: show one, `rolecraft show {first}`. Their ids: "
            f"{', '.join(ids[:MOST_IDS])}{more}."
        )
    return found[part] if part else next(iter(found.values()))


def _check_journal(path: Path) -> None:
    """Raise `CommandLineError` for a path that names no run, but something beside it."""
    if path.is_dir():
        first = trace_files(path)[0]
        raise CommandLineError(
            f"`{path}` is a folder: show one run in it, `rolecraft show {first}`, or say what "
            f"fails in all of them, `rolecraft annotate {path}`."
        )
    for suffix, what in ((PENDING_SUFFIX, "what is not in it yet"), (TIMINGS_SUFFIX, "its times")):
        if path.name.endswith(suffix):
            journal = path.name.removesuffix(suffix).removesuffix(".jsonl") + ".jsonl"
            raise CommandLineError(
                f"`{path}` belongs to a journal and has {what}: show that, `rolecraft show "
                f"{path.with_name(journal)}`."
            )


def _diagram(trajectory: Trajectory, diagram: Diagram, role: str | None) -> str:
    if diagram is Diagram.SEQUENCE:
        return trajectory.sequence_diagram()
    from rolecraft.trajectories import state_machines
    from rolecraft.trajectories.states import state_diagrams

    machines = state_machines(trajectory)
    if role is None:
        moved = [machine for machine in machines.values() if machine.transitions]
        if len(moved) == 1:
            return f"%% {one_line(moved[0].role, 80)}\n{moved[0].mermaid()}"
        return state_diagrams(moved)
    if role not in machines:
        raise CommandLineError(f"`--role`: {UnknownName('Role', role, machines)}")
    return machines[role].mermaid()


def _write_page(html: Path, trace: Imported, file: Path, report: Report | None) -> None:
    from rolecraft.viewer import trajectory_page, write_page

    looked = " --failures" if report is not None else ""
    page = trajectory_page(
        trace.trajectory,
        journal=file,
        findings=report.findings if report is not None else None,
        judged=coverage([report]) if report is not None else "",
        made_by=f"rolecraft show {trace.name}{looked} --html {html}",
    )
    try:
        write_page(html, page)
    except OSError as error:
        raise CommandLineError(f"`{html}` cannot be written: {error.strerror}.") from error


def _record(trace: Imported, file: Path, report: Report | None) -> dict[str, Any]:
    from rolecraft.viewer.ending import ending
    from rolecraft.viewer.reading import task_of
    from rolecraft.viewer.result import failure_sentences

    trajectory = trace.trajectory
    end = ending(trajectory, file)
    usage, rows = _costs(trajectory)
    record: dict[str, Any] = {
        "trace": trace.name,
        "trajectory": trajectory.id,
        "task": task_of(trajectory),
        "roles": trajectory.roles,
        "events": len(trajectory.events),
        "messages": sum(1 for _ in trajectory.of("message")),
        "stop": trajectory.stop_reason,
        "usage": usage,
        "table": rows,
        "costs": [asdict(row) for row in trajectory.costs()],
        "signals": {signal.name: signal.value for signal in trajectory.signals},
        "problems": trajectory.problems,
    }
    if failed := failure_sentences(trajectory):
        record["failed"] = failed
    if end.waiting:
        record["approvals"] = [
            {"role": event.role, "action": event.data.get("action"), "key": event.data.get("key")}
            for event in end.waiting
        ]
    if end.pending:
        record["pending"] = end.pending
    if report is not None:
        record["findings"] = report.to_dict()["findings"]
    return record


_OF_CALLS = ("calls", "prompt_tokens", "completion_tokens", "usd", "retries", "asked_again")


def _costs(trajectory: Trajectory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the run cost, and each role; null where the trace's format says nothing of it."""
    table = trajectory.role_table()
    usage, rows = usage_record(trajectory.usage), [asdict(row) for row in table]
    unknown = set(_OF_CALLS) if "model calls" in table.unrecorded else set()
    unknown |= {"actions", "tool_calls"} if "actions" in table.unrecorded else set()
    for line in (usage, *rows):
        line |= dict.fromkeys(unknown & line.keys())
    return usage, rows


def _read_aloud(trajectory: Trajectory, report: Report | None, output: Output) -> None:
    """Every event, in order."""
    from rolecraft.viewer.reading import findings_by_event, steps

    marked = findings_by_event(report.findings) if report is not None else {}
    time = None
    for step in steps(trajectory):
        if step.minor and step.seq not in marked:
            continue
        if step.time != time and step.time > 0:
            output.say(f"\nround {step.time}", style="dim")
        time = step.time
        output.step(step, [finding.mode for finding in marked.get(step.seq, ())])
    output.say()


def _summary(
    trace: Imported, file: Path, report: Report | None, output: Output, *, events: bool
) -> None:
    """What it was about, how it ended, who did and paid what; the failures, if looked for."""
    from rolecraft.trajectories.in_words import count
    from rolecraft.viewer.ending import ending
    from rolecraft.viewer.reading import task_of
    from rolecraft.viewer.result import failure_sentences, measured_sentences

    trajectory = trace.trajectory
    end = ending(trajectory, file)
    output.say(trajectory.id, style="bold")
    if task := task_of(trajectory):
        output.say(task if len(task) <= 400 else one_line(task, 400))
    output.say(
        f"Stopped: {end.word}; "
        f"{count(len(trajectory.events), 'event')}, "
        f"{count(sum(1 for _ in trajectory.of('message')), 'message')}."
    )
    for sentence in (*failure_sentences(trajectory), *end.sentences):
        output.say(sentence, style="yellow")
    for sentence in measured_sentences(trajectory):
        output.say(sentence)
    if table := trajectory.role_table():
        output.say(f"\n{table}\n")
    costs = trajectory.costs()
    if len({row.model for row in costs}) > 1 or costs.total.reused or costs.total.cached_tokens:
        output.say(f"{costs}\n")
    if report is not None:
        failures_table(report, output)
        output.say(coverage([report]))
        for reason in left_open([report]):
            output.say(reason, style="dim")
    for problem in trajectory.problems:
        output.say(f"Could not be read: {problem}", style="yellow")
    if not events and output.page.is_terminal:
        more = "--events every event, --diagram sequence|state pictures, --html FILE a page"
        output.note(f"More of {trace.name}: {more}.")
