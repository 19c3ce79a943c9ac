"""`rolecraft synth describe`: the texts of issues, which name nothing of the solution."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._options import BaseUrl, Debug, Json
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
    price: Price = None,
    concurrency: AtOnce = 8,
    timeout: Timeout = None,
    retries: RetryTimes = None,
    max_tokens: MaxTokens = None,
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

    with Output(json=json, makes=True) as output, in_options():
        place = SynthesisFolder(folder)
        models = asked_model(
            model, base_url, price=price, timeout=timeout, retries=retries, debug=debug
        )
        asked = _Asked()
        with output.counter("texts") as count:

            def told(text: IssueText) -> None:
                count()
                asked.add(text)
                output.result(record(text))

            describing = _describe(
                place, models, usd, concurrency, max_tokens, again, told, output.note
            )
            found = asyncio.run(describing)
        _say(found, asked, output)
        if show:
            _show(place, sample, output)
        has_text = found.total or found.kept > found.kept_without.total()
        if found.stopped or found.failed or (asked.refused and not asked.used):
            raise typer.Exit(ExitCode.INCOMPLETE if found.stopped or has_text else ExitCode.ERROR)
        if models is None and TELLS_TOO_MUCH in {*found.without.values(), *found.kept_without}:
            output.then("rolecraft", "synth", "describe", folder, "--model", "MODEL")
        if has_text:
            output.then("rolecraft", "synth", "gather", folder)


@dataclass(slots=True)
class _Asked:
    """What became of the questions to the model."""

    used: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Answers that could not be used, by the reason."""

    def add(self, text: IssueText) -> None:
        if text.source == "model":
            self.used += 1
        elif text.model:
            self.refused[text.why] += 1


async def _describe(
    place: SynthesisFolder,
    models: Models | None,
    usd: float | None,
    concurrency: int,
    max_tokens: int | None,
    again: bool,
    told: Callable[[IssueText], None],
    on_wait: Callable[[str], None],
) -> Described:
    from rolecraft.synthesis.asking import MAX_TOKENS
    from rolecraft.synthesis.texts.describe import describe as described

    try:
        return await described(
            place,
            model=models.everyone if models is not None else None,
            usd=usd,
            at_once=concurrency,
            max_tokens=max_tokens or MAX_TOKENS,
            again=again,
            on_text=told,
            on_wait=on_wait,
        )
    finally:
        if models is not None:
            await models.aclose()


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


def _say(found: Described, asked: _Asked, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    for source, number in found.written.items():
        by = {"model": "by the model", "template": "by templates"}.get(source, source)
        output.say(f"{count(number, 'text')} {by}.")
    say_refused(asked.refused, output)
    if found.alike:
        said = "says what another task's says as well" if found.alike == 1 else "say what others do"
        output.say(f"{found.alike:,} of them {said}: their failing tests tell no more.")
    if found.unproven:
        why = f": {found.why_unproven}" if found.why_unproven else ""
        output.say(f"The code of {found.unproven:,} of them could not be run{why}.")
    if kept := found.kept - found.kept_without.total():
        output.say(f"{count(kept, 'task')} had been described before (--again writes new texts).")
    for why, number in Counter(found.without.values()).most_common():
        output.say(f"{count(number, 'task')} without a text: {why}.")
    for why, number in found.kept_without.most_common():
        output.say(f"{count(number, 'task')} without a text, as before: {why}.")
    if asked.used or asked.refused:
        say_cost(found.usd, asked.used, "text", output)
    say_unanswered(found.failed, found.stopped, output)


def _show(place: SynthesisFolder, most: int, output: Output) -> None:
    from rolecraft.models.hashing import hash64
    from rolecraft.synthesis.ledger import LedgerView
    from rolecraft.synthesis.texts.text import IssueText

    with LedgerView(place.texts, IssueText, key=lambda each: each.task) as texts:
        names = sorted(
            (each.task for each in texts if each.has_text), key=lambda name: hash64("show", name)
        )
        if not names:
            output.say("There is no text to show.")
        for name in names[:most]:
            text = texts[name]
            by = f", {text.model}, {cost(text.usd)}" if text.model else ""
            output.say(f"--- {name} ({text.source}{by})", style="bold")
            output.say(text.text)
