"""`rolecraft label`: people read traces on a local web page and label their failures."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._judges import Format
from rolecraft.cli._options import Debug, Mapping, Modes, Out
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.labels import Labels
    from rolecraft.viewer.labelling import Desk, OpenTrace


def label(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Journals, logs, or folders of them.")
    ],
    out: Out = Path("labels"),
    suggest: Annotated[
        list[Path] | None,
        typer.Option(
            "--suggest",
            metavar="FILE",
            help="Labels of detectors or a judge (`rolecraft annotate --json`), shown to those "
            "who ask. Can be given several times.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            file_okay=False,
            help="Write what is labelled so far, as labels files and one table, and end.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")
    ] = True,
    format: Format = None,  # noqa: A002
    mapping: Mapping = None,
    modes: Modes = None,
    debug: Debug = False,
) -> None:
    """Label failures by hand: a page on this machine, for one or more annotators."""
    from rolecraft.viewer.labelling import Desk, export_folder

    output = Output(json=False, makes=True)
    opened = _open(paths, format, out, output)
    suggestions = _suggestions(suggest or [], opened, output)
    desk = Desk(opened, out, suggestions=suggestions)
    for problem in desk.problems:
        output.warn(problem)
    for name, annotators in desk.strays.items():
        output.warn(
            f"`{out}` has labels by {', '.join(annotators)} of `{name}`, which is not open here or "
            "has changed since. They are kept, and neither shown nor exported."
        )
    if export is not None:
        written = export_folder(desk, export)
        if not written:
            output.warn(
                f"Nothing to export: no round is finished, and nothing is decided, in `{out}`. In "
                "a finished round every mode has a verdict; the page says what is missing."
            )
            raise typer.Exit(ExitCode.ERROR)
        for path in written:
            output.say(str(path))
        for key, trace in desk.traces.items():
            for flawed, flaw in desk.gold_flaws(key).items():
                output.warn(f"Not in gold.jsonl: `{flawed}` of `{trace.name}` {flaw}.")
        return
    try:
        asyncio.run(_serve(desk, port, browser and _has_display(), output))
    except KeyboardInterrupt:  # the ordinary end
        output.note("Ended. Everything is saved; the same command goes on where you stopped.")


def _open(paths: list[Path], form: str | None, out: Path, output: Output) -> list[OpenTrace]:
    from rolecraft.viewer.labelling import open_traces

    traces = open_traces(paths, on_error=output.warn, format=form, leave_out=out)
    if not traces:
        output.warn("None of these can be read: there is nothing to label.")
        raise typer.Exit(ExitCode.ERROR)
    return traces


def _suggestions(files: list[Path], traces: list[OpenTrace], output: Output) -> list[Labels]:
    from rolecraft.failure_taxonomy.labels import read_labels

    found = [row for file in files for row in read_labels(file)]
    names = {trace.name for trace in traces}
    if found and not any(row.trace in names for row in found):
        raise CommandLineError(
            f"None of the suggestions is about a trace that is open: they name `{found[0].trace}`, "
            f"and open is `{traces[0].name}`. Give the same paths as to `rolecraft annotate`."
        )
    if others := sum(row.trace not in names for row in found):
        output.note(f"{others} of {len(found)} suggestions are about other traces.")
    return found


async def _serve(desk: Desk, port: int, browser: bool, output: Output) -> None:
    from rolecraft.trajectories.in_words import count
    from rolecraft.viewer.labelling.serving import LabellingServer

    server = LabellingServer(desk, port=port)
    traces = count(len(desk.traces), "trace")
    output.say(f"{traces} to label; labels are kept in `{desk.folder}`.")
    output.say(f"Open {server.address}")
    output.note("The address holds the key to the page. Ctrl+C ends; nothing is lost.")
    opener = None
    try:
        if browser:
            import webbrowser

            opener = server.write_opener(desk.folder)
            await asyncio.to_thread(webbrowser.open, opener.resolve().as_uri())
        await server.serve()
    finally:
        if opener is not None:
            opener.unlink(missing_ok=True)


def _has_display() -> bool:
    """False where the only browser would be one that takes over the terminal, or none at all."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
