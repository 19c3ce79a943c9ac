"""`rolecraft synth`: tasks made of real code, by planting bugs in it. Each step is a file."""

from __future__ import annotations

import typer

from rolecraft.cli._synth_check import check
from rolecraft.cli._synth_describe import describe
from rolecraft.cli._synth_difficulty import difficulty
from rolecraft.cli._synth_gather import gather, push
from rolecraft.cli._synth_make import make
from rolecraft.cli._synth_plan import plan
from rolecraft.cli._synth_plant import modifiers, plant
from rolecraft.cli._synth_select import select, stats
from rolecraft.cli._synth_validate import validate
from rolecraft.cli._synth_write import combine, write

synth = typer.Typer(
    no_args_is_help=True,
    help="Make tasks of any project with tests: bugs planted in its code, validated, gathered, "
    "described as issues.",
)


@synth.callback()
def steps() -> None:
    """Make tasks of any project with tests: plan, plant, validate, describe, gather."""


synth.command()(make)
synth.command()(plan)
synth.command()(plant)
synth.command()(modifiers)
synth.command()(write)
synth.command()(combine)
synth.command()(validate)
synth.command()(check)
synth.command()(describe)
synth.command()(gather)
synth.command()(push)
synth.command()(difficulty)
synth.command()(select)
synth.command()(stats)
