"""`rolecraft synth check`: valid candidates, graded as a solver's work is."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_validate import Folder, Workers

if TYPE_CHECKING:
    from rolecraft.synthesis.candidates import Candidate
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.validation.checking import Checked
    from rolecraft.synthesis.verdicts import Verdict


def check(
    out: Folder,
    again: Annotated[
        int, typer.Option("--again", min=1, metavar="N", help="So often each is graded.")
    ] = 3,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, metavar="N", help="So many of them, spread evenly."),
    ] = None,
    cheats: Annotated[
        int, typer.Option("--cheats", min=0, metavar="N", help="Try cheats on so many of them.")
    ] = 3,
    workers: Workers = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Grade each valid candidate with its reference, with nothing and with cheats.

    The reference must resolve it each time, and nothing else may; else it ends with 4.
    """
    from rolecraft.errors import UsageError
    from rolecraft.synthesis.folder import SynthesisFolder

    with Output(json=json) as output:
        folder = SynthesisFolder(out)
        total = sum(1 for _ in _tasks(folder))
        if not total:
            raise UsageError(f"Nothing in `{out}` is valid yet: `rolecraft synth validate {out}`.")
        chosen = min(sample or total, total)
        numbers = {index * total // chosen for index in range(chosen)}
        found = asyncio.run(_run(folder, numbers, again, cheats, workers, output))
        _show(found, again, output)
        if not all(each.sound for each in found):
            raise typer.Exit(ExitCode.GATE)


def _tasks(folder: SynthesisFolder) -> Iterator[tuple[Candidate, Verdict]]:
    """Valid candidates. Verdicts are in the order of candidates, but some may have none."""
    from rolecraft.synthesis.ledger import read_ledger
    from rolecraft.synthesis.validation import candidates_of
    from rolecraft.synthesis.verdicts import Verdict

    verdicts = read_ledger(folder.verdicts, Verdict, key=lambda each: each.candidate)
    valid = {verdict.candidate: verdict for verdict in verdicts if verdict.is_valid}
    for candidate in candidates_of(folder):
        if candidate.id in valid:
            yield candidate, valid[candidate.id]


async def _run(
    folder: SynthesisFolder,
    numbers: set[int],
    again: int,
    cheats: int,
    workers: int | None,
    output: Output,
) -> list[Checked]:
    from rolecraft.synthesis.plan import Plan
    from rolecraft.synthesis.validation.checking import check as checks

    tasks = (task for number, task in enumerate(_tasks(folder)) if number in numbers)
    running = checks(
        Plan.load(folder),
        tasks,
        again=again,
        cheat=cheats,
        workers=workers or len(os.sched_getaffinity(0)),
    )
    found: list[Checked] = []
    with output.bar("tasks", len(numbers)) as step:
        async with aclosing(running) as each_checked:
            async for checked in each_checked:
                found.append(checked)
                output.result(
                    {
                        "what": "checked",
                        "task": checked.task,
                        "sound": checked.sound,
                        "resolved": checked.resolved,
                        "empty_resolved": checked.empty_resolved,
                        "problems": checked.problems,
                        "seconds": checked.seconds,
                    }
                )
                step("sound" if checked.sound else f"{checked.task}: {checked.problems[0]}"[:60])
    return found


def _show(found: list[Checked], again: int, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    runs = again * len(found)
    record = {
        "tasks": len(found),
        "sound": sum(each.sound for each in found),
        "resolved_share": sum(each.resolved for each in found) / runs,
        "empty_resolved_share": sum(each.empty_resolved for each in found) / runs,
        "flaky": sum(bool(each.flaky) for each in found),
        "cheats": sum(len(each.cheats) for each in found),
        "seconds": round(sum(each.seconds for each in found), 1),
    }
    output.result({"what": "report", **record})
    output.say(
        f"{record['sound']} of {count(len(found), 'task')} held: the reference resolves "
        f"{100 * record['resolved_share']:.1f} % of {runs} times, an empty patch "
        f"{100 * record['empty_resolved_share']:.1f} %; {record['flaky']} flaky, "
        f"{count(sum(len(each.cheats) for each in found), 'cheat')} taken for a solution."
    )
    wrong = [each for each in found if not each.sound]
    for each in itertools.islice(wrong, 10):
        output.warn(f"{each.task}: {'; '.join(each.problems)}")
