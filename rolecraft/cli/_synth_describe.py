"""`rolecraft synth describe`: the texts of issues, which name nothing of the solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import BaseUrl, Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import AtOnce, Folder, WriterUsd

if TYPE_CHECKING:
    from collections.abc import Callable

    from rolecraft.cli._models import Models
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.texts.describe import Described
    from rolecraft.synthesis.texts.text import IssueText


def describe(
    folder: Folder,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Who writes the texts. Without it, templates: they cost nothing.",
        ),
    ] = None,
    base_url: BaseUrl = None,
    usd: WriterUsd = None,
    concurrency: AtOnce = 8,
    again: Annotated[
        bool,
        typer.Option("--again", help="Write new texts for tasks that have one; else it is kept."),
    ] = False,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="So many texts for --show.")
    ] = 3,
    show: Annotated[
        bool, typer.Option("--show", help="Show some of the folder's texts to read.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write an issue for each valid candidate: what a user sees of the bug, and nothing more."""
    import asyncio

    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.texts.telling import TELLS_TOO_MUCH

    with Output(json=json, makes=True) as output:
        place = SynthesisFolder(folder)
        models = asked_model(model, base_url)
        with output.counter("texts") as count:

            def told(text: IssueText) -> None:
                count()
                output.result(record(text))

            found = asyncio.run(_describe(place, models, usd, concurrency, again, told))
        _say(found, place, output)
        if show:
            _show(place, sample, output)
        if found.stopped or found.failed:
            raise typer.Exit(ExitCode.INCOMPLETE)
        if models is None and TELLS_TOO_MUCH in found.without.values():
            output.then("rolecraft", "synth", "describe", folder, "--model", "MODEL")
        output.then("rolecraft", "synth", "gather", folder)


async def _describe(
    place: SynthesisFolder,
    models: Models | None,
    usd: float | None,
    concurrency: int,
    again: bool,
    told: Callable[[IssueText], None],
) -> Described:
    from rolecraft.synthesis.texts.describe import describe as described

    try:
        return await described(
            place,
            model=models.everyone if models is not None else None,
            usd=usd,
            at_once=concurrency,
            again=again,
            on_text=told,
        )
    finally:
        if models is not None:
            await models.aclose()


def asked_model(model: str | None, base_url: str | None) -> Models | None:
    """The model of `--model`. Raises `CommandLineError`, or `MissingKey` where a key is missing."""
    if model is None:
        if base_url is not None:
            raise CommandLineError("`--base-url` says where a model is: name it with `--model`.")
        return None
    from rolecraft.cli._models import Models

    models = Models(model, base_url=base_url)
    models.check_keys()
    return models


def record(text: IssueText) -> dict[str, object]:
    """A text as a JSON line."""
    return {
        "task": text.task,
        "source": text.source if text.has_text else None,
        "text": text.text,
        "why": text.why,
        "leaks": [str(leak) for leak in text.leaks],
        "model": text.model or None,
        "usd": text.usd,
    }


def cost(usd: float | None) -> str:
    """An amount of money for people."""
    return "price unknown" if usd is None else f"${usd:.6f}"


def _say(found: Described, place: SynthesisFolder, output: Output) -> None:
    from collections import Counter

    from rolecraft.trajectories.in_words import count

    for source, number in found.written.items():
        by = {"model": "by the model", "template": "by templates"}.get(source, source)
        output.say(f"{count(number, 'text')} {by}.")
    if found.alike:
        said = "says what another task's says as well" if found.alike == 1 else "say what others do"
        output.say(f"{found.alike:,} of them {said}: their failing tests tell no more.")
    if found.unproven:
        why = f": {found.why_unproven}" if found.why_unproven else ""
        output.say(f"The code of {found.unproven:,} of them could not be run{why}.")
    if found.kept:
        output.say(
            f"{count(found.kept, 'task')} had been described before (--again writes new texts)."
        )
    for why, number in Counter(found.without.values()).most_common():
        output.say(f"{count(number, 'task')} without a text: {why}.")
    if found.written["model"] or found.usd != 0.0:
        each = found.usd / found.total if found.usd is not None and found.total else None
        output.say(f"Cost: {cost(found.usd)} in all, {cost(each)} a text.")
    for task, why in list(found.failed.items())[:5]:
        output.warn(f"{task}: {why}")
    if len(found.failed) > 5:
        output.warn(f"… and {len(found.failed) - 5} more without an answer.")
    if found.stopped:
        output.warn(f"{found.stopped} The rest is left: call it again with more.")


def _show(place: SynthesisFolder, most: int, output: Output) -> None:
    from rolecraft.models.hashing import hash64
    from rolecraft.synthesis.ledger import LedgerView
    from rolecraft.synthesis.texts.text import IssueText

    with LedgerView(place.texts, IssueText, key=lambda each: each.task) as texts:
        names = sorted(
            (each.task for each in texts if each.has_text), key=lambda name: hash64("show", name)
        )
        for name in names[:most]:
            text = texts[name]
            by = f", {text.model}, {cost(text.usd)}" if text.model else ""
            output.say(f"--- {name} ({text.source}{by})", style="bold")
            output.say(text.text)
