"""`rolecraft synth select` and `stats`: which tasks there are, and those that are wanted."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Folder
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.synthesis.difficulty.select import Range
    from rolecraft.synthesis.difficulty.statistics import Statistics


def select(
    folder: Folder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The rows, as `tasks.jsonl` is.")
    ],
    pass_rate: Annotated[
        str | None,
        typer.Option("--pass-rate", metavar="LOW:HIGH", help="Share of attempts that solved it."),
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            "--solver", metavar="NAME", help="Whose attempts; else all but `reference`, `nothing`."
        ),
    ] = "",
    f2p: Annotated[
        str | None, typer.Option("--f2p", metavar="LOW:HIGH", help="Failing tests to mend.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="LOW:HIGH", help="Lines of the fix.")
    ] = None,
    files: Annotated[
        str | None, typer.Option("--files", metavar="LOW:HIGH", help="Files that the fix changes.")
    ] = None,
    modifier: Annotated[
        list[str] | None,
        typer.Option(
            "--modifier",
            metavar="NAME",
            help="This kind of bug, or a pattern such as 'op-*'. Can be given several times.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", metavar="SPLIT", help="Only `train` or `test`.")
    ] = "",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the tasks that are of a kind: a range is LOW:HIGH, LOW:, :HIGH or one number."""
    from rolecraft.synthesis.difficulty.select import ALL, Wanted, why_none
    from rolecraft.synthesis.difficulty.select import select as selected
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.trajectories.in_words import count
    from rolecraft.trajectories.whole_file import write_whole

    if split not in ("", "train", "test"):
        raise CommandLineError(f"`--split {split}`: write train or test.")
    with Output(json=json, makes=True) as output:
        wanted = Wanted(
            pass_rate=_range("--pass-rate", pass_rate),
            solver=solver,
            fail_to_pass=_range("--f2p", f2p) or ALL,
            lines=_range("--lines", lines) or ALL,
            files=_range("--files", files) or ALL,
            modifiers=tuple(modifier or ()),
            split=split,
        )
        rows = [
            jsonlib.dumps(row, ensure_ascii=False) + "\n"
            for row in selected(SynthesisFolder(folder), wanted)
        ]
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, "".join(rows))
        output.result({"tasks": len(rows), "out": str(out)})
        output.say(f"In `{out}`: {count(len(rows), 'task')}.")
        if not rows:
            output.warn(why_none(SynthesisFolder(folder), wanted))
            raise typer.Exit(ExitCode.INCOMPLETE)


def _range(option: str, text: str | None) -> Range | None:
    from rolecraft.synthesis.difficulty.select import Range

    if text is None:
        return None
    try:
        return Range.parse(text)
    except UsageError as error:
        raise CommandLineError(f"`{option}`: {error}") from error


def stats(
    folder: Folder,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw them: a .svg, .png or .pdf file."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say how many candidates and tasks there are, of which kinds, and how often solved."""
    from rolecraft.synthesis.difficulty.statistics import statistics
    from rolecraft.synthesis.folder import SynthesisFolder

    with Output(json=json) as output:
        found = statistics(SynthesisFolder(folder))
        output.result(found.record())
        if not json:
            _show(found, output)
        if plot is not None:
            from rolecraft.synthesis.difficulty.plot import draw

            draw(found, plot)
            output.note(f"Drawn: `{plot}`")


def _show(found: Statistics, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    output.say(
        f"{found.name}: {count(found.candidates, 'candidate')}, {sum(found.by_status.values()):,} "
        f"validated, {found.valid:,} valid, {count(found.tasks, 'task')}; "
        f"{count(found.tests, 'test')}.",
        style="bold",
    )
    rows: list[tuple[object, ...]]
    if found.by_status:
        rows = [(name, f"{number:,}") for name, number in found.by_status.items()]
        output.table("What became of them", ("status", "candidates"), rows, numeric=1)
    if found.valid:
        spread = found.f2p
        output.say(
            f"Tests to mend: {_number(spread.least)} to {_number(spread.most)}, half at most "
            f"{_number(spread.median)}, nine tenths at most {_number(spread.p90)}."
        )
    if found.alike:
        output.say(f"Issue texts that say what an earlier one says: {found.alike:,}.")
    if found.modifiers:
        rows = [
            (name, row.candidates, row.validated, row.valid, row.tasks,
             _number(row.fail_to_pass.median))
            for name, row in found.modifiers.items()
        ]  # fmt: skip
        head = ("modifier", "candidates", "validated", "valid", "tasks", "median F2P")
        output.table("Kinds of bugs", head, rows, numeric=1, whole=1)
    if found.files:
        rows = [(path, number) for path, number in found.files.items()]
        output.table("Files of code", ("file", "tasks"), rows, numeric=1, whole=1)
    if found.solvers:
        rows = [
            (name, row.attempts, row.resolved, row.tasks, _number(row.pass_rate),
             _number(row.turns), "unknown" if row.usd is None else f"{row.usd:.4f}")
            for name, row in found.solvers.items()
        ]  # fmt: skip
        columns = ("solver", "attempts", "resolved", "tasks", "pass rate", "answers", "USD each")
        output.table("Attempts", columns, rows, numeric=1)
        shares = [(row.pass_rate, row.resolved / row.attempts) for row in found.solvers.values()]
        if any(_number(rate) != _number(share) for rate, share in shares):
            output.say("A pass rate is the mean of the tasks' own, however often each was tried.")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
