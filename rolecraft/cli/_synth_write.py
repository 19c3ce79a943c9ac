"""`rolecraft synth write` and `combine`: bugs that models or patches write, and several as one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import BaseUrl, Debug, Json, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._synth_model import (
    MaxTokens,
    Price,
    RetryTimes,
    Timeout,
    asked_model,
    cost,
    in_options,
    say_cost,
    say_refused,
    say_unanswered,
)
from rolecraft.cli._synth_options import AtOnce, Folder, WriterUsd
from rolecraft.cli._synth_then import then_validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from rolecraft.cli._models import Models
    from rolecraft.synthesis.written.asked import Asked
    from rolecraft.synthesis.written.by_model import WrittenBugs
    from rolecraft.synthesis.written.given import GivenBugs


class How(StrEnum):
    """What `--how` may say."""

    MODIFY = "modify"
    REWRITE = "rewrite"


class PatchIs(StrEnum):
    """What `--polarity` may say."""

    FIX = "fix"
    BUG = "bug"


class Within(StrEnum):
    """What `--within` may say."""

    FILE = "file"
    MODULE = "module"


Patches = Annotated[
    Path | None,
    typer.Option(
        "--patches",
        metavar="DIR",
        help="Bugs that the .patch and .diff files of a folder tell of.",
    ),
]
Polarity = Annotated[
    PatchIs,
    typer.Option("--polarity", help="What they do: mend (they are taken back), or plant."),
]


def write(
    folder: Folder,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Who writes the bugs.")
    ] = None,
    base_url: BaseUrl = None,
    how: Annotated[
        How,
        typer.Option(
            "--how",
            help="Change a function so that it has a bug, or write one anew without seeing it.",
        ),
    ] = How.MODIFY,
    most: Annotated[
        int, typer.Option("--most", min=1, metavar="N", help="Ask so often altogether.")
    ] = 50,
    usd: WriterUsd = None,
    price: Price = None,
    concurrency: AtOnce = 8,
    timeout: Timeout = None,
    retries: RetryTimes = None,
    max_tokens: MaxTokens = None,
    patches: Patches = None,
    polarity: Polarity = PatchIs.FIX,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add bugs that a model writes, or that patches tell of, to the candidates."""
    import asyncio

    if (model is None) == (patches is None):
        raise CommandLineError(
            "Who writes the bugs? Give `--model MODEL`, or `--patches DIR`, and not both."
        )
    with Output(json=json, makes=True) as output, in_options():
        models = asked_model(
            model, base_url, price=price, timeout=timeout, retries=retries, debug=debug
        )
        if patches is not None:
            given = asyncio.run(_patches(folder, patches, polarity, output))
            _say_given(given, output)
            came_of_it = given.made + given.before
            short = bool(given.refused)
        else:
            assert models is not None
            asking = _model(folder, models, how, most, usd, seed, concurrency, max_tokens, output)
            found = asyncio.run(asking)
            _say_written(found, output)
            came_of_it = found.made or bool(found.stopped) or not (found.nothing or found.failed)
            short = bool(found.stopped or found.failed)
        then_validate(folder, output)
        if not came_of_it:
            raise typer.Exit(ExitCode.ERROR)
        if short:
            raise typer.Exit(ExitCode.INCOMPLETE)


def combine(
    folder: Folder,
    within: Annotated[
        Within, typer.Option("--within", help="Bugs of one file, or of the files of a folder.")
    ] = Within.FILE,
    size: Annotated[
        int, typer.Option("--size", min=2, metavar="N", help="So many bugs in each.")
    ] = 2,
    most: Annotated[
        int, typer.Option("--most", min=1, metavar="N", help="So many combinations altogether.")
    ] = 100,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add candidates that have several valid bugs at once."""
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.written.combining import combine as combined
    from rolecraft.trajectories.in_words import count

    with Output(json=json, makes=True) as output:
        with output.counter("combinations") as step:
            found = combined(
                SynthesisFolder(folder),
                within=within.value,
                size=size,
                most=most,
                seed=seed,
                on_candidate=lambda candidate: step(),
            )
        output.result({"candidates": found.made, "before": found.before})
        output.say(f"{count(found.made, 'candidate')}{_before(found.before)}.")
        then_validate(folder, output)


async def _patches(folder: Path, patches: Path, polarity: PatchIs, output: Output) -> GivenBugs:
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.written.given import read_patches, take_patches

    return await take_patches(
        SynthesisFolder(folder),
        read_patches(patches),
        polarity=polarity.value,
        on_asked=_tell(output),
    )


async def _model(
    folder: Path,
    models: Models,
    how: How,
    most: int,
    usd: float | None,
    seed: int,
    concurrency: int,
    max_tokens: int | None,
    output: Output,
) -> WrittenBugs:
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.written.by_model import MAX_TOKENS, write_bugs

    assert models.everyone is not None
    try:
        with output.bar("bugs", most) as step:
            tell = _tell(output)

            def told(asked: Asked) -> None:
                tell(asked)
                step(cost(asked.usd))

            return await write_bugs(
                SynthesisFolder(folder),
                models.everyone,
                how=how.value,
                most=most,
                usd=usd,
                seed=seed,
                at_once=concurrency,
                max_tokens=max_tokens or MAX_TOKENS,
                on_asked=told,
                on_wait=output.note,
            )
    finally:
        await models.aclose()


def _tell(output: Output) -> Callable[[Asked], None]:
    def told(asked: Asked) -> None:
        made = asked.candidate
        output.result(
            {
                "item": asked.item,
                "candidate": made.id if made is not None else None,
                "entity": made.entity if made is not None else None,
                "why": asked.why,
                "usd": asked.usd,
            }
        )
        if made is not None:
            spent = f", {cost(asked.usd)}" if made.modifier in ("modify", "rewrite") else ""
            output.say(f"{made.id} in {made.entity}{spent}")

    return told


def _before(count: int) -> str:
    return f", {count} from before" if count else ""


def _say_given(found: GivenBugs, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    output.say(f"{count(found.made, 'candidate')}{_before(found.before)}.")
    for name, paths in found.aside.items():
        output.note(f"{name}: its edits of tests are left aside: {', '.join(paths)}")
    for name, why in found.refused.items():
        output.warn(f"{name}: {why}")


def _say_written(found: WrittenBugs, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    made = count(found.made, "candidate")
    before = f"; {count(found.before, 'question')} had been asked before" if found.before else ""
    output.say(f"{made}{before}.")
    say_refused(found.nothing, output)
    if found.made or found.nothing:
        say_cost(found.usd, found.made, "candidate", output)
    say_unanswered(found.failed, found.stopped, output)
