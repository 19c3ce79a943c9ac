"""`rolecraft synth validate`: which candidates are tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Folder, Workers
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.validation import Settings

WORDS = {
    "valid": "some tests fail, the same ones each time: a task",
    "no_test_fails": "no test notices it",
    "too_many_fail": "more tests fail than --cap allows",
    "no_test_passes": "no test would be left to keep",
    "flaky": "a test did not do the same each time",
    "timeout": "a test does not end",
    "memory": "a test wants too much memory",
    "crashed": "the interpreter was ended",
    "does_not_load": "tests cannot be collected",
    "does_not_apply": "the change does not fit the code",
}


def validate(
    out: Folder,
    cap: Annotated[
        float,
        typer.Option("--cap", metavar="SHARE", help="The largest share of the tests that fails."),
    ] = 0.2,
    workers: Workers = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="What a test may take beyond ten times what it takes without a bug.",
        ),
    ] = 3.0,
    memory: Annotated[
        int,
        typer.Option("--memory", min=64, metavar="MIB", help="What a run may use."),
    ] = 1024,
    stop_after: Annotated[
        int | None,
        typer.Option("--stop-after", min=1, metavar="N", help="End when so many are valid."),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Forget the verdicts that there are, and begin anew.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find out which candidates some tests notice; those are tasks. Goes on where it was.

    The tests that can see a change run first, the whole suite for what is left.
    """
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.validation import Settings, Tally

    with Output(json=json, makes=True) as output:
        try:
            settings = Settings(cap=cap, time_limit=time_limit, memory_bytes=memory * 2**20)
        except UsageError as error:
            raise CommandLineError(str(error)) from error
        folder = SynthesisFolder(out)
        asyncio.run(_run(folder, settings, workers, stop_after, output, new=new))
        tally = Tally.of(folder)
        output.result({"what": "report", **tally.record()})
        rows = [(name, tally.statuses[name], why) for name, why in WORDS.items()]
        shown = [row for row in rows if row[1]]
        output.table("Candidates", ("status", "number", "because"), shown, whole=2)
        if tally.valid:
            output.say(
                f"{tally.valid} valid: of {tally.tests} tests a bug fails {tally.at(0.5)} in the "
                f"middle, and {tally.at(0.9)} or fewer with nine of ten."
            )
            output.then("rolecraft", "synth", "describe", out)


async def _run(
    folder: SynthesisFolder,
    settings: Settings,
    workers: int | None,
    stop_after: int | None,
    output: Output,
    *,
    new: bool,
) -> None:
    from rolecraft.synthesis.validation import validate_folder
    from rolecraft.trajectories.in_words import count

    with ExitStack() as stack:
        step: Callable[[str], None] = lambda state: None  # noqa: E731
        left = 0

        def begin(candidates: int, done: int) -> None:
            nonlocal step, left
            left = candidates - done
            if done:
                output.note(f"{done} of {candidates} candidates have their verdict already.")
            if left:
                step = stack.enter_context(output.bar("candidates", left))

        def aside(tests: Mapping[str, str]) -> None:
            output.warn(
                f"Without a bug, {count(len(tests), 'test')} that passed when the plan was made "
                f"did not pass now; no task counts on such. The first: {next(iter(tests))}"
            )

        running = validate_folder(
            folder,
            settings=settings,
            workers=workers,
            stop_after=stop_after,
            new=new,
            on_begin=begin,
            on_unsteady=aside,
        )
        began, done, valid = time.monotonic(), 0, 0
        async with aclosing(running) as verdicts:
            async for verdict in verdicts:
                done += 1
                valid += verdict.is_valid
                rate = done / (time.monotonic() - began)
                step(f"{valid} valid, {rate:.1f} a second, {_clock((left - done) / rate)} left")
                output.result(
                    {
                        "what": "verdict",
                        "candidate": verdict.candidate,
                        "status": verdict.status,
                        "why": verdict.why,
                        "fail_to_pass": len(verdict.fail_to_pass),
                        "seconds": verdict.seconds,
                    }
                )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
