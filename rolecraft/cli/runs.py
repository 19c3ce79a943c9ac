"""`rolecraft runs`: what runs there are; their logs; to stop them, and to go on with them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._background import WATCHED_SECONDS, runs_folder, say_started
from rolecraft.cli._log_lines import log_lines
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.training.background import RunError, RunRecord

runs = typer.Typer(
    no_args_is_help=True,
    help="List runs in the background and others with an output folder; follow, stop, resume them.",
)

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Its output folder, or its name in the list or a part."),
]
_LOG_BEGINS = re.compile("==> (.+) <==")
LINGERS_SECONDS = 2.0
"""So long `logs -f` waits, when a run has ended, for somebody to resume it."""


@runs.command("list")
def list_runs(
    prune: Annotated[
        bool, typer.Option("--prune", help="Forget runs whose output folder is not there any more.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List all runs, newest first: how each stands, its last step and loss, and what it left."""
    from rolecraft.training.background import RunRecord, forget, name_of
    from rolecraft.training.background import runs as all_runs

    index = runs_folder()
    with Output(json=json) as output:

        def broken(error: RunError) -> None:
            output.warn(str(error))

        rows = []
        for run in all_runs(index, on_error=broken):
            if isinstance(run, RunRecord):
                row = _row(run)
            elif prune:
                forget(index, run)
                output.note(f"Forgotten: `{run}` is not there any more.")
                continue
            else:
                row = {"name": name_of(run), "state": "gone", "output": str(run)}
            output.result(row)
            rows.append(row)
            if isinstance(run, RunRecord):
                _name_stale(run, output)
        if not rows:
            output.say("No runs.")
        elif not json:
            is_narrow = output.page.is_terminal and output.page.width < _WIDE
            cells = [_HEAD, *map(_cells, rows)]
            if is_narrow:
                cells = [(*each[:2], *each[-2:]) for each in cells]
            head, *table = cells
            output.table("Runs", head, table, numeric=2 if is_narrow else 4, whole=2)


_HEAD = ("run", "state", "started", "output", "pid", "step", "loss or reward")
_WIDE = 80
"""On narrower terminals there are the name, the state, the step and what was learnt."""


def _row(run: RunRecord) -> dict[str, Any]:
    from rolecraft.training.background import name_of, progress_of

    return {
        "name": name_of(run.output),
        "state": run.state(),
        "exit_code": None if run.ended is None else run.ended.exit_code,
        "pid": None if run.process is None else run.process.pid,
        "started": run.started,
        "ended": None if run.ended is None else run.ended.at,
        **progress_of(run.output),
        "stale": [process.pid for process in run.stale()],
        "log": None if run.log is None else str(run.log),
        "output": str(run.output),
        "command": list(run.command),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    state = row["state"]
    if state in ("failed", "stopped") or (state == "killed" and row["exit_code"]):
        state += f" ({row['exit_code']})"
    learnt = row.get("reward", row.get("loss"))  # the loss of a policy says little
    output = Path(row["output"])
    here = Path.cwd()
    return (
        row["name"],
        state,
        row.get("started", "")[5:16].replace("T", " "),
        str(output.relative_to(here) if output.is_relative_to(here) else output),
        str(row["pid"]) if state == "running" else "",
        f"{row['step']:g}" if "step" in row else "",
        "" if learnt is None else f"{learnt:.3g}",
    )


def _name_stale(run: RunRecord, output: Output) -> None:
    """Processes that a dead run left: which, and what to do. They are nobody's to kill unasked."""
    from rolecraft.training.background import command_of

    left = run.stale()
    if not left:
        return
    output.warn(f"The run in `{run.output}` is over, and processes that it started are not:")
    for process in left:
        output.warn(f"  {process.pid}: {command_of(process.pid)[:200]}")
    pids = " ".join(str(process.pid) for process in left)
    output.warn(f"They may hold memory and ports. If they are of no use any more: kill {pids}")


@runs.command()
def logs(
    run: Run,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Go on until the run has ended, also with the log of a resume."
        ),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a run and those it goes on from have written."""
    from rolecraft.training import background

    with Output(json=json) as output:
        found = background.find_run(run, runs_folder())
        if not background.logs_of(found.output):
            output.note("It was started in a terminal, and has no log.")
            return
        text = (
            background.follow(found.output, linger_seconds=LINGERS_SECONDS)
            if follow
            else background.read_logs(found.output)
        )
        log: Path | None = None
        for line in log_lines(text):
            named = _LOG_BEGINS.fullmatch(line)
            if json and named and Path(named[1]) in background.logs_of(found.output):
                log = Path(named[1])
            elif json:
                output.result({"event": "line", "log": str(log), "text": line})
            else:
                output.say(line)
        now = background.RunRecord.read(found.output)
        if follow and now is not None and (ended := now.how_it_ended()):
            output.result({"event": "ended", **_row(now)})
            output.note(f"The run {ended}.")


@runs.command()
def stop(
    run: Run,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="S", help="Seconds it has for a checkpoint.")
    ] = 300.0,
    kill: Annotated[
        bool, typer.Option("--kill", help="End it on the spot: SIGKILL, without a checkpoint.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell a run to write a checkpoint and end (SIGTERM), and wait until it has."""
    from rolecraft.training import background

    with Output(json=json, makes=True) as output:
        found = background.find_run(run, runs_folder())
        if not kill and found.process is not None and found.alive:
            output.note(f"Waiting for process {found.process.pid} to end …")
        ended = background.stop(found, wait_seconds=wait, kill=kill)
        output.result(_row(ended))
        output.say(f"The run {ended.how_it_ended()}.")
        _name_stale(ended, output)
        output.note(f"Go on with it: rolecraft runs resume {shlex.quote(str(ended.output))}")


@runs.command()
def resume(
    run: Run,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run in the background: its command again, with --resume."""
    from rolecraft.training import background

    with Output(json=json, makes=True) as output:
        found = background.find_run(run, runs_folder())
        _name_stale(found, output)
        say_started(
            lambda: background.resume(found, index=runs_folder(), watch_seconds=WATCHED_SECONDS),
            output,
        )
