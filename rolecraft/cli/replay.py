"""`rolecraft replay`: play a recorded run again, without any model, and compare."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._target import load_target, user_errors
from rolecraft.environments import Team
from rolecraft.errors import Diverged


def replay(
    target: Annotated[
        str,
        typer.Argument(metavar="FILE.py:NAME", help="The team or role that was run, as for `run`."),
    ],
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The file that `run` wrote.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Play a recorded run again without asking any model, and compare each event.

    The code of roles runs again; what models and actions gave comes from the journal, which is
    not changed. So it shows whether code that was changed would still have done the same.
    """
    from rolecraft.trajectories import load
    from rolecraft.trajectories.in_words import count
    from rolecraft.trajectories.recovery import UNFINISHED

    with Output(json=json) as output:
        team = load_target(target, journal)
        if not isinstance(team, Team):
            raise CommandLineError("`replay` plays the run of a team or role, not of a scenario.")
        if not journal.is_file():
            raise CommandLineError(f"There is no journal `{journal}`.")
        try:
            with user_errors("the replay failed"):
                run = asyncio.run(team.replay(journal))
        except Diverged as error:
            output.result({"journal": str(journal), "same": False, "seq": error.seq})
            output.warn(str(error))
            raise typer.Exit(ExitCode.INCOMPLETE) from None
        events = len(run.trajectory.events)
        output.result({"journal": str(journal), "same": True, "events": events, "stop": run.stop})
        output.say(f"The same: {count(events, 'event')}, byte for byte; no model was asked.")
        recorded = load(journal)
        stop = recorded.stop_reason
        if stop is None or stop in UNFINISHED:
            left = len(recorded.events) - events
            rest = f"; {count(left, 'event')} of an unfinished round left out" if left else ""
            how = "it was cut off" if stop is None else f"it stopped with {stop!r}"
            output.say(f"That run was not over: {how}{rest}.", style="yellow")
