"""A fine-tuning in this process or several: with its folder to itself, stopped as it is told."""

from __future__ import annotations

import contextlib
import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rolecraft.cli._background import (
    command_of_launcher,
    is_launched,
    is_on_first_machine,
    is_worker,
    own_command,
    runs_folder,
)
from rolecraft.cli._hub import fetch_shown, no_more_downloads
from rolecraft.cli._output import Output
from rolecraft.training.sft.settings import SETTINGS, SFTSettings

if TYPE_CHECKING:
    from rolecraft.training.hub import HubSettings, Kind
    from rolecraft.training.sft.run import SFTResult


def check_folder(settings: SFTSettings, *, resume: bool) -> None:
    """Refuse before the folder is claimed: its record stays that of the run that is there."""
    from rolecraft.training.background import claimant
    from rolecraft.training.sft.folders import check_output

    if (taken := claimant(settings.output.resolve())) is not None:
        raise taken
    check_output(settings, resume=resume)


def launch_processes(out: Path, processes: int) -> None:
    """Start this command as one distributed run, which has the folder to itself."""
    from rolecraft.training.background import claim, launch

    with claim(out, index=runs_folder()):
        if code := launch(own_command(), processes):
            raise typer.Exit(code)  # in the block, which writes down how the run ended


def _claimed(settings: SFTSettings, *, resume: bool) -> AbstractContextManager[None]:
    """The folder, for this run alone."""
    from rolecraft.training.background import claim, wait_for_claim
    from rolecraft.training.ranks import is_first_process

    out = settings.output
    if not is_worker():
        return claim(out, index=runs_folder())
    if is_launched():  # then the one that started all processes has claimed it
        return contextlib.nullcontext()
    if is_first_process():
        check_folder(settings, resume=resume)
        return claim(out, index=runs_folder(), command=command_of_launcher())
    if is_on_first_machine():
        wait_for_claim(out)
    return contextlib.nullcontext()


def _way_on(out: Path) -> str:
    if (out / SETTINGS).exists():
        return f"Go on with: rolecraft sft --out {shlex.quote(str(out))} --resume"
    return "Begin again with the same command."


def run_here(
    settings: SFTSettings, output: Output, hub: HubSettings, *, resume: bool, cache: Path | None
) -> SFTResult:
    """The result of a run that was trained to its end; one that was told to stop exits."""
    from rolecraft.cli._sft_console import SftConsole
    from rolecraft.training.background import StopSignals
    from rolecraft.training.ranks import is_first_process
    from rolecraft.training.sft.run import fine_tune

    console = SftConsole(output) if is_first_process() else None
    with _claimed(settings, resume=resume), StopSignals() as stop:
        no_more_downloads()  # what is fetched is fetched with time-outs, by a process of its own

        def fetch(name: str, kind: Kind, revision: str | None = None) -> Path:
            try:
                with stop.at_once():
                    return fetch_shown(name, kind, hub, output, revision=revision)
            except (KeyboardInterrupt, SystemExit):
                output.warn(
                    f"Stopped in the download of `{name}`; nothing to resume from but the part of "
                    f"it that is in the cache."
                )
                raise

        result = fine_tune(
            settings,
            resume=resume,
            listener=console,
            stop=lambda: stop.asked,
            cache=cache,
            fetch_model=lambda name, revision: fetch(name, "model", revision),
            fetch_data=lambda name: fetch(name, "dataset"),
            made_by=["rolecraft", *sys.argv[1:]],
        )
        if console is not None:
            for one in result.trained:
                console.ended(one)
        if not result.finished:
            if console is not None:
                output.warn(f"{result.how_it_stopped()} {_way_on(settings.output)}")
            raise SystemExit(stop.exit_code)  # likewise
        return result
