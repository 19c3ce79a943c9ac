"""What commands that ask a model about many traces have in common: a file, and a last word."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._wording import in_words_of_commands

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.failure_taxonomy.judging.campaign import Labelling

OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        dir_okay=False,
        help="File for the labels, one JSON line a trace. With a judge, answers are kept "
        "beside it: after a stop of any kind the same command goes on.",
    ),
]


def check_paths(paths: Sequence[Path]) -> None:
    """Raise `CommandLineError` for a path at which nothing is: it is mistyped."""
    missing = [f"`{path}`" for path in paths if not path.exists()]
    if missing:
        there = "is no such file or folder" if len(missing) == 1 else "are no such files or folders"
        raise CommandLineError(f"There {there}: {', '.join(missing)}.")


def check_out(out: Path | None, paths: Sequence[Path]) -> None:
    """Raise `CommandLineError` if the file of labels is one of the traces, or is about others."""
    if out is None:
        return
    if out.resolve() in {path.resolve() for path in paths}:
        raise CommandLineError(f"`--out {out}` is one of the traces: name another file.")
    others = _of_others(out, paths)
    if others:
        traces = "1 trace" if len(others) == 1 else f"{len(others)} traces"
        raise CommandLineError(
            f"`--out {out}` has labels of {traces} that this run does not look at "
            f"({_some(others)}), and would lose them. Name another file, or move that one away."
        )


def _of_others(out: Path, paths: Sequence[Path]) -> list[str]:
    """The traces in a file of labels that are in none of `paths`."""
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.formats import trace_files

    here: set[str] = set()
    for path in paths:
        with contextlib.suppress(TraceError):  # the run itself says what is wrong with it
            files = trace_files(path) if path.is_dir() else [path]
            here |= {os.path.abspath(file) for file in files}
    names = {os.path.basename(file) for file in here}
    others = []
    for trace in _traces(out):
        # A file may hold several traces, `FILE#ID`, and what was labelled may have been moved.
        candidates = (trace, trace.rpartition("#")[0])
        known = any(
            os.path.abspath(name) in here
            or (os.path.basename(name) in names and not os.path.exists(name))
            for name in candidates
            if name
        )
        if not known:
            others.append(trace)
    return others


def _traces(out: Path) -> Iterator[str]:
    """What the lines of a file of labels are about. Any other file is for `run` to refuse."""
    try:
        with out.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("trace"), str):
                    yield line["trace"]
    except (OSError, ValueError, RecursionError):
        return


@contextmanager
def telling_the_cost(campaign: Labelling[Any], output: Output) -> Iterator[None]:
    """At Ctrl+C, say what was paid by then, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if campaign.asker is not None:
            output.warn(f"Judge {campaign.asker.model.name}, so far: {campaign.tally}")
        if campaign.out is not None:
            output.warn(f"`{campaign.out}` is not written before the end.")
        output.warn(_goes_on(campaign).strip())
        raise


def told(campaign: Labelling[Any], done: int, output: Output) -> bool:
    """Say where the labels are, what they cost, and what is left to do; True if something is."""
    if campaign.asker is not None:
        output.say(f"Judge {campaign.asker.model.name}: {campaign.tally}")
    if campaign.kept_earlier:
        output.warn(f"`{campaign.out}` is left as it was: it has more labels.")
    elif campaign.out is not None:
        output.say(f"Labels of {done} {'trace' if done == 1 else 'traces'}: {campaign.out}")
    for reason, traces in _by_reason(campaign.refused).items():
        number = "1 trace" if len(traces) == 1 else f"{len(traces)} traces"
        output.warn(
            f"The judge refused {number} ({_some(sorted(traces))}): {in_words_of_commands(reason)}"
        )
    if campaign.stopped:
        left = f", with {campaign.skipped} not looked at" if campaign.skipped else ""
        # A refusal was told with its reason, and the same command would meet it again.
        refusal = next((why for why in campaign.refused.values() if why in campaign.stopped), "")
        reason = in_words_of_commands(campaign.stopped.replace(refusal, "").strip())
        more = " It would refuse again: mend the reason first." if refusal else _goes_on(campaign)
        output.warn(f"Stopped{left}: {reason}{more}")
    if campaign.unanswered:
        output.warn(
            f"Calls failed to the end about {_some(campaign.unanswered)}, so what they would have "
            f"said is unknown there.{'' if campaign.stopped else _goes_on(campaign)}"
        )
    return bool(campaign.stopped or campaign.unanswered or campaign.refused)


def _goes_on(campaign: Labelling[Any]) -> str:
    if campaign.asker is None or campaign.asker.cache is None:
        return ""
    return " The same command goes on, and pays for no answer twice."


def _by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for trace, reason in refused.items():
        by.setdefault(reason, []).append(trace)
    return by


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
